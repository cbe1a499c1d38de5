"""Every exported kernel in headless Chromium, through the exported module, against numpy.

The cases are in pykernels/export/cases/FAMILY/KERNEL.toml. Every tensor lies inside a buffer of
random bytes, and after a call every byte that is no element of an output must be what it was.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pytest

from pykernels.export._cases import arrays, cases, fills
from pykernels.export._expect import agree, results
from pykernels.export._layouts import Request
from pykernels.export._record import CAPS, record
from pykernels.export._write import live_plan
from pykernels.tensors.layout import Layout
from pykernels.wgsl.texts import read_manifest

from .conftest import BODIES, FACTS

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.browser
CASES = [
    r for name, facts in sorted(FACTS.items()) for r in getattr(cases(name, facts), "test", [])
]
VARIANTS = read_manifest()["variants"]
GUARD = 64


class Arena:
    """The buffers of a case: random bytes, with the elements of each tensor in their places."""

    def __init__(self, request: Request, values: dict[str, str]) -> None:
        facts = FACTS[request.kernel]
        self.rng = np.random.default_rng(zlib.crc32(request.text.encode()))
        self.buffers: list[Array] = []
        self.tensors: dict[str, dict[str, Any]] = {}
        self.arrays: dict[str, Array] = {}
        made = arrays(request, fills(request, facts, values))
        # Half of the cases run recorded plans, which want offsets in multiples of 256.
        recorded = live_plan(facts) is None or self.rng.random() < 0.5
        start = 256 if recorded else 256 + 8 * int(self.rng.integers(1, 8))
        for name, lay in request.layouts.items():
            if name in request.shares:
                self.tensors[name] = self.tensors[request.shares[name]]
                self.arrays[name] = self.arrays[request.shares[name]]
                continue
            size = -(-(start + lay.hi + GUARD) // 16) * 16
            self.buffers.append(self.rng.integers(0, 256, size, np.uint8))
            self.tensors[name] = {
                "buffer": len(self.buffers) - 1, "dtype": lay.dtype.name, "offset": start,
                "shape": list(lay.shape), "strides": list(lay.strides),
            }  # fmt: skip
            self.arrays[name] = made[name]
            view(self.buffers[-1], start, lay, self.arrays[name].dtype)[...] = self.arrays[name]

    def case(self, request: Request) -> dict[str, Any]:
        outputs = [t["name"] for t in FACTS[request.kernel]["tensors"] if t["role"] == "out"]
        return {
            "kernel": request.kernel,
            "buffers": [base64.b64encode(b.tobytes()).decode() for b in self.buffers],
            "tensors": self.tensors,
            "given": request.given,
            "outputs": [o for o in outputs if o in self.tensors],
        }


def view(buffer: Array, offset: int, lay: Layout, dtype: np.dtype[Any]) -> Array:
    return np.ndarray(lay.shape, dtype, buffer.data, offset, lay.strides)


def needs(request: Request) -> set[str]:
    """The features of the variants that a call runs."""
    facts = FACTS[request.kernel]
    found = set()
    for step in record(request, facts, CAPS.tuning)["steps"]:
        parts = zip(BODIES[step["body"]]["axes"], step["axes"], strict=True)
        name = " ".join([step["body"], *(f"{k}={v}" for k, v in parts), "mode=read"])
        found |= set(VARIANTS[name]["features"])
    return found


@pytest.mark.parametrize("request_", CASES, ids=lambda r: f"{r.kernel} {r.text}")
def test_kernel_agrees_with_numpy(request_: Request, page: Any) -> None:
    facts = FACTS[request_.kernel]
    found = cases(request_.kernel, facts)
    assert found is not None
    if "shader-f16" in needs(request_):
        pytest.skip("SwiftShader has no shader-f16")
    arena = Arena(request_, found.values)
    case = arena.case(request_)
    want = results(request_, facts, arena.arrays)
    answer = page.evaluate("(c) => runCase(c)", case)
    assert answer["errors"] == []
    for name, reference in want.items():
        t, lay = arena.tensors[name], request_.layouts[name]
        raw = np.frombuffer(base64.b64decode(answer["results"][name]), np.uint8).copy()
        got = view(raw, t["offset"], lay, arena.arrays[name].dtype)
        result = agree(got, reference.reshape(lay.shape))
        assert not result.bad, f"{name}: {result} of {lay.size} elements"
        got[...] = view(arena.buffers[t["buffer"]], t["offset"], lay, got.dtype)
        assert (raw == arena.buffers[t["buffer"]]).all(), f"{name}: bytes beside it changed"


@pytest.mark.parametrize(
    ("kernel", "tensors", "given", "said"),
    [
        ("mul_mat", {"a": [3, 5], "b": [2, 4], "dst": [2, 3]}, {}, "a and b must agree"),
        ("softmax_backward", {"y": [3, 5], "dy": [3, 4], "dst": [3, 5]}, {}, "must have the shape"),
        ("softmax_backward", {"y": [3, 5], "dst": [3, 5]}, {}, "dy must be a Tensor"),
        ("softmax_backward", {"y": [2], "dy": [2], "dst": [2]}, {"b": 1}, "no argument b"),
        ("fill", {"dst": [3]}, {"value": 0.5, "of": "int32"}, "value must be an integer for int32"),
        ("fill", {"dst": [3]}, {"value": 300, "of": "uint8"}, "value must fit uint8"),
    ],
)
def test_module_rejects(
    kernel: str, tensors: dict[str, list[int]], given: dict[str, Any], said: str, page: Any
) -> None:
    code = """async ([kernel, shapes, { of = "float32", ...args }]) => {
      const pk = await import("./pykernels.js");
      for (const [name, shape] of Object.entries(shapes)) args[name] = gpu.empty(shape, of);
      try { await pk[kernel](gpu, args); } catch (e) { return [e.constructor.name, e.message]; }
    }"""
    kind, message = page.evaluate(code, [kernel, tensors, given])
    assert kind == "KernelError" and message.startswith(f"[{kernel}] ") and said in message


def test_inputs_in_the_buffer_of_the_output(page: Any) -> None:
    """Windows apart run as read_write; overlapping ones are refused."""
    code = """async (gap) => {
      const pk = await import("./pykernels.js");
      const { buffer } = gpu.tensor(Float32Array.from({ length: 4096 }, (_, i) => (i % 7) / 8));
      const at = (offset) => new pk.Tensor(buffer, [4, 8], "float32", { offset });
      try {
        const args = { y: at(0), dy: at(1024), dst: at(1024 + gap) };
        (await pk.softmax_backward(gpu, args)).run();
        const first = await gpu.data(args.dst);
        const other = { ...args, dst: gpu.empty([4, 8], "float32") };
        (await pk.softmax_backward(gpu, other)).run();
        return [first.join(), (await gpu.data(other.dst)).join()];
      } catch (e) { return e.message; }
    }"""
    apart, clean = page.evaluate(code, 1024)
    assert apart == clean
    assert "dy overlaps an output in one buffer" in page.evaluate(code, 64)


def test_a_plan_in_javascript(page: Any) -> None:
    """Two bodies and scratch memory, in place of the plan of softmax."""
    code = """async () => {
      const pk = await import("./pykernels.js");
      const x = gpu.tensor(Float32Array.from({ length: 6 * 20 }, (_, i) => (i % 11) / 4), [6, 20]);
      const dst = gpu.empty([6, 20], "float32");
      const seen = [];
      const plan = (caps, { x, dst }, scratch) => {
        const copy = scratch.empty(x.shape, "float32");
        const bytes = (v) => Object.assign(v.with_layout([v.nbytes], [1]), { dtype: u8 });
        const u8 = { name: "uint8", short: "u8", itemsize: 1, kind: "u" };
        const named = { head_rows: 6, heads: 1, first_head: 0, alibi_heads: 1 };
        return [
          pk.bodies.cpy_bytes.step(caps, { src: bytes(x), dst: bytes(copy) }),
          pk.bodies.softmax.step(caps, { x: copy, mask: null, sinks: null, dst },
            { LENGTH: "row128", ...named }),
        ];
      };
      const call = await pk.softmax(gpu, { x, dst }, plan);
      call.run();
      return [call.dispatches.length, [...await gpu.data(x)], [...await gpu.data(dst)]];
    }"""
    steps, x, got = page.evaluate(code)
    assert steps == 2
    e = np.exp(np.reshape(x, (6, 20)))
    np.testing.assert_allclose(np.reshape(got, (6, 20)), e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_grids_are_folded(page: Any) -> None:
    """As on a device with fewer workgroups along an axis: the surplus does nothing."""
    code = """async () => {
      const pk = await import("./pykernels.js");
      const buffer = gpu.device.createBuffer({ size: 40000, usage: 0x80 | 0x04 | 0x08 });
      const dst = new pk.Tensor(buffer, [2, 2100], "float32", { strides: [16800, 8] });
      const plan = (caps, { dst }) => [pk.bodies.fill.step(caps, { dst })];
      const before = gpu.caps.max_groups;
      gpu.caps.max_groups = 1;
      const call = await pk.fill(gpu, { dst, value: 2 }, plan);
      gpu.caps.max_groups = before;
      call.run();
      const whole = new pk.Tensor(buffer, [10000], "float32");
      return [call.dispatches[0].grid, [...await gpu.data(whole)]];
    }"""
    grid, got = page.evaluate(code)
    assert grid == [32768, 1]
    want = np.zeros(10000)
    want[:8400:2] = 2
    np.testing.assert_array_equal(got, want)
