"""get_rows: rows from where an index says, bit for bit, everything else unchanged."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import get_rows
from pykernels.reference.rows import get_rows as reference
from tests.harness import Case, Form, Operand, caps, random_form, values
from tests.kernels.rows.rows_cases import (
    BEYOND,
    FAR_BEYOND,
    FORMS,
    PAIRS,
    WIDTHS,
    compare,
    distinct,
    widened,
)

pytestmark = pytest.mark.gpu

Move = tuple[Operand, Operand, Operand]


def check(case: Case, moves: list[Move], error: str | None = None) -> None:
    """Run all calls of a case at once and compare each with the reference."""
    case.build()
    want = [reference(s.array, i.array, d.array) for s, i, d in moves]
    before = [d.array.copy() for _, _, d in moves]

    def run() -> None:
        for s, i, d in moves:
            get_rows(s.tensor, i.tensor, d.tensor)
        if error is not None:
            with pytest.raises(pk.IndexRangeError, match=error):
                case.dev.sync()

    results = case.run(run)
    outputs = [o for o in case.operands if o.output]
    for k, (s, i, d) in enumerate(moves):
        got = results[outputs.index(d)]
        what = (
            f"{s.dtype} {s.shape} {s.strides} at {s.first}, {i.dtype} {i.shape} {i.strides} -> "
            f"{d.dtype} {d.shape} {d.strides} at {d.first}"
        )
        compare(got, want[k], before[k], s.dtype != d.dtype, what)


def add(
    case: Case, src: str, dst: str, shape: tuple[int, ...], i_shape: tuple[int, ...], *,
    index: str = "int32", lead: tuple[int, ...] | None = None, s_form: Form | None = None,
    i_form: Form | None = None, d_form: Form | None = None, bad: float = 0.0,
) -> Move:  # fmt: skip
    """Rows of src, `shape` (..., m, k), to dst (*lead, n, k)."""
    lead = i_shape[:-1] if lead is None else lead
    n = len(lead) + 2
    s_form = widened(s_form, len(shape)) if s_form else None
    places = distinct(case.rng, i_shape, shape[-2], index, bad)
    if not bad:
        places %= max(shape[-2], 1)
    d_form = widened(d_form, n) if d_form else None
    return (
        case.input(values(case.rng, src, shape), s_form, buffer="src"),
        case.input(places, i_form, buffer="index"),
        case.output((*lead, i_shape[-1], shape[-1]), dst, d_form, buffer="dst"),
    )


@pytest.mark.sample
@pytest.mark.parametrize(("src", "dst"), PAIRS)
def test_get_rows_matches_reference(dev: pk.Device, src: str, dst: str) -> None:
    case = Case(dev, seed=len(src) * 7 + len(dst))
    check(case, [
        add(case, src, dst, (m, k), (n,), index=index, s_form=f, d_form=g)
        for (n, k, m), (f, g), index in itertools.product(
            ((9, 64, 13), (15, 33, 5), (3, 12, 8)),
            ((Form(), Form()), (Form(phase=1), Form(phase=3)), (Form(gap=2), Form(gap=1))),
            ("int32", "int64"),
        )
    ])  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.sample
def test_get_rows_of_every_width(dev: pk.Device, width: int) -> None:
    case = Case(dev, seed=width)
    check(case, [
        add(case, s, d, (m, width), (n,), d_form=Form(phase=phase))
        for s, d in (("float32", "float16"), ("float16", "float32"), ("float16", "float16"))
        for n, m in ((1, 1), (7, 2), (33, 40))
        for phase in (0, 1)
    ])  # fmt: skip


@pytest.mark.parametrize("shape", ((), (1,), (5,), (3, 4), (2, 1, 5), (2, 3, 1, 4)))
def test_get_rows_takes_an_index_of_any_shape(dev: pk.Device, shape: tuple[int, ...]) -> None:
    case = Case(dev, seed=1)
    moves = []
    for dtype, index in itertools.product(("float32", "float16"), ("int32", "int64")):
        s = case.input(values(case.rng, dtype, (6, 10)), Form(phase=1), buffer="src")
        places = case.rng.integers(0, 6, shape).astype(index)
        form = random_form(case.rng, len(shape), repeats=True)
        i = case.input(places, form, buffer="index")
        moves.append((s, i, case.output((*shape, 10), dtype, Form(phase=1), buffer="dst")))
    check(case, moves)


@pytest.mark.parametrize("dst", ("float16", "float32"))
def test_get_rows_of_any_layout(dev: pk.Device, dst: str) -> None:
    case = Case(dev, seed=3)
    src = "float32" if dst == "float16" else "float16"
    index_forms = (Form(), Form(phase=1), Form(steps=(3,)), Form(steps=(-1,)), Form(steps=(0,)))
    check(case, [
        add(case, src, dst, (7, k), (11,), s_form=f, d_form=g, i_form=index_forms[n % 5],
            index=("int32", "int64")[n // 2 % 2])
        for k in (12, 33)
        for n, (f, g) in enumerate(itertools.product((*FORMS, Form(steps=(0, 1))), FORMS))
    ])  # fmt: skip


def test_get_rows_repeats_both(dev: pk.Device) -> None:
    """The leading axes of src and of the index divide those of dst."""
    case = Case(dev, seed=4)
    moves = [
        add(case, "float32", d, (*s_lead, 5, 12), (*i_lead, 6), lead=lead, s_form=form)
        for lead, s_lead, i_lead in (
            ((4, 6), (4, 6), (4, 6)), ((4, 6), (), (2, 3)), ((4, 6), (2, 3), ()),
            ((4, 6), (2, 1), (4, 3)), ((4, 6), (6,), (4, 1)), ((8,), (2,), (4,)),
            ((3,), (1,), (1,)),
        )
        for form in (Form(), Form(gap=4, phase=8), Form(order=(1, 0)))
        for d in ("float32", "float16")
    ]  # fmt: skip
    check(case, moves)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sample
def test_get_rows_random(dev: pk.Device, seed: int) -> None:
    """Fifty parameter sets each: dtypes, shapes, layouts, repeats, indices out of range."""
    rng = np.random.default_rng(seed)
    case = Case(dev, seed)
    moves = []
    for _ in range(50):
        src, dst = PAIRS[rng.integers(len(PAIRS))]
        lead = tuple(int(rng.choice([1, 2, 4])) for _ in range(rng.integers(0, 3)))
        n, m, k = int(rng.integers(1, 12)), int(rng.integers(1, 16)), int(rng.choice(WIDTHS[:16]))
        parts = [
            tuple(int(rng.choice([d for d in (1, 2, 4) if size % d == 0])) for size in lead)
            for _ in range(2)
        ]
        s_lead, i_lead = (p[int(rng.integers(len(p) + 1)) :] for p in parts)
        s = case.input(values(rng, src, (*s_lead, m, k)),
                       random_form(rng, len(s_lead) + 2, repeats=True), buffer="src")  # fmt: skip
        places = distinct(rng, (*i_lead, n), m, str(rng.choice(["int32", "int64"])), 0.1)
        i = case.input(places, random_form(rng, len(i_lead) + 1, repeats=False), buffer="index")
        form = random_form(rng, len(lead) + 2, repeats=False)
        moves.append((s, i, case.output((*lead, n, k), dst, form, buffer="dst")))
    check(case, moves, error=r"\[get_rows\] index must be in \[0, ")


def test_get_rows_refuses_negative_and_large_indices(dev: pk.Device) -> None:
    for index, out_there in (("int32", (*BEYOND, 8)), ("int64", (*FAR_BEYOND, 8))):
        for value in out_there:
            case = Case(dev)
            s = case.input(values(case.rng, "float32", (8, 5)))
            i = case.input(np.array([[4, 5, 1], [3, value, -3]], index))
            d = case.output((2, 3, 5), "float16", Form(phase=1))
            check(case, [(s, i, d)], rf"\[0, 8\) but is {value} at position \(1, 1\) .*out: 2")


def test_get_rows_in_one_buffer(dev: pk.Device) -> None:
    """src and the index are read as they were before the call."""
    rng = np.random.default_rng(8)
    for k, how, over in itertools.product((8, 5), ("apart", "touching", 0, 3, 16, -8), "si"):
        case = Case(dev, seed=2)
        i = case.input(rng.integers(0, 6, 9), buffer="one")
        s = case.input(values(rng, "float32", (6, k)), Form(phase=k % 2), buffer="one")
        where: dict[str, object] = {"buffer": "one"}
        if isinstance(how, int):
            where = {"over": i, "delta": 0} if over == "i" else {"over": s, "delta": how * 4}
        elif how == "touching":
            where["near"] = 0
        check(case, [(s, i, case.output((9, k), "float16" if k == 5 else "float32", **where))])


@pytest.mark.crowd
def test_get_rows_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=1):
        case = Case(dev)
        check(case, [add(case, "float32", "float16", (999, 40), (1500,), bad=0.01)],
              r"\[get_rows\] index must be")  # fmt: skip


def test_get_rows_of_nothing(dev: pk.Device) -> None:
    case = Case(dev)
    check(case, [
        add(case, "float32", "float32", shape, i_shape)
        for shape, i_shape in (((4, 0), (3,)), ((4, 5), (0,)), ((4, 5), (0, 3)), ((0, 5), (0,)))
    ])  # fmt: skip
    dst = dev.ones((3, 4))
    get_rows(dev.zeros((0, 4)), dev.zeros(3, "int32"), dst)
    with pytest.raises(pk.IndexRangeError, match=r"\[0, 0\) but is 0 at position \(0,\) .*out: 3"):
        dev.sync()
    assert (dst.numpy() == 1).all()


def test_get_rows_rejects(dev: pk.Device) -> None:
    f32, index = dev.zeros((5, 4)), dev.zeros((2, 3), "int32")
    dst = dev.zeros((2, 3, 4))
    repeat = r"src \(..., m, k\) must repeat to dst"
    ints, bytes_ = dev.zeros((3, 3), "int32"), dev.zeros((2, 3, 4), "int8")
    wrong = [
        (pk.ShapeError, repeat, (dev.zeros((3, 5, 4)), index, dst)),
        (pk.ShapeError, repeat, (dev.zeros(4), index, dst)),
        (pk.ShapeError, repeat, (f32, index[0], dst[0, 0])),
        (pk.ShapeError, r"last axis but have shapes", (f32, index, dev.zeros((2, 3, 5)))),
        (pk.ShapeError, r"index must have shape \(2, 3\)", (f32, index[:, :2], dst)),
        (pk.ShapeError, r"index must have shape \(2, 3\)", (f32, ints, dst)),
        (pk.ShapeError, r"must divide each other but are \[2, 3\]",
         (dev.zeros((2, 5, 4)), ints, dev.zeros((6, 3, 4)))),
        (pk.DTypeError, r"index must be int32 or int64 but is float32", (f32, dst[..., 0], dst)),
        (pk.DTypeError, r"dst must have the dtype of src", (f32, index, bytes_)),
        (pk.AliasError, r"dst is broadcast", (f32, index, f32[:1, :1].broadcast_to((2, 3, 4)))),
    ]  # fmt: skip
    for error, match, args in wrong:
        with pytest.raises(error, match=rf"\[get_rows\] .*{match}"):
            get_rows(*args)
    dev.sync()


def test_rows_of_float32_as_16_bits(dev: pk.Device) -> None:
    """Four normal numbers at a time have a short way to float16, and not to bfloat16."""
    x = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    index = dev.tensor(np.array([0, 2, 4, 5], np.int32))
    for dtype in ("float16", "bfloat16"):
        dst = dev.zeros((4, 8), dtype)
        get_rows(dev.tensor(x), index, dst)
        want = dev.tensor(x[[0, 2, 4, 5]]).astype(dtype)
        assert dst.numpy().tobytes() == want.numpy().tobytes(), dtype
