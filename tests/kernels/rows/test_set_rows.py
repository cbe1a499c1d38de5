"""set_rows: rows to where an index says, bit for bit, everything else unchanged."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import set_rows
from pykernels.reference.rows import set_rows as reference
from tests.harness import Case, Form, Operand, caps, random_form, values
from tests.kernels.copy.test_cpy import around
from tests.kernels.rows.rows_cases import FORMS, PAIRS, WIDTHS, compare, distinct, widened

pytestmark = pytest.mark.gpu

Move = tuple[Operand, Operand, Operand]


def check(case: Case, moves: list[Move], error: str | None = None) -> None:
    """Run all calls of a case at once and compare each with the reference."""
    case.build()
    want = [reference(s.array, i.array, d.array) for s, i, d in moves]
    before = [d.array.copy() for _, _, d in moves]

    def run() -> None:
        for s, i, d in moves:
            set_rows(s.tensor, i.tensor, d.tensor)
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
    case: Case, src: str, dst: str, shape: tuple[int, ...], m: int, *, index: str = "int32",
    s_form: Form | None = None, i_form: Form | None = None, d_form: Form | None = None,
    i_shape: tuple[int, ...] | None = None, bad: float = 0.0,
) -> Move:  # fmt: skip
    """Rows of `shape` (..., n, k) to dst (..., m, k)."""
    n = len(shape)
    places = distinct(case.rng, i_shape or shape[:-1], m, index, bad)
    return (
        case.input(values(case.rng, src, shape), s_form and widened(s_form, n), buffer="src"),
        case.input(places, i_form, buffer="index"),
        case.output((*shape[:-2], m, shape[-1]), dst, d_form and widened(d_form, n), buffer="dst"),
    )


@pytest.mark.sample
@pytest.mark.parametrize(("src", "dst"), PAIRS)
def test_set_rows_matches_reference(dev: pk.Device, src: str, dst: str) -> None:
    case = Case(dev, seed=len(src) * 7 + len(dst))
    check(case, [
        add(case, src, dst, (n, k), m, index=index, s_form=f, d_form=g)
        for (n, k, m), (f, g), index in itertools.product(
            ((9, 64, 13), (5, 33, 5), (3, 12, 8)),
            ((Form(), Form()), (Form(phase=1), Form(phase=3)), (Form(phase=2), Form(gap=1))),
            ("int32", "int64"),
        )
    ])  # fmt: skip


def test_set_rows_rounds_to_nearest_even(dev: pk.Device) -> None:
    """Every half, the middle to the next one and beside it; four at a time, and one by one."""
    x = around("float16")
    for width, rows in ((8, x.size // 8), (7, x.size // 7)):
        case = Case(dev)
        s = case.input(x[: rows * width].reshape(rows, width))
        i = case.input(np.arange(rows, dtype=np.int32))
        check(case, [(s, i, case.output((rows, width), "float16"))])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.sample
def test_set_rows_of_every_width(dev: pk.Device, width: int) -> None:
    case = Case(dev, seed=width)
    check(case, [
        add(case, s, d, (n, width), m, d_form=Form(phase=phase))
        for s, d in (("float32", "float16"), ("float32", "float32"), ("float16", "float16"))
        for n, m in ((1, 1), (2, 7), (33, 40), (37, 37))
        for phase in (0, 1)
    ])  # fmt: skip


@pytest.mark.parametrize("dst", ("float16", "uint8", "float32"))
def test_set_rows_of_any_layout(dev: pk.Device, dst: str) -> None:
    case = Case(dev, seed=3)
    src = "float32" if dst == "float16" else dst
    index_forms = (Form(), Form(phase=1), Form(steps=(3,)), Form(steps=(-1,)))
    check(case, [
        add(case, src, dst, (7, k), 11, s_form=f, d_form=g, i_form=index_forms[n % 4],
            index=("int32", "int64")[n // 2 % 2])
        for k in (12, 33) for n, (f, g) in enumerate(itertools.product(FORMS, FORMS))
    ])  # fmt: skip


def test_set_rows_repeats_the_index(dev: pk.Device) -> None:
    """ggml: the index's leading axes divide those of src; each of its parts comes again."""
    case = Case(dev, seed=4)
    moves = []
    for shape, i_shape in (
        ((4, 6, 5, 8), (2, 3, 5)), ((4, 6, 5, 8), (1, 6, 5)), ((4, 6, 5, 8), (4, 1, 5)),
        ((4, 6, 5, 8), (5,)), ((4, 6, 5, 8), (3, 5)), ((3, 9, 6), (9,)), ((6, 1, 8), (3, 1)),
        ((2, 3, 4, 5, 6), (1, 3, 2, 5)), ((1, 6, 5, 8), (1, 2, 5)),
    ):  # fmt: skip
        for form in (Form(), Form(gap=4, phase=8), Form(order=(1, 0))):
            for dst in ("float32", "float16"):
                moves.append(add(case, "float32", dst, shape, 10, i_shape=i_shape, s_form=form))
    permuted = Form(order=(0, 2, 1, 3))  # keys of a cache: tokens before heads
    moves.append(add(case, "float32", "float16", (2, 4, 6, 8), 9, i_shape=(6,)))
    s = case.input(values(case.rng, "float32", (2, 4, 6, 8)), permuted, buffer="src")
    i = case.input(distinct(case.rng, (2, 1, 6), 9, "int64"), buffer="index")
    moves.append((s, i, case.output((2, 4, 9, 8), "float16", permuted, buffer="dst")))
    check(case, moves)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sample
def test_set_rows_random(dev: pk.Device, seed: int) -> None:
    """Fifty parameter sets each: dtypes, shapes, layouts, repeats, indices out of range."""
    rng = np.random.default_rng(seed)
    case = Case(dev, seed)
    moves = []
    for _ in range(50):
        src, dst = PAIRS[rng.integers(len(PAIRS))]
        lead = tuple(int(rng.choice([1, 2, 4])) for _ in range(rng.integers(0, 3)))
        n, m, k = int(rng.integers(1, 12)), int(rng.integers(1, 16)), int(rng.choice(WIDTHS[:16]))
        own = tuple(int(rng.choice([d for d in (1, 2, 4) if size % d == 0])) for size in lead)
        i_shape = (*own[int(rng.integers(len(own) + 1)) :], n)
        s = case.input(values(rng, src, (*lead, n, k)),
                       random_form(rng, len(lead) + 2, repeats=True), buffer="src")  # fmt: skip
        places = distinct(rng, i_shape, max(m, n), str(rng.choice(["int32", "int64"])), 0.1)
        i = case.input(places, random_form(rng, len(i_shape), repeats=False), buffer="index")
        form = random_form(rng, len(lead) + 2, repeats=False)
        moves.append((s, i, case.output((*lead, max(m, n), k), dst, form, buffer="dst")))
    check(case, moves, error=r"\[set_rows\] index must be in \[0, ")


def test_set_rows_without_f16_at_odd_offsets(dev: pk.Device) -> None:
    """Halves of one word that two rows, or a row and a stranger, share."""
    with caps(dev, f16=False):
        case = Case(dev, seed=6)
        check(case, [
            add(case, s, "float16", (n, k), m, d_form=Form(phase=phase))
            for s in ("float32", "float16") for k in (1, 3, 5, 8, 65)
            for n, m in ((1, 1), (64, 64)) for phase in (0, 1, 3)
        ])  # fmt: skip


@pytest.mark.parametrize("dtype", ("float32", "float16", "uint8", "int64"))
def test_set_rows_with_duplicates(dev: pk.Device, dtype: str) -> None:
    """Each element of a row that several rows go to is one of theirs."""
    rng = np.random.default_rng(7)
    n, m, k = 70, 3, 37
    src = rng.integers(0, 120, (n, k)).astype(dtype)
    index = rng.integers(0, m, n).astype(np.int32)
    case = Case(dev)
    s, i = case.input(src), case.input(index)
    d = case.output((m, k), dtype, Form(phase=1))
    case.build()
    (got,) = case.run(lambda: set_rows(s.tensor, i.tensor, d.tensor))
    for row in range(m):
        assert (got[row] == src[index == row]).any(0).all()


def test_set_rows_writes_nothing_for_indices_out_of_range(dev: pk.Device) -> None:
    for index, value in (("int32", -1), ("int64", 2**32), ("int64", 2**32 + 3), ("int64", -(2**63)),
                         ("int32", 8), ("int32", -(2**31)), ("int64", 2**63 - 1)):  # fmt: skip
        for dst in ("float32", "float16"):
            case = Case(dev)
            places = np.array([[4, 5, 1], [3, value, value + (value < 0)]], index)
            s = case.input(values(case.rng, "float32", (4, 3, 5)).reshape(2, 2, 3, 5))
            i = case.input(places[:, None])
            d = case.output((2, 2, 8, 5), dst, Form(phase=1))
            check(case, [(s, i, d)], rf"\[0, 8\) but is {value} at position \(1, 0, 1\)")


@pytest.mark.parametrize("dtype", ("float32", "float16", "int64"))
def test_set_rows_in_one_buffer(dev: pk.Device, dtype: str) -> None:
    """src is read, and the index too, as they were before the call."""
    rng = np.random.default_rng(8)
    item = np.dtype(dtype).itemsize
    for k, how in itertools.product((8, 5), ("apart", "touching", 0, 3, 16, -8)):
        for index_over in (False, True):
            case = Case(dev, seed=2)
            i = case.input(distinct(rng, (6,), 9, "int64"), buffer="one")
            s = case.input(values(rng, dtype, (6, k)), Form(phase=k % 2), buffer="one")
            where: dict[str, object] = {"buffer": "one"}
            if isinstance(how, int):
                where = {"over": i, "delta": 0} if index_over else {"over": s, "delta": how * item}
            elif how == "touching":
                where["near"] = 0
            d = case.output((9, k), "float16" if item == 4 and k == 5 else dtype, **where)
            check(case, [(s, i, d)])


@pytest.mark.crowd
def test_set_rows_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=1):
        case = Case(dev)
        check(case, [add(case, "float32", "float16", (1500, 40), 1500, bad=0.01)],
              r"\[set_rows\] index must be")  # fmt: skip


def test_set_rows_of_nothing(dev: pk.Device) -> None:
    case = Case(dev)
    moves = [
        add(case, "float32", "float32", shape, m)
        for shape, m in (((0, 4), 5), ((3, 0), 5), ((0, 3, 4), 5), ((0, 4), 0), ((2, 0, 4), 1))
    ]
    check(case, moves)
    src, index = dev.zeros((3, 4)), dev.zeros(3, "int32")
    set_rows(src, index, dev.zeros((0, 4)))
    with pytest.raises(pk.IndexRangeError, match=r"\[0, 0\) but is 0 at position \(0,\) .*out: 3"):
        dev.sync()


def test_set_rows_again_with_the_same_tensors(dev: pk.Device) -> None:
    """The second launch on the same views takes a kept bind group, and a slot of its own."""
    src, index, dst = dev.zeros((4, 8)), dev.zeros(4, "int32"), dev.zeros((6, 8), "float16")
    rng = np.random.default_rng(9)
    for bad in (False, True, False, True):
        x, places = rng.standard_normal((4, 8)).astype("f4"), distinct(rng, (4,), 6, "int32")
        places[2] = 6 if bad else places[2]
        want = reference(x, places, dst.numpy())
        src.write(x)
        index.write(places)
        set_rows(src, index, dst)
        if bad:
            with pytest.raises(pk.IndexRangeError, match=r"is 6 at position \(2,\)"):
                dst.numpy()
        np.testing.assert_array_equal(dst.numpy(), want)


def test_set_rows_rejects(dev: pk.Device) -> None:
    f32, index = dev.zeros((2, 3, 4)), dev.zeros((2, 3), "int32")
    wrong = [
        (pk.ShapeError, r"src and dst .* \(2, 3, 4\) and \(3, 4\)", (f32, index, f32[0])),
        (pk.ShapeError, r"all but the last two the same", (f32, index, dev.zeros((1, 3, 4)))),
        (pk.ShapeError, r"last axis but have shapes", (f32, index, dev.zeros((2, 9, 5)))),
        (pk.ShapeError, r"index must have shape \(2, 3\)", (f32, index[:, :2], f32)),
        (pk.ShapeError, r"index must have shape \(2, 3\)", (f32, dev.zeros((3, 3), "int32"), f32)),
        (pk.ShapeError, r"index must have shape", (f32, dev.zeros((), "int32"), f32)),
        (pk.ShapeError, r"index must have", (f32, dev.zeros((1, 2, 3), "int32"), f32)),
        (pk.ShapeError, r"two or more axes", (dev.zeros(3), index[0], dev.zeros(3))),
        (pk.DTypeError, r"index must be int32 or int64 but is uint32",
         (f32, dev.zeros((2, 3), "uint32"), f32)),
        (pk.DTypeError, r"dst must have the dtype of src, float32",
         (f32, index, dev.zeros((2, 3, 4), "int32"))),
        (pk.AliasError, r"dst is broadcast", (f32, index, f32[:1].broadcast_to((2, 3, 4)))),
    ]  # fmt: skip
    for error, match, args in wrong:
        with pytest.raises(error, match=rf"\[set_rows\] .*{match}"):
            set_rows(*args)
    dev.sync()
