"""mul_mat and matmul: every body and tile on all shapes it may be chosen for, and the rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.kernels import mul_mat
from pykernels.layout import View, contiguous_strides
from pykernels.plan import Caps, Scratch
from pykernels.plans import mul_mat as plans
from pykernels.plans._product_choice import EDGES, Choice, Shape
from pykernels.reference.mul_mat import budget
from pykernels.reference.mul_mat import mul_mat as reference
from tests.harness import (
    Array,
    Case,
    Form,
    Operand,
    assert_close,
    assert_same_bits,
    caps,
    forms,
    random_form,
)

F32: Final = "float32"
F16: Final = "float16"
# a, b, dst: those that have texts of their own, then those that are brought to them.
KINDS = [(F32, F32, F32), (F16, F16, F32), (F16, F16, F16), (F16, F32, F32)]
OTHERS = [(F32, F32, F16), (F32, F16, F32), (F16, F32, F16), (F32, F16, F16)]
K_RUNS, ROWS_RUN, NOTHING_RUNS = Form(), Form(order=(1, 0)), Form(phase=1, gap=1)
gpu = pytest.mark.gpu


class Calls:
    """Many products in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.calls: list[tuple[list[Operand | None], Operand, dict[str, Any], bool]] = []

    def values(self, shape: tuple[int, ...], dtype: str, exact: bool) -> Array:
        if exact:
            return self.rng.integers(-3, 4, shape).astype(dtype)
        return self.rng.normal(0, 1, shape).astype(dtype)

    def add(
        self, a_shape: tuple[int, ...], b_shape: tuple[int, ...],
        kinds: tuple[str, str, str] = (F32, F32, F32), *, a_form: Form | None = None,
        b_form: Form | None = None, dst_form: Form | None = None, exact: bool = False,
        bias: Array | None = None, residual: Array | None = None, extra_form: Form | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        a, b = self.values(a_shape, kinds[0], exact), self.values(b_shape, kinds[1], exact)
        ins: list[Operand | None] = [
            self.case.input(a, a_form, buffer="a"), self.case.input(b, b_form, buffer="b"),
        ]  # fmt: skip
        for name, extra in (("bias", bias), ("residual", residual)):
            ins.append(None if extra is None else self.case.input(extra, extra_form, buffer=name))
        shape = (*b_shape[:-1], a_shape[-2])
        dst = self.case.output(shape, kinds[2], dst_form, buffer="dst")
        self.calls.append((ins, dst, options, exact))

    def check(self, what: str = "") -> None:
        self.case.build()
        arrays = [[None if o is None else o.array.copy() for o in ins] for ins, *_ in self.calls]

        def run() -> None:
            for (a, b, bias, residual), dst, options, _ in self.calls:
                assert a is not None and b is not None
                extras = {"bias": bias and bias.tensor, "residual": residual and residual.tensor}
                mul_mat(a.tensor, b.tensor, dst.tensor, **extras, **options)  # type: ignore[arg-type]

        results = self.case.run(run)
        for got, ins, (operands, dst, options, exact) in zip(
            results, arrays, self.calls, strict=True
        ):
            want = reference(*ins, **options)  # type: ignore[arg-type]
            names = [(o.dtype, o.shape, o.strides) for o in operands if o]
            text = f"{what} {names} -> {dst.dtype} {dst.strides} {options}"
            if exact:
                assert_same_bits(got, want.astype(got.dtype) + np.zeros((), got.dtype), text)
            else:
                assert_close(got, want, budget(*ins, **options), text)  # type: ignore[arg-type]


@contextmanager
def forced(dev: pk.Device, choice: Choice) -> Iterator[None]:
    """Plans take this choice."""
    before = plans.choose
    plans.choose = lambda caps, s: choice
    try:
        with caps(dev):
            yield
    finally:
        plans.choose = before


# -- every text -----------------------------------------------------------------------------------

LOADS = {"k": K_RUNS, "rows": ROWS_RUN, "any": NOTHING_RUNS}


@gpu
@pytest.mark.sample(0.05)
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("loads", [*itertools.product(LOADS, LOADS)], ids="-".join)
@pytest.mark.parametrize("tile", EDGES)
def test_tile_at_its_edges(
    dev: pk.Device, tile: str, loads: tuple[str, str], kinds: tuple[str, str, str]
) -> None:
    """Rows, columns and k around the sizes of the tile, and one tile of many bands."""
    edge = max(EDGES[tile])
    a_form, b_form = (LOADS[name] for name in loads)
    calls = Calls(dev)
    sizes = [(1, 1), (edge, edge), (edge - 4, edge + 4), (2 * edge + 4, 8), (12, edge * 9 + 8)]
    sizes += [(edge - 1, edge + 1), (2 * edge + 1, 3)]
    for (m, n), k in zip(sizes, (16, 64, 36, 4, 20, 17, 31), strict=True):
        for exact in (True, False):
            calls.add((m, k), (n, k), kinds, a_form=a_form, b_form=b_form, exact=exact)
    calls.add((2, edge + 4, 48), (2, 24, 48), kinds, exact=True)
    with forced(dev, Choice(tile)):
        calls.check(tile)


@gpu
@pytest.mark.sample(0.1)
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("held", (1, 4, 8))
def test_narrow_products(dev: pk.Device, held: int, load: str, kinds: tuple[str, str, str]) -> None:
    calls = Calls(dev)
    a_kind, b_kind, dst_kind = kinds
    for rows in {1: (1,), 4: (2, 3, 4), 8: (5, 8)}[held]:
        for cols, k in ((1, 5), (3, 300), (4, 64), (63, 1024), (64, 9), (1028, 4), (500, 260)):
            exact = bool((rows + k) % 2)
            form = LOADS[load]
            calls.add((cols, k), (rows, k), kinds, a_form=form, exact=exact)
            calls.add((rows, k), (cols, k), (b_kind, a_kind, dst_kind), b_form=form, exact=exact)
            calls.add((cols, k), (rows, k), kinds, a_form=form, b_form=ROWS_RUN, exact=exact)
    calls.check()


@gpu
@pytest.mark.parametrize("kinds", OTHERS, ids="-".join)
def test_other_dtypes(dev: pk.Device, kinds: tuple[str, str, str]) -> None:
    calls = Calls(dev)
    for m, n, k in ((40, 36, 20), (33, 9, 7), (100, 2, 64), (1, 70, 33), (20, 20, 0)):
        calls.add((m, k), (n, k), kinds)
        calls.add((2, m, k), (4, n, k), kinds, exact=True)
    calls.check()


@gpu
def test_without_native_halves(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        calls = Calls(dev)
        for kinds in KINDS:
            calls.add((40, 20), (36, 20), kinds, b_form=Form(phase=1))
            calls.add((40, 20), (3, 20), kinds, bias=np.ones(40, np.float16))
        calls.check()


# -- slices of k, grids ---------------------------------------------------------------------------


@gpu
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("slices", (2, 5, 64))
def test_slices_of_k(dev: pk.Device, slices: int) -> None:
    for body in ("32", "vec", "wide"):
        calls = Calls(dev)
        for k in (16, 17, 130, 1000):
            for form in (K_RUNS, ROWS_RUN):
                n = 4 if body == "vec" else 20
                calls.add((40, k), (n, k), a_form=form, b_form=form, exact=True)
                calls.add((3, 36, k), (3, n, k), a_form=form, bias=calls.values((36,), F32, False),
                          scale=0.5, activation="relu")  # fmt: skip
        with forced(dev, Choice(body, slices)):
            calls.check(body)


@gpu
def test_a_deep_product(dev: pk.Device) -> None:
    """Sums of many terms: sliced by the plan."""
    calls = Calls(dev)
    calls.add((20, 30000), (12, 30000))
    calls.add((1, 600000), (1, 600000), exact=True)
    calls.add((5, 70000), (2, 70000), a_form=ROWS_RUN)
    calls.check()


@gpu
@pytest.mark.crowd
def test_a_long_grid_folds(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        calls = Calls(dev)
        calls.add((100, 20), (70, 20))
        calls.add((5, 500, 20), (5, 3, 20))
        calls.check()


@gpu
@pytest.mark.crowd
def test_many_matrices(dev: pk.Device) -> None:
    calls = Calls(dev)
    calls.add((1536, 12, 20), (1536, 9, 20), exact=True)
    calls.add((384, 10, 8), (1536, 3, 8), exact=True)
    calls.check()


@gpu
def test_65537_rows(dev: pk.Device) -> None:
    calls = Calls(dev)
    for form in (K_RUNS, ROWS_RUN):
        calls.add((65537, 8), (1, 8), a_form=form, exact=True)
    calls.add((1, 8), (65537, 8), exact=True)
    calls.check()


# -- nothing --------------------------------------------------------------------------------------


@gpu
def test_no_k_gives_the_epilogue(dev: pk.Device) -> None:
    calls = Calls(dev)
    calls.add((5, 0), (7, 0))
    calls.add((2, 5, 0), (4, 7, 0), (F16, F16, F16), dst_form=Form(phase=1))
    calls.add((5, 0), (1, 0), bias=calls.values((5,), F32, False), activation="silu")
    calls.check()


@gpu
@pytest.mark.parametrize("batch, m, n", ((0, 3, 4), (2, 0, 4), (2, 3, 0)))
def test_nothing_to_write(dev: pk.Device, batch: int, m: int, n: int) -> None:
    calls = Calls(dev)
    calls.add((batch, m, 5), (batch, n, 5))
    calls.add((m, 0), (n, 0))
    calls.check()


# -- layouts --------------------------------------------------------------------------------------


@gpu
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_any_layout(dev: pk.Device, form: str) -> None:
    layout = forms(3, repeats=True)[form]
    calls = Calls(dev)
    for m, n, k in ((36, 20, 24), (33, 17, 9), (40, 2, 64), (3, 50, 12)):
        calls.add((2, m, k), (2, n, k), a_form=layout)
        calls.add((2, m, k), (2, n, k), b_form=layout)
        if "repeat" not in form:
            calls.add((2, m, k), (2, n, k), dst_form=layout)
            calls.add((2, m, k), (2, n, k), a_form=layout, b_form=layout, dst_form=layout)
        calls.add((2, m, k), (2, n, k), residual=calls.values((2, n, m), F32, False),
                  extra_form=layout)  # fmt: skip
    calls.check()


@gpu
@pytest.mark.sample(0.15)
@pytest.mark.parametrize("seed", range(10))
def test_random_layouts(dev: pk.Device, seed: int) -> None:
    calls = Calls(dev, seed)
    rng = calls.rng
    for _ in range(8):
        m, n, k = (int(rng.choice([1, 2, 7, 8, 16, 33, 64, 100])) for _ in range(3))
        lead = tuple(int(v) for v in rng.integers(1, 4, int(rng.integers(0, 4))))
        a_lead = tuple(v if rng.random() < 0.7 else 1 for v in lead)
        calls.add(
            (*a_lead, m, k), (*lead, n, k), KINDS[int(rng.integers(len(KINDS)))],
            a_form=random_form(rng, len(lead) + 2, repeats=True),
            b_form=random_form(rng, len(lead) + 2, repeats=True),
            dst_form=random_form(rng, len(lead) + 2, repeats=False),
            bias=calls.values((m,), F16, False) if rng.random() < 0.3 else None,
        )  # fmt: skip
    calls.check()


@gpu
def test_batches_of_a_repeat(dev: pk.Device) -> None:
    """As in ggml: neighbouring matrices of b share one of a."""
    calls = Calls(dev)
    for a_lead, b_lead in (((2,), (6,)), ((1, 3), (4, 6)), ((2, 1), (4, 3)), ((3,), (5, 3)),
                           ((), (2, 2)), ((2, 2, 2, 2), (4, 4, 4, 4))):  # fmt: skip
        calls.add((*a_lead, 12, 20), (*b_lead, 10, 20), exact=True)
        calls.add((*a_lead, 12, 20), (*b_lead, 1, 20), bias=calls.values((12,), F32, False))
    calls.check()


@gpu
def test_more_batch_axes_than_a_launch_has(dev: pk.Device) -> None:
    calls = Calls(dev)
    apart = Form(steps=(1, 1, 1, 1, 1, 1, 1), gap=3)
    calls.add((2, 1, 2, 1, 2, 9, 8), (2, 3, 2, 2, 2, 10, 8), a_form=apart, b_form=apart, exact=True)
    calls.check()


@gpu
@pytest.mark.parametrize("near", (0, 8192))
def test_operands_in_one_buffer(dev: pk.Device, near: int) -> None:
    for m, n, k in ((36, 20, 24), (33, 17, 9), (50, 2, 33), (64, 1, 64)):
        case = Case(dev)
        values = [case.rng.normal(0, 1, s).astype(np.float32) for s in ((m, k), (n, k), (n, m))]
        a, b, extra = (case.input(v, buffer="one", near=near) for v in values)
        dst = case.output((n, m), F32, buffer="one", near=near)
        case.build()
        got = case.run(lambda: mul_mat(a.tensor, b.tensor, dst.tensor, residual=extra.tensor))[0]  # noqa: B023
        assert_close(got, reference(values[0], values[1], None, values[2]),
                     budget(values[0], values[1], None, values[2]), f"{m} {n} {k}")  # fmt: skip


@gpu
def test_a_product_over_its_own_operand(dev: pk.Device) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (12, 12)).astype(np.float32)
    t = dev.tensor(x)
    mul_mat(t, t, t)
    assert_same_bits(t.numpy(), x @ x.T)
    mul_mat(dev.tensor(x), dev.tensor(x), t, residual=t)
    assert_same_bits(t.numpy(), 2 * (x @ x.T))


# -- precision="fast" -----------------------------------------------------------------------------


@gpu
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("slices", (1, 3))
@pytest.mark.parametrize("kind", (F16, F32))
def test_fast_products(dev: pk.Device, kind: str, slices: int) -> None:
    """f16 pairs and short f16 sums: exact where these are, else within what matmul states."""
    rng = np.random.default_rng(7)
    for n, m, k, lead in (
        (64, 128, 64, ()),
        (70, 130, 514, ()),
        (33, 45, 102, (3,)),
        (5, 300, 7, ()),
    ):
        for exact, turned in itertools.product((True, False), (True, False)):
            x, y = (
                rng.integers(-3, 4, s) if exact else rng.standard_normal(s)
                for s in ((*lead, n, k), (k, m))
            )  # fmt: skip
            x, y = x.astype(kind), y.astype(kind)
            left = dev.tensor(np.ascontiguousarray(x.swapaxes(-1, -2)) if turned else x)
            left = (
                left.transpose(*range(len(lead)), left.ndim - 1, left.ndim - 2) if turned else left
            )
            out = dev.empty((*lead, n, m), "float32")
            bias = np.arange(m, dtype=np.float32)
            with forced(dev, Choice("wide", slices)):
                pk.matmul(left, dev.tensor(y), bias=dev.tensor(bias), precision="fast", out=out)
            want = x.astype(np.float64) @ y.astype(np.float64) + bias
            size = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64))
            if exact:
                np.testing.assert_array_equal(out.numpy(), want)
            else:
                assert (np.abs(out.numpy() - want) <= size * 2.0**-8 + 1e-4).all()


def test_fast_is_a_choice_of_the_plan() -> None:
    """Pairs where the device has f16 and K is even; the default elsewhere; no other word."""
    x = view((4096, 4096))
    names = [s.body.name for s in plans.plan(LARGE, Scratch(), x, x, None, None, x, None, "fast")]
    assert names[-1] == "mul_mat_fast" and set(names[:-1]) <= {"cpy", "cpy_cast", "cpy_block"}
    plain = replace(LARGE, f16=False)
    names = [s.body.name for s in plans.plan(plain, Scratch(), x, x, None, None, x, None, "fast")]
    assert names[-1] == "mul_mat_wide"
    with pytest.raises(pk.ArgumentError, match=r"\[mul_mat\] precision must be None or 'fast'"):
        plans.plan(LARGE, Scratch(), x, x, None, None, x, None, "split")


# -- epilogue -------------------------------------------------------------------------------------


@gpu
@pytest.mark.sample(0.6)
@pytest.mark.parametrize("activation", plans.ACTIVATIONS)
def test_epilogue(dev: pk.Device, activation: str | None) -> None:
    for body, slices in (("32", 1), ("32", 3), ("vec", 1), ("64", 1), ("wide", 1), ("wide", 3)):
        calls = Calls(dev)
        n = 3 if body == "vec" else 37
        for shape, kind in (((n, 52), F32), ((52,), F16), ((n, 1), F16), ((1, 1), F32), ((), F32)):
            calls.add((52, 72), (n, 72), bias=calls.values(shape, kind, False), scale=0.25,
                      activation=activation)  # fmt: skip
            calls.add((52, 72), (n, 72), bias=calls.values((52,), F32, False), scale=-2.0,
                      residual=calls.values(shape, kind, False), activation=activation,
                      dst_form=ROWS_RUN)  # fmt: skip
        with forced(dev, Choice(body, slices)):
            calls.check(f"{body} {slices}")


@gpu
def test_activations_far_from_zero(dev: pk.Device) -> None:
    far = np.array([-1e30, -200, -20, -1, -0.0, 0.0, 1, 20, 200, 1e30, np.nan], np.float32)
    for activation in plans.ACTIVATIONS:
        dst = dev.empty((1, far.size))
        one = dev.ones((1, 1))
        mul_mat(dev.tensor(far[:, None]), one, dst, activation=activation)
        got = dst.numpy()[0]
        want = reference(far[:, None], np.ones((1, 1), np.float32), activation=activation)[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=str(activation))


@gpu
def test_not_a_number_stays_in_its_row(dev: pk.Device) -> None:
    """What lies behind k, rows or columns is read by no sum."""
    for k in (3, 16, 20, 33):
        for n in (2, 40):
            wide = np.full((40, k + 9), np.nan, np.float32)
            wide[:, :k] = 1.0
            wide[7, k - 1] = np.inf
            a, b = dev.tensor(wide)[:, :k], dev.ones((n, k))
            for turned in (a, a.copy(), a.T.copy().T):
                dst = dev.empty((n, 40))
                mul_mat(turned, b, dst)
                want = np.full((n, 40), float(k), np.float32)
                want[:, 7] = np.inf
                assert_same_bits(dst.numpy(), want, f"{k} {n}")


@gpu
def test_the_same_bits_again(dev: pk.Device) -> None:
    for m, n, k in ((40, 40, 5000), (100, 3, 3000), (65, 65, 65)):
        a, b = dev.rand((m, k), seed=1), dev.rand((n, k), seed=2)
        results = []
        for _ in range(3):
            dst = dev.empty((n, m))
            mul_mat(a, b, dst)
            results.append(dst.numpy())
        assert_same_bits(results[1], results[0])
        assert_same_bits(results[2], results[0])


@gpu
def test_mul_mat_rejects(dev: pk.Device) -> None:
    a, b, dst = dev.ones((2, 3, 4)), dev.ones((2, 5, 4)), dev.zeros((2, 5, 3))

    def refused(error: type[Exception], text: str, *tensors: pk.Tensor, **options: Any) -> None:
        with pytest.raises(error, match=r"\[mul_mat\] " + text):
            mul_mat(*tensors, **options)

    refused(pk.ShapeError, "a and b must agree in their last axis, k", a, dev.ones((2, 5, 3)), dst)
    refused(pk.ShapeError, r"dst must have shape \(2, 5, 3\) but", a, b, dev.zeros((2, 3, 5)))
    refused(pk.ShapeError, r"the batch axes of a must divide .* \(2,\), but are \(3,\)",
            dev.ones((3, 3, 4)), b, dst)  # fmt: skip
    refused(pk.ShapeError, "the batch axes of a", dev.ones((1, 2, 3, 4)), b, dst)
    refused(pk.ShapeError, "b must have two or more axes", a, dev.ones((4,)), dst)
    refused(pk.ShapeError, "bias must broadcast to", a, b, dst, bias=dev.ones((5,)))
    refused(pk.ArgumentError, "activation must be one of .* but is 'tanh'", a, b, dst,
            activation="tanh")  # fmt: skip
    refused(
        pk.DTypeError, "a must be float32 or float16 but is int32", dev.ones(4, "int32"), b, dst
    )
    refused(pk.AliasError, "dst is broadcast", a, b, dev.ones((2, 1, 3)).broadcast_to((2, 5, 3)))
    assert not dst.numpy().any()


# -- matmul: numpy's rules ------------------------------------------------------------------------

FIT = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((4, 0), (0, 3)), ((0, 3), (3, 4)),
    ((5, 2, 3), (3,)), ((3,), (5, 3, 2)), ((0, 2, 3), (1, 3, 4)), ((0,), (0,)),
    ((2, 1, 2, 3, 4), (2, 1, 4, 5)),
]  # fmt: skip
UNFIT = [((), (3,)), ((3,), ()), ((2, 3), (4,)), ((3,), (2, 3)), ((2, 3, 4), (3, 4, 5)),
         ((2, 3), (2, 3))]  # fmt: skip


@gpu
@pytest.mark.parametrize("a_shape, b_shape", FIT, ids=str)
def test_matmul_has_numpys_shapes(
    dev: pk.Device, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, a_shape).astype(np.float32)
    b = rng.integers(-3, 4, b_shape).astype(np.float32)
    want = np.asarray(np.matmul(a, b))
    got = pk.matmul(dev.tensor(a), dev.tensor(b))
    assert isinstance(got, pk.Tensor)
    assert_same_bits(got.numpy(), want)
    out = dev.empty(want.shape, F16)
    assert pk.matmul(dev.tensor(a), b, out=out) is out
    assert_same_bits(out.numpy(), want.astype(np.float16))
    backwards = dev.tensor(a[..., ::-1].copy())[..., ::-1]
    bias = rng.integers(-3, 4, want.shape).astype(np.float32)
    got = pk.matmul(backwards, b, bias=bias, activation="relu")
    assert_same_bits(got.numpy(), np.maximum(want + bias, 0) + np.float32(0))


@gpu
@pytest.mark.parametrize("a_shape, b_shape", UNFIT, ids=str)
def test_matmul_refuses_what_numpy_refuses(
    dev: pk.Device, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    a, b = np.ones(a_shape, np.float32), np.ones(b_shape, np.float32)
    with pytest.raises(ValueError):
        np.matmul(a, b)
    with pytest.raises(pk.ShapeError, match=r"\[matmul\] operand"):
        pk.matmul(dev.tensor(a), dev.tensor(b))


@gpu
def test_matmul_dtypes_and_out(dev: pk.Device) -> None:
    half, full = dev.ones((2, 3), F16), dev.ones((3, 4))
    assert pk.matmul(half, full).dtype == F32
    assert pk.matmul(half, half.T).dtype == F16
    x = np.ones((2, 3), np.float32)
    assert isinstance(pk.matmul(x, x.T), np.ndarray)
    with pytest.raises(pk.DTypeError, match=r"\[matmul\] a must be .* but is float64"):
        pk.matmul(np.ones((2, 2)), full)
    with pytest.raises(pk.DTypeError, match=r"\[matmul\] out must be .* but is int32"):
        pk.matmul(half, full, out=dev.zeros((2, 4), "int32"))
    with pytest.raises(pk.ShapeError, match=r"\[matmul\] out must have shape \(2, 4\)"):
        pk.matmul(half, full, out=dev.zeros((4, 2)))
    with pytest.raises(pk.ShapeError, match=r"\[matmul\] bias must broadcast to \(2, 4\)"):
        pk.matmul(half, full, bias=dev.ones(3))


# -- choices, without a GPU -----------------------------------------------------------------------

LARGE = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535)
SMALL = Caps(False, False, 256, 256, 16384, 1 << 27, 65535)


def test_choices() -> None:
    square = [plans.choose(LARGE, Shape(1, n, n, n)).body for n in (4096, 2048, 512, 100, 8)]
    assert square[0] == square[1] == "wide"
    assert square[-1] == "vec"
    assert plans.choose(LARGE, Shape(1, 64, 64, 1 << 16)).slices > 16
    assert plans.choose(LARGE, Shape(1, 1, 1, 1 << 24)).slices > 16
    for n in (9, 100, 4096):
        assert plans.choose(SMALL, Shape(1, n, n, n)).body == "32"


def view(shape: tuple[int, ...], strides: tuple[int, ...] = (), slot: int = 0) -> View:
    steps = strides or contiguous_strides(shape, 1)
    return View(slot, DTYPES[F32], shape, tuple(4 * s for s in steps), 0)


def steps_of(a: View, b: View, dst: View, caps: Caps = LARGE) -> list[tuple[str, tuple[Any, ...]]]:
    found = plans.plan(caps, Scratch(), a, b, None, None, dst)
    return [(s.body.name, (s.groups, *s.axes[3:])) for s in found]


def test_plans_for_large_devices() -> None:
    """(groups, vectors of a, of b, of dst, dst's rows run) of mul_mat_wide, after copies."""
    square = view((4096, 4096))
    turned = view((4096, 4096), (1, 4096))
    wide = ("mul_mat_wide", (2048, 4, 4, 4, False))
    assert steps_of(turned, turned, square) == [wide]
    assert steps_of(square, square, square)[2:] == [wide]  # after two copies
    assert steps_of(turned, square, square)[1:] == [wide]
    # dst runs down its columns: the operands change places.
    assert steps_of(turned, turned, turned) == [wide]
    odd = view((4095, 4095))
    assert steps_of(odd, odd, odd)[-1] == ("mul_mat_wide", (2048, 4, 4, 1, False))
    # A copy of the larger operand would cost more than it gives: it takes the place of b.
    few, many = view((512, 14336)), view((4096, 14336))
    assert steps_of(many, few, view((512, 4096)))[1] == ("mul_mat_wide", (768, 4, 1, 4, False))
    # Batches with one a are rows of one product.
    many = view((64, 64, 4096))
    assert steps_of(turned, many, many)[1:] == [wide]
    names = [name for name, _ in steps_of(view((64, 1 << 16)), view((64, 1 << 16)), view((64, 64)))]
    assert names == ["mul_mat", "mul_mat_sum"]
    assert [n for n, _ in steps_of(square, view((3, 4096)), view((3, 4096)))] == ["mul_mat_vec"]


def test_cuts_cover_k() -> None:
    for depth in (1, 15, 16, 17, 100, 4097, 10**7):
        for slices in (1, 2, 3, 64):
            for unit in (1, 16, 1024):
                cut = plans._cut(depth, slices, unit)
                assert (cut.slices - 1) * cut.depth < depth <= cut.slices * cut.depth
                assert cut.depth % unit == 0
                assert cut.depth <= unit * plans.MAX_ROUNDS
