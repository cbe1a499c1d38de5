"""mul_mat_id and expert_linear: rows that choose their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated.kernels.mul_mat_id import KERNEL
from pykernels.forcing import choice, force
from pykernels.plans.matmul.mul_mat_id import FEW, IdShape, candidates, choose, plan
from pykernels.plans.quant.types import TYPES
from pykernels.reference.matmul import mul_mat_id as reference
from pykernels.reference.matmul import mul_mat_id_budget as budget
from pykernels.steps import Scratch
from tests.harness import Array, Case, Form, assert_close, caps
from tests.kernels.matmul.quant_calls import CAPS, planes_of, view_of

F32, F16 = "float32", "float16"
gpu = pytest.mark.gpu
BODIES = "rows", "tiles"


class Calls:
    """Many products in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.calls: list[tuple[dict[str, Any], Any, dict[str, Any]]] = []

    def add(
        self, quant: str | None, ids: Array, m: int, k: int, dtype: str = F32, out: str = F32, *,
        experts: int = 3, shared: bool = True, b_form: Form | None = None,
        dst_form: Form | None = None, ids_form: Form | None = None, weights: str = F32,
        bias: str = "", bias_form: Form | None = None, residual: str = "",
        residual_form: Form | None = None, size: float = 1.0, **options: Any,
    ) -> None:  # fmt: skip
        """`m` columns of the result. `bias` and `residual` are dtypes."""
        rng, case = self.case.rng, self.case
        given: dict[str, Array] = {}
        rows = m * (2 if options.get("gated") else 1)
        if quant is None:
            given["w"] = rng.normal(0, 1, (experts, rows, k)).astype(weights)
        else:
            each = [planes_of(rng, quant, rows, k) for _ in range(experts)]
            given = {n: np.concatenate([e[n] for e in each]) for n in each[0]}
        inputs = {n: case.input(v, buffer=n) for n, v in given.items()}
        b = size * rng.normal(0, 1, (ids.shape[0], 1 if shared else ids.shape[1], k))
        inputs["b"] = case.input(b.astype(dtype), b_form, buffer="b")
        inputs["ids"] = case.input(ids, ids_form, buffer="ids")
        if bias:
            own = rng.normal(0, 1, (experts, rows)).astype(bias)
            inputs["bias"] = case.input(own, bias_form, buffer="bias")
        if residual:
            own = rng.normal(0, 1, (*ids.shape, m)).astype(residual)
            inputs["residual"] = case.input(own, residual_form, buffer="residual")
        dst = case.output((*ids.shape, m), out, dst_form, buffer="dst")
        self.calls.append((inputs, dst, {"quant": quant, **options}))

    def check(self, what: str = "", body: str | None = None) -> None:
        self.case.build()
        arrays = [{n: o.array.copy() for n, o in ins.items()} for ins, *_ in self.calls]

        def run() -> None:
            for inputs, dst, options in self.calls:
                given = {n: o.tensor for n, o in inputs.items()}
                pk.kernels.mul_mat_id(**given, dst=dst.tensor, **options)

        forced = [choice("mul_mat_id", body=body)] if body else []
        with force(self.case.dev, *forced):
            results = self.case.run(run)
        for got, ins, (_, dst, options) in zip(results, arrays, self.calls, strict=True):
            want = reference(**ins, shape=dst.shape, **options)
            few = None if body is None else body == "rows"
            allowed = budget(**ins, shape=dst.shape, few=few, **options)
            assert_close(got, want, allowed, f"{what} {options} {dst.dtype} {dst.shape}")


def chosen(rng: np.random.Generator, tokens: int, slots: int, experts: int) -> Array:
    """Some experts often, the last one never."""
    return np.minimum(rng.geometric(0.5, (tokens, slots)) - 1, experts - 2).astype(np.int32)


def test_choose() -> None:
    """Rows one by one, as long as an expert has hardly more than one."""
    for rows, experts, body in (
        (1, 1, "rows"), (FEW, 1, "rows"), (FEW + 1, 1, "tiles"), (64, 128, "rows"),
        (65, 128, "tiles"),
    ):  # fmt: skip
        assert choose(CAPS, IdShape(rows, experts)).body == body
        assert choose(CAPS, IdShape(rows, experts, residual=True)).body == "tiles"
    assert [bool(c.why) for c in candidates(CAPS, IdShape(1, 1, True))] == [True, False]


@pytest.mark.parametrize("quant", [None, "q4_0", "q6_k"])
def test_the_bytes_of_a_token(quant: str | None) -> None:
    """One dispatch, which binds the weights, and no copy; a call counts the weights of the chosen
    experts alone."""
    k, m, experts = 256, 64, 8
    ids, b, dst = (
        view_of((1, 2), "int32", 0),
        view_of((1, 1, k), F16, 1),
        view_of((1, 2, m), F16, 2),
    )
    rng = np.random.default_rng(0)
    planes = planes_of(rng, quant, m, k) if quant else {"w": np.zeros((1, m, k), F16)}
    views = {
        n: view_of((experts, *v.shape[1:]), v.dtype.name, 3 + i)
        for i, (n, v) in enumerate(planes.items())
    }
    given = [views.get(n) for n in ("w", "low", "scales", "high")]
    steps = plan(CAPS, Scratch(), ids, b, *given, None, None, dst, quant=quant)
    body = "gemv_id" if quant is None else "gemv_id_quant_half"
    assert [s.body.name for s in steps] == [body]
    size = sum(v.nbytes for v in views.values())
    moved = KERNEL.nbytes(ids, b, *given, None, None, dst)
    assert moved == size * 2 // experts + ids.nbytes + b.nbytes + dst.nbytes


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("quant", TYPES)
def test_types(dev: pk.Device, quant: str, body: str) -> None:
    calls = Calls(dev)
    rng = np.random.default_rng(1)
    ids = chosen(rng, 21 if body == "tiles" else 3, 2, 4)
    calls.add(quant, ids, 37, 2 * TYPES[quant].block, experts=4)
    calls.add(quant, ids, 18, TYPES[quant].block, experts=4, bias=F32, gated=True,
              activation="silu", shared=False)  # fmt: skip
    calls.check(quant, body)


@gpu
@pytest.mark.parametrize("quant", [n for n, t in TYPES.items() if t.halves])
def test_few_rows_of_halves(dev: pk.Device, quant: str) -> None:
    """Packed products where the device has halves, words of two halves where it has not."""
    calls = Calls(dev)
    rng = np.random.default_rng(1)
    block = TYPES[quant].block
    for out in (F32, F16):
        for k, m in ((block, 3), (3 * block, 70), (20 * 256, 5)):
            ids = chosen(rng, 3, 2, 4)
            calls.add(quant, ids, m, k, F16, out, experts=4)
            calls.add(quant, ids, m, k, F16, out, experts=4, shared=False, bias=F16, gated=True,
                      activation="gelu")  # fmt: skip
    calls.check(quant)


@gpu
def test_sums_of_halves_that_are_too_large(dev: pk.Device) -> None:
    """Such columns are computed again in float32."""
    calls = Calls(dev)
    for gated in (False, True):
        ids = np.int32([[1, 2], [0, 1]])
        calls.add("q8_0", ids, 40, 256, F16, F32, size=10000.0, gated=gated)
    calls.check()


@gpu
@pytest.mark.parametrize("body", BODIES)
def test_floats_layouts_and_dtypes(dev: pk.Device, body: str) -> None:
    rng = np.random.default_rng(2)
    halves = "shader-f16" in dev.features
    calls = Calls(dev)
    for quant in (None, "q4_0"):
        for tokens, slots in ((1, 1), (1, 4), (40, 2), (5, 3)):
            ids = chosen(rng, tokens, slots, 5)
            calls.add(quant, ids, 70, 96, experts=5, shared=slots != 3)
            calls.add(quant, ids.astype(np.int64), 5, 32, experts=5, shared=False)
        ids = chosen(rng, 6, 3, 3)
        for form in (Form(phase=1), Form(gap=4, phase=4), Form(order=(1, 0, 2))):
            calls.add(quant, ids, 9, 32, b_form=form, shared=False)
            calls.add(quant, ids, 9, 32, dst_form=form)
        calls.add(quant, ids, 9, 32, ids_form=Form(order=(1, 0)))
        for weights in (F16, F32):
            calls.add(quant, ids, 9, 64, F16, weights=weights)
        calls.add(quant, ids, 9, 64, F32, weights=F16)
        if halves:
            for weights in (F16, F32):
                calls.add(quant, ids, 9, 64, F16, F16, weights=weights)
            calls.add(quant, ids, 9, 64, F32, F16)
    calls.check(body=body)


@gpu
@pytest.mark.parametrize("body", BODIES)
def test_epilogues(dev: pk.Device, body: str) -> None:
    rng = np.random.default_rng(2)
    calls = Calls(dev)
    for quant in (None, "q4_0"):
        ids = chosen(rng, 5, 3, 3)
        for activation in (None, "relu", "silu", "gelu", "gelu_tanh"):
            calls.add(quant, ids, 9, 32, bias=F32, activation=activation)
            for m in (1, 33, 66):
                calls.add(quant, ids, m, 32, bias=F32, activation=activation, gated=True)
        for form in (Form(phase=1), Form(gap=3, phase=5), Form(order=(1, 0))):
            calls.add(quant, ids, 10, 32, bias=F16, bias_form=form)
            calls.add(quant, ids, 10, 32, gated=True, dst_form=Form(phase=3), bias_form=form)
        if body == "tiles":
            for dtype in (F32, F16):
                for form in (Form(phase=1), Form(gap=3, phase=5), Form(order=(1, 0, 2))):
                    calls.add(quant, ids, 10, 32, residual=dtype, residual_form=form)
                calls.add(quant, ids, 70, 32, residual=dtype, bias=dtype, activation="silu")
    calls.check(body=body)


@gpu
def test_a_residual_repeats(dev: pk.Device) -> None:
    """A bias for all experts, and a residual for all slots; few rows too."""
    rng = np.random.default_rng(3)
    ids = np.int32([[0, 2], [1, 1]])
    w, b = (rng.normal(size=n).astype(F32) for n in ((3, 8, 32), (2, 1, 32)))
    bias, residual = (rng.normal(size=n).astype(F32) for n in ((8,), (2, 1, 8)))
    dst = dev.empty((2, 2, 8))
    given = {
        n: dev.tensor(v)
        for n, v in zip(("w", "bias", "residual"), (w, bias, residual), strict=True)
    }
    pk.kernels.mul_mat_id(dev.tensor(ids), dev.tensor(b), dst, **given, activation="relu")
    arrays = {"w": w, "bias": bias, "residual": residual}
    want = reference(ids, b, (2, 2, 8), **arrays, activation="relu")
    assert_close(dst.numpy(), want, budget(ids, b, (2, 2, 8), **arrays, activation="relu"))


@gpu
@pytest.mark.parametrize("body", BODIES)
def test_experts_in_pieces(dev: pk.Device, body: str) -> None:
    """Weights of which no binding holds all."""
    rng = np.random.default_rng(3)
    calls = Calls(dev)
    for quant in (None, "q8_0"):
        calls.add(quant, chosen(rng, 9, 2, 7), 20, 128, experts=7, bias=F32)
    with caps(dev, max_binding=32768):
        calls.check(body=body)


@gpu
@pytest.mark.parametrize("body", BODIES)
def test_rows_in_parts(dev: pk.Device, body: str) -> None:
    """Rows of b and dst of which no binding holds all, and an expert out of range in the second
    part."""
    rng = np.random.default_rng(3)
    calls = Calls(dev)
    more = {"residual": F32} if body == "tiles" else {}
    calls.add("q8_0", chosen(rng, 150, 2, 3), 36, 64, shared=False, **more)
    calls.add(None, chosen(rng, 150, 2, 3), 36, 32, bias=F32, activation="silu")
    with caps(dev, max_binding=32768):
        calls.check(body=body)
        w, x, ids = dev.ones((3, 36, 32)), dev.ones((150, 32)), np.zeros((150, 2), np.int32)
        ids[140, 1] = 3
        with (
            force(dev, choice("mul_mat_id", body=body)),
            pytest.raises(pk.IndexRangeError, match=r"ids must be in \[0, 3\) .* \(140, 1\)"),
        ):
            pk.expert_linear(x, w, ids).numpy()


@gpu
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("wrong", [3, -1, 2**31 - 1])
def test_experts_out_of_range(dev: pk.Device, body: str, dtype: Any, wrong: int) -> None:
    w, x = dev.ones((3, 8, 32)), dev.ones((4, 32))
    ids = np.array([[0, 2], [1, wrong], [2, 2], [0, 1]], dtype)
    for given in (w, pk.quantize(w, "q8_0"), pk.quantize(w, "q5_0")):
        for rows in (x, x.astype(F16)):
            out = dev.full((4, 2, 8), 5)
            with (
                force(dev, choice("mul_mat_id", body=body)),
                pytest.raises(pk.IndexRangeError, match=r"ids must be in \[0, 3\) .* \(1, 1\)"),
            ):
                pk.expert_linear(rows, given, ids, out=out).numpy()
            kept = out.numpy()
            assert (kept[1, 1] == 5).all()
            assert_close(np.delete(kept.reshape(8, 8), 3, 0), np.full((7, 8), 32.0),
                         np.full((7, 8), 0.2))  # fmt: skip


@gpu
def test_expert_linear(dev: pk.Device) -> None:
    """Beside the products of each expert alone."""
    rng = np.random.default_rng(4)
    weights = rng.normal(size=(4, 24, 64)).astype(F32)
    q: Any = pk.quantize(dev.tensor(weights), "q8_0")
    ids = rng.integers(0, 4, (10, 2)).astype(np.int32)
    x = rng.normal(size=(10, 64)).astype(F32)
    each = rng.normal(size=(10, 2, 64)).astype(F32)
    for w, numbers in ((q, q.numpy()), (weights, weights)):
        for rows in (x, dev.tensor(each)):
            wide = np.broadcast_to(x[:, None] if rows is x else each, (10, 2, 64))
            want = np.einsum("tsmk,tsk->tsm", numbers[ids].astype("f8"), wide.astype("f8"))
            given = dev.tensor(w) if w is weights else w
            got = pk.expert_linear(dev.tensor(x) if rows is x else rows, given, ids)
            assert_close(got.numpy(), want, np.full(want.shape, 1e-4))
    assert pk.expert_linear(dev.zeros((0, 64)), q, np.zeros((0, 2), "i4")).shape == (0, 2, 24)


@gpu
@pytest.mark.parametrize("quant", ["", "q4_0"])
def test_few_dispatches(dev: pk.Device, quant: str) -> None:
    """The order of the rows, and the product: however many tokens and experts there are; for a
    token the product alone, with gates and bias."""
    w = dev.ones((8, 64, 64))
    given: Any = pk.quantize(w, "q4_0") if quant else w
    for tokens, count in ((40, 2), (4, 1), (1, 1)):
        x, bias = dev.ones((tokens, 64)), dev.ones((8, 64))
        ids = dev.tensor(np.arange(2 * tokens, dtype=np.int32).reshape(tokens, 2) % 8)
        with dev.profile() as found:
            pk.expert_linear(x, given, ids, bias, activation="silu", gated=True)
        assert len(found.records) == count


@gpu
def test_other_experts_do_not_count(dev: pk.Device) -> None:
    """NaN in the weights of experts that no row names."""
    w = np.full((6, 40, 64), np.nan, F32)
    w[[1, 4]] = 1.0
    ids = np.int32([[1, 4]])
    for body in BODIES:
        with force(dev, choice("mul_mat_id", body=body)):
            assert (pk.expert_linear(dev.ones((1, 64)), w, ids).numpy() == 64).all()


def test_expert_linear_rejects(dev: pk.Device) -> None:
    x, w, ids = dev.ones((4, 32)), dev.ones((3, 8, 32)), np.zeros((4, 2), np.int32)
    call: Callable[..., Any] = pk.expert_linear
    wrong: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        ((x, w[0], ids), pk.ShapeError, r"x, w and experts must be"),
        ((x[:3], w, ids), pk.ShapeError, r"fits neither experts"),
        ((x[:, :16], w, ids), pk.ShapeError, r"fits neither experts"),
        ((x[:, :8], w[:, :, :8], ids), pk.ShapeError, "k must be a multiple of 16"),
        ((x, w, ids.astype(np.float32)), pk.DTypeError, "int32"),
    ]
    for args, error, text in wrong:
        with pytest.raises(error, match=text):
            call(*args)
    bad: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"b": dev.ones(8)}, pk.ShapeError, r"b must have shape \(3, 8\)"),
        ({"activation": "tanh"}, pk.ArgumentError, "activation must be one of"),
        ({"gated": 2}, pk.ArgumentError, "gated"),
        ({"b": np.ones((3, 8), "i4")}, pk.DTypeError, "bias"),
    ]
    for options, error, text in bad:
        with pytest.raises(error, match=text):
            call(x, w, ids, **options)
    with pytest.raises(pk.ShapeError, match="a gated w must have an even n but has 7"):
        call(x, w[:, :7], ids, gated=True)
    y, rows = dev.empty((4, 2, 8)), x[:, None]
    own: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"bias": dev.ones((2, 8))}, pk.ShapeError, r"bias must broadcast to \(3, 8\)"),
        ({"residual": dev.ones((3, 8))}, pk.ShapeError, r"residual must broadcast to \(4, 2, 8\)"),
        ({"residual": y, "gated": True}, pk.ArgumentError, "a gated product takes no residual"),
        ({"activation": "tanh"}, pk.ArgumentError, "activation must be one of"),
        ({"gated": True}, pk.ShapeError, r"w must be \(experts, 16, 32\)"),
    ]
    for options, error, text in own:
        with pytest.raises(error, match=text):
            pk.kernels.mul_mat_id(dev.tensor(ids), rows, y, w=w, **options)
    with (
        force(dev, choice("mul_mat_id", body="rows")),
        pytest.raises(pk.ArgumentError, match="bodies for rows do not bind a residual"),
    ):
        pk.kernels.mul_mat_id(dev.tensor(ids), rows, y, w=w, residual=y)
    with pytest.raises(pk.ShapeError, match="there are 8 rows, but no experts"):
        call(x, w[:0], ids)
    assert call(x[:0], w[:0], ids[:0]).shape == (0, 2, 8)
    with pytest.raises(pk.DTypeError, match="out must be float32, float16 or bfloat16"):
        call(x, w, ids, out=dev.zeros((4, 2, 8), "int32"))


@pytest.mark.once
@gpu
def test_gradient_by_the_rows_of_quantised_weights(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    w = pk.quantize(dev.tensor(rng.normal(0, 1, (3, 32, 64)).astype(F32)), "q8_0")
    x, dy = (dev.tensor(rng.normal(0, 1, (4, 2, n)).astype(F32)) for n in (64, 32))
    ids = np.int32([[0, 1], [1, 0], [0, 0], [1, 2]])
    with pk.Tape() as tape:
        tape.watch(x)
        loss = pk.sum(pk.expert_linear(x, w, ids) * dy)
    [found] = tape.gradient(loss, [x])
    each = np.abs(w.numpy()[ids]), np.abs(dy.numpy())
    want = np.einsum("tsnk,tsn->tsk", w.numpy()[ids].astype(np.float64), dy.numpy())
    bound = (32**0.5 + 4) * 2.0**-23 * np.einsum("tsnk,tsn->tsk", *each)
    assert_close(found.numpy(), want, bound)
