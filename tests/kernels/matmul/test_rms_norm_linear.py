"""rms_norm_linear: one row in one dispatch, of every type, and as a norm and a product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.matmul.rms_norm_linear import plan
from pykernels.plans.quant.types import TYPES, planes
from pykernels.reference.matmul import rms_norm_linear, rms_norm_linear_budget
from pykernels.steps import Scratch
from tests.harness import Array, Case, Form, Operand, assert_close, caps, random_form
from tests.kernels.matmul.quant_calls import CAPS
from tests.kernels.matmul.quant_calls import view_of as view

pytestmark = pytest.mark.gpu
F32, F16 = "float32", "float16"
KINDS = ((F32, F32), (F32, F16), (F16, F16))  # of x and w


class Calls:
    """Calls in one arena, each compared with float64."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.case = Case(dev, seed)
        self.rng = self.case.rng
        self.calls: list[tuple[dict[str, Operand], dict[str, Any]]] = []

    def add(
        self, rows: int, depth: int, dtype: str, weights: str, *, bias: str = "",
        forms: tuple[Form, ...] = (), **options: Any,
    ) -> None:  # fmt: skip
        """`weights`: a dtype, or a type of blocks."""
        rng, own = self.rng, forms or (Form(),) * 4
        given = {
            "x": self.case.input(rng.normal(0, 2, depth).astype(dtype), own[0]),
            "gain": self.case.input(rng.normal(1, 0.5, depth).astype(dtype), own[1]),
        }
        w = rng.normal(0, depth**-0.5, (rows, depth)).astype(F32)
        if weights in TYPES:
            options["quant"] = weights
            given |= {n: self.case.input(a) for n, a in _planes(w, weights, rng).items()}
        else:
            given["w"] = self.case.input(w.astype(weights), own[2])
        if bias:
            given["bias"] = self.case.input(rng.normal(size=rows).astype(bias))
        columns = rows // 2 if options.get("gated") else rows
        given["dst"] = self.case.output((columns,), dtype, own[3])
        self.calls.append((given, options))

    def check(self) -> None:
        self.case.build()
        before = [{n: o.array.copy() for n, o in g.items() if n != "dst"} for g, _ in self.calls]

        def run() -> None:
            for given, options in self.calls:
                t = {n: o.tensor for n, o in given.items()}
                first = [t.pop(n) for n in ("x", "gain", "w", "dst")]
                pk.kernels.rms_norm_linear(*first, **t, **options)

        for got, arrays, (_, options) in zip(self.case.run(run), before, self.calls, strict=True):
            want = rms_norm_linear(**arrays, shape=got.shape, **options)
            bound = rms_norm_linear_budget(**arrays, shape=got.shape, **options)
            what = f"{arrays['x'].dtype} {arrays['w'].dtype} {arrays['w'].shape} {options}"
            assert_close(got, want, bound, what)


def _planes(w: Array, kind: str, rng: np.random.Generator) -> dict[str, Array]:
    """Planes of numbers of about w's size."""
    low, scales, high = planes("test", TYPES[kind], w.shape)
    found = {"w": rng.integers(0, 1 << 32, low, dtype=np.uint32)}
    records = rng.integers(32, 48, (*scales, 4), dtype=np.uint8)
    found["scales"] = records.view(np.uint32)[..., 0]
    if high is not None:
        found["high"] = rng.integers(0, 1 << 32, high, dtype=np.uint32)
    return found


def test_floats(dev: pk.Device) -> None:
    """Rows and depths around the lanes, gates, biases, any layout."""
    calls = Calls(dev)
    for n, (dtype, weights) in enumerate(KINDS * 2):
        forms = tuple(random_form(calls.rng, r, repeats=i < 3) for i, r in enumerate((1, 1, 2, 1)))
        calls.add((10, 33)[n % 2], (64, 520)[n % 2], dtype, weights, bias=("", F32, F16)[n % 3])
        calls.add(38, 96, dtype, weights, gated=True, activation="silu", bias=F32)
        calls.add(6, 40, dtype, weights, gated=True, activation="gelu_tanh", eps=1e-2, forms=forms)
        calls.add(64, 2048, dtype, weights, activation="relu")
    calls.check()


@pytest.mark.parametrize("name", TYPES)
def test_blocks(dev: pk.Device, name: str) -> None:
    calls = Calls(dev)
    block = TYPES[name].block
    calls.add(10, 3 * block, F32, name, bias=F32)
    calls.add(76, 2 * block, F16, name, gated=True, activation="silu")
    calls.check()


@pytest.mark.parametrize("name", [n for n, t in TYPES.items() if t.halves])
def test_packed_products(dev: pk.Device, name: str) -> None:
    """Invocations of one and two columns, gates and not, rows at offsets."""
    calls = Calls(dev, 3)
    forms = tuple(random_form(calls.rng, r, repeats=i < 3) for i, r in enumerate((1, 1, 2, 1)))
    calls.add(130, 1024, F16, name, bias=F16)
    calls.add(516, 2048, F16, name, gated=True, activation="silu", forms=forms)
    calls.add(12, 256, F16, name, gated=True, bias=F32, eps=1e-2)
    calls.check()


def test_large_sums_of_halves_are_computed_again(dev: pk.Device) -> None:
    """Sums beyond 65,504 before the scale, and a norm that rounds to halves."""
    depth = 64
    x, gain = np.zeros(depth, F16), np.full(depth, 2000, F16)
    x[:8] = 1
    w = np.full((12, depth), 7 / 2048, F32)
    q = pk.quantize(dev.tensor(w), "q8_0")
    got = pk.rms_norm_linear(dev.tensor(x), dev.tensor(gain), q, eps=0.0).numpy()
    row = np.float16(x.astype(float) / np.sqrt((x.astype(float) ** 2).mean()) * gain)
    want = row.astype(float) @ q.numpy().astype(float).T
    np.testing.assert_allclose(got, want, rtol=2e-3)


def test_bodies() -> None:
    """Packed products take halves of the types that have them, if the norm fits."""

    def body(depth: int, dtype: str = F16, quant: str = "q4_0", f16: bool = True) -> list[str]:
        low, scales, _ = planes("test", TYPES[quant], (96, depth))
        x, gain, out = (view((n,), dtype, i) for i, n in enumerate((depth, depth, 96)))
        steps = plan(
            replace(CAPS, f16=f16), Scratch(), x, gain, view(low, "uint32", 3),
            view(scales, "uint32", 4), None, None, out, quant=quant,
        )  # fmt: skip
        return [s.body.name for s in steps]

    assert body(2048) == body(6912) == ["gemv_normed_quant_half"]
    assert body(6912 + 32) == body(64, quant="q4_1") == body(64, F32) == ["gemv_normed_quant"]
    assert body(64, f16=False) == ["gemv_normed_quant"]


def test_it_is_a_norm_and_a_product(dev: pk.Device) -> None:
    """One row is one dispatch; more rows, arrays and tapes are several, with the same numbers."""
    rng = np.random.default_rng(2)
    x, gain = rng.normal(size=(3, 64)).astype("f4"), rng.normal(size=64).astype("f4")
    w, b = rng.normal(size=(20, 64)).astype("f4") / 8, rng.normal(size=20).astype("f4")
    t, g, bias = dev.tensor(x), dev.tensor(gain), dev.tensor(b)
    q = pk.quantize(dev.tensor(w), "q8_0")
    for own, numbers in ((dev.tensor(w), w), (q, q.numpy())):
        for options in ({}, {"activation": "silu", "gated": True}, {"activation": "gelu"},
                        {"gated": True}, {"activation": "gelu_tanh", "gated": True},
                        {"activation": "relu", "gated": True}):  # fmt: skip
            width = 10 if options.get("gated") else 20
            whole = pk.rms_norm_linear(t, g, own, bias, 1e-5, **options).numpy()
            assert whole.shape == (3, width)
            for i in range(3):
                with dev.capture() as program:
                    one = pk.rms_norm_linear(t[i : i + 1], g, own, bias, 1e-5, **options)
                assert len(program) == 1
                program()
                arrays = {"x": x[i], "gain": gain, "w": numbers, "bias": b}
                want = rms_norm_linear(**arrays, shape=(width,), **options)
                bound = rms_norm_linear_budget(**arrays, shape=(width,), **options)
                assert_close(one.numpy()[0], want, bound, str(options))
                assert_close(whole[i], want, 4 * bound, str(options))
    assert isinstance(pk.rms_norm_linear(x[:1], gain, w), np.ndarray)
    out = dev.empty((20,))
    assert pk.rms_norm_linear(t[0], g, q, out=out) is out

    def loss(row: Any, weight: Any) -> Any:
        return (pk.rms_norm_linear(row, weight, q, activation="silu", gated=True) ** 2).sum()

    def plain(row: Any, weight: Any) -> Any:
        return (pk.swiglu(pk.linear(pk.rms_norm(row, 64, weight), q)) ** 2).sum()

    for a, c in zip(pk.grad(loss, (0, 1))(t[:1], g), pk.grad(plain, (0, 1))(t[:1], g), strict=True):
        assert np.abs(a.numpy() - c.numpy()).max() < 1e-4
    for own in (dev.tensor(w), q):
        planes = {"scales": q.scales, "quant": "q8_0"} if own is q else {}
        out = dev.empty((10,))
        with pk.Tape() as tape:
            pk.kernels.rms_norm_linear(
                t[0], g, q.low if own is q else own, out, bias=bias, activation="silu",
                gated=True, **planes,
            )  # fmt: skip
            total = (out**2).sum()
        given = [t[:1], g, *([] if own is q else [own]), bias]

        def direct(row: Any, weight: Any, *rest: Any, own: Any = own) -> Any:
            one, b = (own, rest[0]) if len(rest) == 1 else rest
            y = pk.rms_norm_linear(row, weight, one, b, 1e-5, activation="silu", gated=True)
            return (y**2).sum()

        want = pk.grad(direct, tuple(range(len(given))))(*given)
        got = tape.gradient(total, [t, g, *([] if own is q else [own]), bias])
        for a, c in zip(got, want, strict=True):
            near = a.numpy()[:1] if a.shape == t.shape else a.numpy()
            assert np.abs(near - c.numpy()).max() < 1e-3 * np.abs(c.numpy()).max()
    with caps(dev, f16=False):
        half = pk.rms_norm_linear(t[:1].astype(F16), g.astype(F16), q)
    assert half.dtype == F16 and np.abs(half.numpy() - pk.linear(
        pk.rms_norm(t[:1], 64, g), q).numpy()).max() < 0.05  # fmt: skip


def test_it_rejects(dev: pk.Device) -> None:
    x, g, w = dev.ones((1, 64)), dev.ones(64), dev.ones((20, 64))
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.rms_norm_linear(x, g, w[:, :32]), pk.ShapeError, "x must be"),
        (lambda: pk.rms_norm_linear(x, g[:32], w), pk.ShapeError, "gain must have shape"),
        (lambda: pk.rms_norm_linear(x, g, w[:19], gated=True), pk.ShapeError, "even n"),
        (lambda: pk.rms_norm_linear(x, g, w, g), pk.ShapeError, "bias must have shape"),
        (lambda: pk.rms_norm_linear(x, g, w, activation="tanh"), pk.ArgumentError, "activation"),  # type: ignore[arg-type]
        (lambda: pk.rms_norm_linear(x, g, w, out=dev.empty((1, 10))), pk.ShapeError, "out must"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
