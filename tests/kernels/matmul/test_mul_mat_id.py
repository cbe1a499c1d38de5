"""mul_mat_id and expert_linear: rows that choose their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.quant.types import TYPES
from pykernels.reference.matmul import mul_mat_id as reference
from pykernels.reference.matmul import mul_mat_id_budget as budget
from tests.harness import Array, Case, Form, assert_close, caps
from tests.kernels.matmul.quant_calls import planes_of

F32, F16 = "float32", "float16"
gpu = pytest.mark.gpu


class Calls:
    """Many products in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.calls: list[tuple[dict[str, Any], Any, str | None]] = []

    def add(
        self, quant: str | None, ids: Array, m: int, k: int, dtype: str = F32, out: str = F32, *,
        experts: int = 3, shared: bool = True, b_form: Form | None = None,
        dst_form: Form | None = None, ids_form: Form | None = None, weights: str = F32,
    ) -> None:  # fmt: skip
        rng, case = self.case.rng, self.case
        given: dict[str, Array] = {}
        if quant is None:
            given["w"] = rng.normal(0, 1, (experts, m, k)).astype(weights)
        else:
            each = [planes_of(rng, quant, m, k) for _ in range(experts)]
            given = {n: np.concatenate([e[n] for e in each]) for n in each[0]}
        inputs = {n: case.input(v, buffer=n) for n, v in given.items()}
        b = rng.normal(0, 1, (ids.shape[0], 1 if shared else ids.shape[1], k)).astype(dtype)
        inputs["b"] = case.input(b, b_form, buffer="b")
        inputs["ids"] = case.input(ids, ids_form, buffer="ids")
        dst = case.output((*ids.shape, m), out, dst_form, buffer="dst")
        self.calls.append((inputs, dst, quant))

    def check(self, what: str = "") -> None:
        self.case.build()
        arrays = [{n: o.array.copy() for n, o in ins.items()} for ins, *_ in self.calls]

        def run() -> None:
            for inputs, dst, quant in self.calls:
                given = {n: o.tensor for n, o in inputs.items()}
                pk.kernels.mul_mat_id(**given, dst=dst.tensor, quant=quant)

        results = self.case.run(run)
        for got, ins, (_, dst, quant) in zip(results, arrays, self.calls, strict=True):
            want = reference(**ins, shape=dst.shape, quant=quant)
            allowed = budget(**ins, shape=dst.shape, quant=quant)
            assert_close(got, want, allowed, f"{what} {quant} {dst.dtype} {dst.shape}")


def chosen(rng: np.random.Generator, tokens: int, slots: int, experts: int) -> Array:
    """Some experts often, the last one never."""
    return np.minimum(rng.geometric(0.5, (tokens, slots)) - 1, experts - 2).astype(np.int32)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("quant", TYPES)
def test_types(dev: pk.Device, quant: str) -> None:
    calls = Calls(dev)
    rng = np.random.default_rng(1)
    calls.add(quant, chosen(rng, 21, 2, 4), 37, 2 * TYPES[quant].block, experts=4)
    calls.check(quant)


@gpu
def test_floats_layouts_and_dtypes(dev: pk.Device) -> None:
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
        calls.add(quant, ids, 9, 64, F16, weights=F16)
        if halves:
            calls.add(quant, ids, 9, 64, F16, F16, weights=F16)
            calls.add(quant, ids, 9, 64, F32, F16)
    calls.check()


@gpu
def test_experts_in_pieces(dev: pk.Device) -> None:
    """Weights of which no binding holds all."""
    rng = np.random.default_rng(3)
    calls = Calls(dev)
    for quant in (None, "q8_0"):
        calls.add(quant, chosen(rng, 9, 2, 7), 20, 128, experts=7)
    with caps(dev, max_binding=32768):
        calls.check()


@gpu
def test_experts_out_of_range(dev: pk.Device) -> None:
    w, x = dev.ones((3, 8, 32)), dev.ones((4, 32))
    ids = np.array([[0, 2], [1, 3], [2, 2], [0, 1]], np.int32)
    out = dev.full((4, 2, 8), 5)
    with pytest.raises(pk.IndexRangeError, match=r"ids must be in \[0, 3\) .* \(1, 1\)"):
        pk.expert_linear(x, w, ids, out=out).numpy()
    kept = out.numpy()
    assert (kept[1, 1] == 5).all() and (np.delete(kept.reshape(8, 8), 3, 0) == 32).all()


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
def test_two_dispatches(dev: pk.Device, quant: str) -> None:
    """The order of the rows, and the product: however many tokens and experts there are."""
    w, x = dev.ones((8, 64, 64)), dev.ones((40, 64))
    ids = dev.tensor(np.arange(80, dtype=np.int32).reshape(40, 2) % 8)
    given: Any = pk.quantize(w, "q4_0") if quant else w
    with dev.profile() as found:
        pk.expert_linear(x, given, ids)
    assert len(found.records) == 2


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
    with pytest.raises(pk.DTypeError, match="out must be float32, float16 or bfloat16"):
        call(x, w, ids, out=dev.zeros((4, 2, 8), "int32"))


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
