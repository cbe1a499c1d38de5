"""mul_mat: every body and tile on all shapes it may be chosen for, splits, epilogues, precision."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated.ops import ACTIVATIONS
from pykernels.forcing import force
from pykernels.kernels import mul_mat
from pykernels.plans.matmul.select import TILES, GemmChoice, GemmTail
from pykernels.reference.matmul import mul_mat as reference
from tests.harness import (
    Form,
    assert_same_bits,
    caps,
)
from tests.kernels.matmul.mul_mat_calls import (
    F16,
    F32,
    K_RUNS,
    KINDS,
    NOTHING_RUNS,
    OTHERS,
    ROWS_RUN,
    GemmCalls,
)

gpu = pytest.mark.gpu


# -- every text -----------------------------------------------------------------------------------

LOADS = {"k": K_RUNS, "rows": ROWS_RUN, "any": NOTHING_RUNS}


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("loads", [*itertools.product(LOADS, LOADS)], ids="-".join)
@pytest.mark.parametrize("tile", TILES)
def test_tile_at_its_edges(
    dev: pk.Device, tile: str, loads: tuple[str, str], kinds: tuple[str, str, str]
) -> None:
    """Rows, columns and k around the sizes of the tile, and one tile of many bands."""
    edge = max(TILES[tile][:2])
    a_form, b_form = (LOADS[name] for name in loads)
    calls = GemmCalls(dev)
    sizes = [(1, 1), (edge, edge), (edge - 4, edge + 4), (2 * edge + 4, 8), (12, edge * 9 + 8)]
    sizes += [(edge - 1, edge + 1), (2 * edge + 1, 3)]
    for (m, n), k in zip(sizes, (16, 64, 36, 4, 20, 17, 31), strict=True):
        for exact in (True, False):
            calls.add((m, k), (n, k), kinds, a_form=a_form, b_form=b_form, exact=exact)
    calls.add((2, edge + 4, 48), (2, 24, 48), kinds, exact=True)
    with force(dev, GemmChoice(tile)):
        calls.check(tile)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("held", (1, 4, 8))
def test_narrow_products(dev: pk.Device, held: int, load: str, kinds: tuple[str, str, str]) -> None:
    calls = GemmCalls(dev)
    a_kind, b_kind, dst_kind = kinds
    for rows in {1: (1,), 4: (2, 3, 4), 8: (5, 8)}[held]:
        sizes = ((1, 5), (3, 300), (4, 64), (63, 1024), (64, 9), (1028, 4), (500, 260), (136, 600))
        for cols, k in sizes:
            exact = bool((rows + k) % 2)
            form = LOADS[load]
            calls.add((cols, k), (rows, k), kinds, a_form=form, exact=exact)
            calls.add((rows, k), (cols, k), (b_kind, a_kind, dst_kind), b_form=form, exact=exact)
            calls.add((cols, k), (rows, k), kinds, a_form=form, b_form=ROWS_RUN, exact=exact)
    calls.check()


@gpu
@pytest.mark.parametrize("kinds", OTHERS, ids="-".join)
def test_other_dtypes(dev: pk.Device, kinds: tuple[str, str, str]) -> None:
    calls = GemmCalls(dev)
    for m, n, k in ((40, 36, 20), (33, 9, 7), (100, 2, 64), (1, 70, 33), (20, 20, 0)):
        calls.add((m, k), (n, k), kinds)
        calls.add((2, m, k), (4, n, k), kinds, exact=True)
    calls.check()


@gpu
def test_without_native_halves(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        calls = GemmCalls(dev)
        for kinds in KINDS:
            calls.add((40, 20), (36, 20), kinds, b_form=Form(phase=1))
            calls.add((40, 20), (3, 20), kinds, bias=np.ones(40, np.float16))
        calls.check()


# -- splits of k, grids ---------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("splits", (2, 5, 64))
def test_splits_of_k(dev: pk.Device, splits: int) -> None:
    for body in ("mul_mat/32", "mul_mat/16x64", "mul_mat/32x128", "gemv", "gemm_tile"):
        calls = GemmCalls(dev)
        for k in (16, 17, 130, 1000):
            for form in (K_RUNS, ROWS_RUN):
                n = 4 if body == "gemv" else 20
                calls.add((40, k), (n, k), a_form=form, b_form=form, exact=True)
                calls.add((3, 36, k), (3, n, k), a_form=form, bias=calls.values((36,), F32, False),
                          scale=0.5, activation="relu")  # fmt: skip
        with force(dev, GemmChoice(body, splits)):
            calls.check(body)
        if body == "gemm_tile":  # a short last one
            with force(dev, GemmChoice(body, splits, each=48)):
                calls.check("48 k each")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("splits", (1, 3))
@pytest.mark.parametrize("tile", ("16x64", "32x128"))
def test_few_columns(dev: pk.Device, tile: str, splits: int) -> None:
    """Tiles for few rows serve few columns, too: any layout, dtype, epilogue, batches."""
    calls = GemmCalls(dev)
    for m, n, k in ((16, 70, 48), (9, 131, 17), (32, 129, 33)):
        for form in (K_RUNS, ROWS_RUN):
            calls.add((m, k), (n, k), a_form=form, b_form=form, exact=True)
            calls.add((m, k), (n, k), (F16, F16, F32), b_form=form, dst_form=ROWS_RUN)
            calls.add((m, k), (n, k), b_form=form, bias=calls.values((m,), F32, False),
                      residual=calls.values((n, m), F16, False), scale=0.5, activation="silu",
                      dst_form=NOTHING_RUNS)  # fmt: skip
        calls.add((2, m, k), (4, n, k), exact=True)
    calls.add((12, 40), (50, 40), (F16, F32, F32), exact=True)
    with force(dev, GemmChoice(f"mul_mat/{tile}", splits)):
        calls.check(tile)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("tail", (GemmTail(1, 1), GemmTail(1, 5), GemmTail(2, 3)), ids=str)
def test_tails(dev: pk.Device, tail: GemmTail) -> None:
    """The last rows of tiles in splits of k, beside whole ones; with nothing left but the tail."""
    calls = GemmCalls(dev)
    for n, k in ((65, 17), (150, 130), (192, 100), (128, 36)):
        for form in (K_RUNS, ROWS_RUN):
            calls.add((40, k), (n, k), a_form=form, b_form=form, exact=True)
            calls.add((40, k), (n, k), b_form=form, exact=True, dst_form=ROWS_RUN)
            calls.add((36, k), (n, k), a_form=form, bias=calls.values((n, 1), F32, False),
                      residual=calls.values((n, 36), F32, False), scale=0.5)  # fmt: skip
    with force(dev, GemmChoice("gemm_tile", 1, tail)):
        calls.check()


@gpu
def test_a_deep_product(dev: pk.Device) -> None:
    """Sums of many terms: split by the plan."""
    calls = GemmCalls(dev)
    calls.add((20, 30000), (12, 30000))
    calls.add((1, 600000), (1, 600000), exact=True)
    calls.add((5, 70000), (2, 70000), a_form=ROWS_RUN)
    calls.check()


@gpu
@pytest.mark.crowd
def test_a_long_grid_folds(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        calls = GemmCalls(dev)
        calls.add((100, 20), (70, 20))
        calls.add((5, 500, 20), (5, 3, 20))
        calls.check()


@gpu
@pytest.mark.crowd
def test_many_matrices(dev: pk.Device) -> None:
    calls = GemmCalls(dev)
    calls.add((1536, 12, 20), (1536, 9, 20), exact=True)
    calls.add((384, 10, 8), (1536, 3, 8), exact=True)
    calls.check()


@gpu
def test_65537_rows(dev: pk.Device) -> None:
    calls = GemmCalls(dev)
    for form in (K_RUNS, ROWS_RUN):
        calls.add((65537, 8), (1, 8), a_form=form, exact=True)
    calls.add((1, 8), (65537, 8), exact=True)
    calls.check()


# -- nothing --------------------------------------------------------------------------------------


@gpu
def test_no_k_gives_the_epilogue(dev: pk.Device) -> None:
    calls = GemmCalls(dev)
    calls.add((5, 0), (7, 0))
    calls.add((2, 5, 0), (4, 7, 0), (F16, F16, F16), dst_form=Form(phase=1))
    calls.add((5, 0), (1, 0), bias=calls.values((5,), F32, False), activation="silu")
    calls.check()


@gpu
@pytest.mark.parametrize("batch, m, n", ((0, 3, 4), (2, 0, 4), (2, 3, 0)))
def test_nothing_to_write(dev: pk.Device, batch: int, m: int, n: int) -> None:
    calls = GemmCalls(dev)
    calls.add((batch, m, 5), (batch, n, 5))
    calls.add((m, 0), (n, 0))
    calls.check()


# -- precision="fast" -----------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("splits", (1, 3))
@pytest.mark.parametrize("kind", (F16, F32))
def test_fast_products(dev: pk.Device, kind: str, splits: int) -> None:
    """f16 pairs and short f16 sums: exact where these are, else within what matmul states."""
    rng = np.random.default_rng(7)
    for n, m, k, lead in (
        (64, 128, 64, ()),
        (70, 130, 514, ()),
        (65, 20, 4100, ()),
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
            with force(dev, GemmChoice("gemm_tile", splits)):
                pk.matmul(left, dev.tensor(y), bias=dev.tensor(bias), precision="fast", out=out)
            want = x.astype(np.float64) @ y.astype(np.float64) + bias
            size = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64))
            if exact:
                np.testing.assert_array_equal(out.numpy(), want)
            else:
                assert (np.abs(out.numpy() - want) <= size * 2.0**-8 + 1e-4).all()


# -- epilogue -------------------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogue(dev: pk.Device, activation: str | None) -> None:
    for body, splits in (
        ("mul_mat/32", 1),
        ("mul_mat/32", 3),
        ("gemv", 1),
        ("mul_mat/64", 1),
        ("mul_mat/16x64", 1),
        ("mul_mat/32x128", 3),
        ("gemm_tile", 1),
        ("gemm_tile", 3),
    ):
        calls = GemmCalls(dev)
        n = 3 if body == "gemv" else 37
        for shape, kind in (((n, 52), F32), ((52,), F16), ((n, 1), F16), ((1, 1), F32), ((), F32)):
            calls.add((52, 72), (n, 72), bias=calls.values(shape, kind, False), scale=0.25,
                      activation=activation)  # fmt: skip
            calls.add((52, 72), (n, 72), bias=calls.values((52,), F32, False), scale=-2.0,
                      residual=calls.values(shape, kind, False), activation=activation,
                      dst_form=ROWS_RUN)  # fmt: skip
        with force(dev, GemmChoice(body, splits)):
            calls.check(f"{body} {splits}")


@gpu
def test_activations_far_from_zero(dev: pk.Device) -> None:
    far = np.array([-1e30, -200, -20, -1, -0.0, 0.0, 1, 20, 200, 1e30, np.nan], np.float32)
    for activation in ACTIVATIONS:
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
    refused(pk.DTypeError, "a must be .* or bfloat16 but is int32", dev.ones(4, "int32"), b, dst)
    refused(pk.AliasError, "dst is broadcast", a, b, dev.ones((2, 1, 3)).broadcast_to((2, 5, 3)))
    assert not dst.numpy().any()
