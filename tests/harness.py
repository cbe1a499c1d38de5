"""What kernel tests are made of: cases inside arenas full of canaries, layouts, and metrics.

An arena is one GPU buffer with a mirror on the host, both filled with the same random bytes. The
tensors of a case are views inside it. After a call every byte that is not an element of an output
must be what it was: guards around the views, gaps between strides, the other half of a word.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.dtypes import DTYPES, numpy_dtype
from pykernels.tensors.layout import extent

Array = np.ndarray[Any, Any]
GUARD = 8192
# STORAGE | COPY_SRC | COPY_DST
USAGE = 0x80 | 0x04 | 0x08
DTYPE_NAMES = tuple(DTYPES)


# -- layouts --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """How a tensor lies in memory.

    order: axes from the outermost to the innermost in memory; () is C order.
    steps: multiplies the stride of each axis: negative runs backwards, 2 leaves gaps, 0 repeats
        one element (inputs only). () is 1 everywhere.
    gap: elements left free between neighbours of every axis but the innermost.
    phase: elements from a 256-byte boundary to the first byte of the window.
    """

    order: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    gap: int = 0
    phase: int = 0

    def strides(self, shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
        """Strides in bytes."""
        order = self.order or tuple(range(len(shape)))
        steps = self.steps or (1,) * len(shape)
        strides = [0] * len(shape)
        unit = itemsize
        for axis in reversed(order):
            strides[axis] = unit * steps[axis]
            if steps[axis]:
                unit = unit * abs(steps[axis]) * max(shape[axis], 1) + self.gap * itemsize
        return tuple(strides)


def forms(ndim: int, *, repeats: bool) -> dict[str, Form]:
    """Layouts of every kind for a tensor of `ndim` axes; `repeats` adds those with stride 0."""
    axes = tuple(range(ndim))
    ones = (1,) * ndim
    found = {
        "contiguous": Form(),
        "phase1": Form(phase=1),
        "phase3": Form(phase=3),
        "rows_apart": Form(gap=3, phase=5),
        "aligned_rows_apart": Form(gap=16, phase=16),
        "reversed_axes": Form(order=axes[::-1]),
        "swapped": Form(order=(*axes[:-2], *axes[:-3:-1]), phase=1),
        "swapped_apart": Form(order=(*axes[:-2], *axes[:-3:-1]), gap=5, phase=2),
        "rotated": Form(order=axes[1:] + axes[:1], phase=7),
        "every_second": Form(steps=(*ones[:-1], 2), phase=1),
        "every_third_row": Form(steps=(3, *ones[1:]), phase=2),
        "backwards": Form(steps=(-1,) * ndim, phase=3),
        "columns_backwards": Form(steps=(*ones[:-1], -1)),
        "rows_backwards": Form(steps=(-2, *ones[1:]), phase=1),
    }
    if repeats:
        found["first_repeats"] = Form(steps=(0, *ones[1:]), phase=1)
        found["last_repeats"] = Form(steps=(*ones[:-1], 0))
        found["all_repeat"] = Form(steps=(0,) * ndim, phase=3)
    return found


def random_form(rng: np.random.Generator, ndim: int, *, repeats: bool) -> Form:
    """Any layout."""
    kinds = [1, 1, 1, 1, 2, 3, -1, -2] + ([0] if repeats else [])
    return Form(
        order=tuple(int(a) for a in rng.permutation(ndim)) if rng.random() < 0.5 else (),
        steps=tuple(int(s) for s in rng.choice(kinds, ndim)) if rng.random() < 0.5 else (),
        gap=int(rng.choice([0, 0, 1, 3, 8])),
        phase=int(rng.integers(0, 20)) if rng.random() < 0.7 else 0,
    )


# -- cases ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Operand:
    """One tensor of a case: `array` is its view of the mirror, `tensor` the one on the device."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    buffer: str
    start: int  # first byte of the window
    first: int  # first element's byte
    end: int
    output: bool
    values: Array | None
    array: Array = field(init=False)
    tensor: pk.Tensor = field(init=False)


class Case:
    """The tensors of one or more launches, and the buffers that they lie in.

    Each operand gets a buffer of its own, or shares the one named `buffer` with others of that
    name: `near` bytes behind the operand placed before it (0: their windows touch, as far as the
    item size allows), or `over` another operand, `delta` bytes behind its start. `start` is a byte
    of the buffer.
    """

    def __init__(self, dev: pk.Device, seed: int = 0, *, tail: int = GUARD) -> None:
        self.dev = dev
        self.rng = np.random.default_rng(seed)
        self.operands: list[Operand] = []
        self._cursor: dict[str, int] = {}
        self._end: dict[str, int] = {}
        self._tail = tail
        self._buffers: list[Any] = []

    def input(self, values: Array, form: Form | None = None, **where: Any) -> Operand:
        """An input with these values (of one element, where the form repeats it)."""
        values = np.asarray(values)
        return self._place(values.dtype.name, values.shape, form, False, values, **where)

    def output(
        self, shape: Sequence[int], dtype: str, form: Form | None = None, **where: Any
    ) -> Operand:
        """An output, full of random bytes."""
        return self._place(dtype, tuple(shape), form, True, None, **where)

    def in_place(self, values: Array, form: Form | None = None, **where: Any) -> Operand:
        """A tensor that is input and output."""
        values = np.asarray(values)
        return self._place(values.dtype.name, values.shape, form, True, values, **where)

    def _place(
        self, dtype: str, shape: tuple[int, ...], form: Form | None, output: bool,
        values: Array | None, *, buffer: str | None = None, near: int = GUARD,
        over: Operand | None = None, delta: int = 0, start: int | None = None,
    ) -> Operand:  # fmt: skip
        form = form or Form()
        item = DTYPES[dtype].itemsize
        strides = form.strides(shape, item)
        lo, hi = extent(shape, strides, item)
        if over is not None:
            buffer, start = over.buffer, over.start + delta
        else:
            buffer = buffer or f"buffer {len(self.operands)}"
            if start is not None:
                pass
            elif buffer in self._cursor and near < GUARD:
                start = -(-(self._cursor[buffer] + near) // item) * item
            else:
                start = -(-(self._cursor.get(buffer, 0) + GUARD) // 256) * 256 + form.phase * item
        assert start % item == 0, "an operand must start on its item size"
        found = Operand(
            dtype, shape, strides, buffer, start, start - lo, start - lo + hi, output, values
        )
        self._cursor[buffer] = max(self._cursor.get(buffer, 0), found.end)
        self.operands.append(found)
        return found

    def build(self) -> None:
        """Make the buffers and tensors; their bytes are random but for the inputs' elements."""
        self.bytes: dict[str, Array] = {}
        for name, end in self._cursor.items():
            size = max(-(-(end + self._tail) // 4) * 4, 4)
            self.bytes[name] = self.rng.integers(0, 256, size, np.uint8)
        for o in self.operands:
            dt = numpy_dtype(o.dtype)  # type: ignore[arg-type]
            o.array = np.ndarray(o.shape, dt, self.bytes[o.buffer].data, o.first, o.strides)
        for o in self.operands:
            if o.values is not None:
                o.array[...] = o.values
        raw = self.dev.wgpu_device
        made = {}
        for name, data in self.bytes.items():
            made[name] = raw.create_buffer(size=data.size, usage=USAGE)
            raw.queue.write_buffer(made[name], 0, data)
        self._buffers = list(made.values())
        self.words = {
            name: pk.Tensor.from_buffer(b, b.size // 4, "uint32", device=self.dev)
            for name, b in made.items()
        }
        for o in self.operands:
            o.tensor = pk.Tensor.from_buffer(
                made[o.buffer], o.shape, o.dtype, offset=o.first, strides=o.strides,
                device=self.dev,
            )  # fmt: skip

    def run(self, call: Callable[[], object]) -> list[Array]:
        """Run the launches of `call`; the outputs, once everything else was found unchanged."""
        if not self._buffers:
            self.build()
        try:
            dirty(self.dev)
            call()
            after = {name: t.numpy().view(np.uint8) for name, t in self.words.items()}
        finally:
            self.dev.sync()  # nothing recorded may use a destroyed buffer
            for b in self._buffers:
                b.destroy()
        return self._check(after)

    def _check(self, after: dict[str, Array]) -> list[Array]:
        results = []
        for name, data in after.items():
            expected = self.bytes[name].copy()
            for o in (o for o in self.operands if o.output and o.buffer == name):
                dt = numpy_dtype(o.dtype)  # type: ignore[arg-type]
                got = np.ndarray(o.shape, dt, data.data, o.first, o.strides)
                np.ndarray(o.shape, dt, expected.data, o.first, o.strides)[...] = got
            wrong = np.flatnonzero(expected != data)
            if wrong.size:
                raise AssertionError(self._describe(name, wrong))
        for o in (o for o in self.operands if o.output):
            dt = numpy_dtype(o.dtype)  # type: ignore[arg-type]
            view = np.ndarray(o.shape, dt, after[o.buffer].data, o.first, o.strides)
            results.append(view.copy())
        return results

    def _describe(self, name: str, wrong: Array) -> str:
        first = int(wrong[0])
        near = ", ".join(
            f"{o.dtype} {o.shape} strides {o.strides} bytes {o.start}..{o.end}"
            for o in self.operands
            if o.buffer == name
        )
        return (
            f"{wrong.size} bytes outside the outputs changed, the first at {first}, the last at "
            f"{int(wrong[-1])}; views there: {near}"
        )


def run_one(
    dev: pk.Device, call: Callable[..., object], inputs: Sequence[Array | None],
    shape: Sequence[int], dtype: str, seed: int = 0,
) -> Array:  # fmt: skip
    """`call(*tensors, dst)` with every tensor contiguous in a buffer of its own."""
    case = Case(dev, seed)
    ins = [None if a is None else case.input(a) for a in inputs]
    dst = case.output(shape, dtype)
    case.build()
    return case.run(lambda: call(*(o and o.tensor for o in ins), dst.tensor))[0]


@contextmanager
def caps(dev: pk.Device, **changes: Any) -> Iterator[None]:
    """The device with other capabilities for plans: f16=False, max_groups=, max_binding= ..."""
    context = dev._context
    before = context.caps
    context.forget_calls()
    context.caps = replace(before, **changes)
    try:
        yield
    finally:
        context.forget_calls()
        context.caps = before


_DIRTY = """
@group(0) @binding(0) var<storage, read_write> seen: array<u32>;
var<workgroup> memory: array<u32, 4096>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) li: u32, @builtin(workgroup_id) wg: vec3<u32>) {
  for (var i = li; i < 4096u; i += 64u) { memory[i] = 0x7fc0dead ^ i; }
  workgroupBarrier();
  if (li == 0u) { seen[wg.x] = memory[(wg.x * 97u) & 4095u]; }
}
"""
_dirty: weakref.WeakKeyDictionary[pk.Device, tuple[Any, Any]] = weakref.WeakKeyDictionary()


def dirty(dev: pk.Device) -> None:
    """Leave NaNs in the workgroup memory that later workgroups will find."""
    raw = dev.wgpu_device
    if dev not in _dirty:
        module = raw.create_shader_module(code=_DIRTY)
        pipeline = raw.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        buffer = raw.create_buffer(size=64, usage=0x80)
        group = raw.create_bind_group(
            layout=pipeline.get_bind_group_layout(0),
            entries=[{"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 64}}],
        )
        _dirty[dev] = (pipeline, group)
    pipeline, group = _dirty[dev]
    encoder = raw.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    compute_pass.set_pipeline(pipeline)
    compute_pass.set_bind_group(0, group)
    compute_pass.dispatch_workgroups(16)
    compute_pass.end()
    raw.queue.submit([encoder.finish()])


# -- values ---------------------------------------------------------------------------------------

_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.999, -0.999, 127.0, 127.5, 128.0, -128.0,
    -128.9, -129.0, 255.0, 255.9, 256.0, 32767.0, 32767.9, 32768.0, -32768.0, -32769.0, 65503.0,
    65504.0, 65519.9, 65520.0, 65535.0, 65536.0, 2147483520.0, 2147483648.0, -2147483648.0,
    -2147483904.0, 4294967040.0, 4294967296.0, 1e20, -1e20, 3.4e38, -3.4e38, 1e-20, 6e-8, 3e-8,
    2.98e-8, 1e-45, -1e-45, np.inf, -np.inf, np.nan, -np.nan,
]  # fmt: skip


_INTS = (0, 1, -1, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**24 + 1, 2**24 + 3,
         2**30 + 2**22 + 1, 2**31 - 1, -(2**31), 2**32 - 1)  # fmt: skip


def values(rng: np.random.Generator, dtype: str, shape: Sequence[int] | int) -> Array:
    """Any values that the dtype can hold: random bits, small numbers and the special ones."""
    dt = numpy_dtype(dtype)  # type: ignore[arg-type]
    n = math.prod((shape,) if isinstance(shape, int) else shape)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype == "complex64":
        return values(rng, "float32", 2 * n).view(dt).reshape(shape)
    bits = rng.integers(0, 256, n * dt.itemsize, np.uint8).view(dt)
    if DTYPES[dtype].kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            special = np.array(_FLOATS, np.float32).astype(dt)
            small = rng.normal(0, 100, n).astype(np.float32).astype(dt)
    else:
        info = np.iinfo(dt)
        edges = [e for e in (info.min, info.max, *_INTS) if info.min <= e <= info.max]
        special = np.array(edges, dt)
        small = rng.integers(max(info.min, -100), min(info.max, 100) + 1, n).astype(dt)
    which = rng.random(n)
    out = np.where(which < 0.4, bits, np.where(which < 0.7, small, rng.choice(special, n)))
    return out.astype(dt, copy=False).reshape(shape)


# -- metrics --------------------------------------------------------------------------------------


def bits(a: Array) -> Array:
    """The bits of an array, as unsigned integers."""
    return np.ascontiguousarray(a).view(f"u{a.dtype.itemsize}")


def assert_same_bits(got: Array, want: Array, what: str = "") -> None:
    """Every element has the same bits."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    _report(bits(got) != bits(want), got, want, what)


def assert_same(got: Array, want: Array, what: str = "") -> None:
    """The same bits, except that any NaN stands for any other."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    differ = bits(got) != bits(want)
    if DTYPES[got.dtype.name].kind in "fc":
        differ &= ~(np.isnan(got) & np.isnan(want))
    _report(differ, got, want, what)


def assert_close(got: Array, want: Array, bound: Array, what: str = "") -> None:
    """|got - want| <= bound for each element; NaN where want is NaN, and the same infinities.

    What the dtype cannot hold is infinite; a float16 may be one more unit in the last place away.
    """
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    g = got.astype(np.float64)
    want = np.where(np.abs(want) > np.finfo(got.dtype).max, np.copysign(np.inf, want), want)
    with np.errstate(invalid="ignore", over="ignore"):
        if got.dtype == np.float16:
            # np.spacing is that of the value below a power of two's too: take the larger.
            bound = bound + np.maximum(np.spacing(np.abs(want).astype(np.float16)), 2.0**-24)
        error = np.abs(g - want)
        fine = np.where(np.isfinite(want), error <= bound, g == want)
    fine |= np.isnan(g) & np.isnan(want)
    _report(~fine, got, want, what)


def _report(wrong: Array, got: Array, want: Array, what: str) -> None:
    if not wrong.any():
        return
    where = np.argwhere(wrong)
    shown = "; ".join(
        f"at {tuple(int(i) for i in at)} {got[tuple(at)]!r}, not {want[tuple(at)]!r}"
        for at in where[:5]
    )
    raise AssertionError(f"{what}: {len(where)} of {got.size} elements are wrong: {shown}")


def sum_budget(products: Array) -> Array:
    """The budget of a sum of K products with f32 accumulation: 2^-23 (sqrt(K) + 4) sum|a||b|."""
    return 2.0**-23 * (math.sqrt(products.shape[-1]) + 4) * np.abs(products).sum(-1, keepdims=True)
