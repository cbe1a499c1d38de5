"""What the tests of convolutions share: checked calls of three kernels, and random arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import pykernels as pk
from pykernels import kernels
from pykernels.reference import conv as reference
from tests.harness import Array, Case, Form, Operand, assert_close, assert_same_bits

F32: Final = "float32"
F16: Final = "float16"
# image, weights, dst
KINDS = [(F32, F32, F32), (F16, F16, F16), (F16, F32, F32), (F32, F16, F16), (F16, F16, F32)]


@dataclass(frozen=True)
class Sizes:
    """A convolution: x (n, groups * c, *image), w (groups * o, c, *kernel)."""

    image: tuple[int, int]
    kernel: tuple[int, int] = (3, 3)
    n: int = 2
    c: int = 5
    o: int = 7
    groups: int = 1
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    layout: str = "NCHW"

    @property
    def options(self) -> dict[str, Any]:
        return {
            "stride": self.stride, "padding": self.padding, "dilation": self.dilation,
            "groups": self.groups, "layout": self.layout,
        }  # fmt: skip

    @property
    def out(self) -> tuple[int, int]:
        top, bottom, left, right = self.padding
        (h, w), (kh, kw), (dh, dw) = self.image, self.kernel, self.dilation
        return (
            (h + top + bottom - dh * (kh - 1) - 1) // self.stride[0] + 1,
            (w + left + right - dw * (kw - 1) - 1) // self.stride[1] + 1,
        )

    def images(self, channels: int, size: tuple[int, int]) -> tuple[int, ...]:
        if self.layout == "NHWC":
            return (self.n, *size, channels)
        return (self.n, channels, *size)

    @property
    def x(self) -> tuple[int, ...]:
        return self.images(self.groups * self.c, self.image)

    @property
    def y(self) -> tuple[int, ...]:
        return self.images(self.groups * self.o, self.out)

    @property
    def w(self) -> tuple[int, ...]:
        return (self.groups * self.o, self.c, *self.kernel)


def random_sizes(rng: np.random.Generator) -> Sizes:
    """Any convolution that is small enough for a software driver."""
    kernel = tuple(int(k) for k in rng.choice([1, 1, 2, 3, 3, 5, 7, 11], 2))
    stride = tuple(int(s) for s in rng.integers(1, 6, 2)) if rng.random() < 0.6 else (1, 1)
    dilation = tuple(int(d) for d in rng.integers(1, 5, 2)) if rng.random() < 0.4 else (1, 1)
    padding = [0, 0, 0, 0]
    if rng.random() < 0.8:
        padding = [
            int(p) for p in rng.choice([0, 1, 2, 3, 8, 13], 4, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])
        ]
    image = [int(s) for s in rng.choice([1, 2, 5, 7, 8, 13], 2)]
    for a in (0, 1):
        reach = dilation[a] * (kernel[a] - 1) + 1
        image[a] = max(image[a], reach - sum(padding[2 * a : 2 * a + 2]))
    groups = int(rng.choice([1, 1, 1, 2, 3, 5]))
    c, o = (int(v) for v in rng.choice([1, 2, 3, 4, 5, 8, 16, 17, 32, 33], 2))
    if c * o * math.prod(kernel) * groups > 20_000:
        c, o = min(c, 16), min(o, 5)
    return Sizes(
        (image[0], image[1]), (kernel[0], kernel[1]), int(rng.integers(1, 4)), c, o, groups,
        (stride[0], stride[1]), (padding[0], padding[1], padding[2], padding[3]),
        (dilation[0], dilation[1]), str(rng.choice(["NCHW", "NHWC"])),
    )  # fmt: skip


@dataclass
class Call:
    op: str
    ins: list[Operand | None]
    dst: Operand
    options: dict[str, Any]
    exact: bool
    depth: int
    shape: tuple[int, ...] = field(default=())


class ConvCalls:
    """Many convolutions in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.units = dev._context.caps.matrix is not None
        self.calls: list[Call] = []

    def values(self, shape: tuple[int, ...], dtype: str, exact: bool) -> Array:
        if exact:
            return self.rng.integers(-3, 4, shape).astype(dtype)
        return self.rng.normal(0, 1, shape).astype(dtype)

    def add(
        self, s: Sizes, op: str = "conv2d", kinds: tuple[str, str, str] = (F32, F32, F32), *,
        exact: bool = False, bias: str = "", residual: str = "",
        residual_shape: tuple[int, ...] | None = None, residual_form: Form | None = None,
        x_form: Form | None = None,
        w_form: Form | None = None, dst_form: Form | None = None, bias_form: Form | None = None,
        buffer: str = "", near: int = 8192, **more: Any,
    ) -> None:  # fmt: skip
        """One call: conv2d, conv2d_backward_input or conv_transpose2d. `bias` is its dtype, so is
        `residual`, of conv2d; None: it has the shape of dst."""
        back = op != "conv2d"
        source, target = (s.y, s.x) if back else (s.x, s.y)
        if op == "conv_transpose2d":
            target = self.transposed(s, more.get("output_padding", (0, 0)))
        names = ("x", "w", "bias", "dst", "residual")
        where = [{"buffer": buffer or name, "near": near} for name in names]
        ins: list[Operand | None] = [
            self.case.input(self.values(source, kinds[0], exact), x_form, **where[0]),
            self.case.input(self.values(s.w, kinds[1], exact), w_form, **where[1]),
        ]
        if op != "conv2d_backward_input":
            channels = target[1 if s.layout == "NCHW" else 3]
            ins.append(
                self.case.input(self.values((channels,), bias, exact), bias_form, **where[2])
                if bias
                else None
            )
        if residual:
            shape = target if residual_shape is None else residual_shape
            values = self.values(shape, residual, exact)
            ins.append(self.case.input(values, residual_form, **where[4]))
        dst = self.case.output(target, kinds[2], dst_form, **where[3])
        depth = (s.o if back else s.c) * math.prod(s.kernel)
        shape = target if op == "conv2d_backward_input" else ()
        self.calls.append(Call(op, ins, dst, {**s.options, **more}, exact, depth, shape))

    def transposed(self, s: Sizes, extra: tuple[int, int]) -> tuple[int, ...]:
        size = [
            (s.out[a] - 1) * s.stride[a] - sum(s.padding[2 * a : 2 * a + 2])
            + s.dilation[a] * (s.kernel[a] - 1) + 1 + extra[a]
            for a in (0, 1)
        ]  # fmt: skip
        return s.images(s.groups * s.c, (size[0], size[1]))

    def check(self, what: str = "") -> list[Array]:
        """Run all calls; the outputs, once they were found right."""
        self.case.build()
        arrays = [[o and o.array.copy() for o in c.ins] for c in self.calls]

        def run() -> None:
            for c in self.calls:
                tensors = [o and o.tensor for o in c.ins]
                added = dict(zip(("bias", "residual"), tensors[2:], strict=False))
                getattr(kernels, c.op)(*tensors[:2], c.dst.tensor, **added, **c.options)

        results = self.case.run(run)
        for got, ins, c in zip(results, arrays, self.calls, strict=True):
            self.compare(got, ins, c, what)
        return results

    def compare(self, got: Array, ins: list[Array | None], c: Call, what: str) -> None:
        options = dict(c.options)
        scale = options.pop("scale", 1.0)
        if c.shape:
            options["shape"] = c.shape
        x, w, *added = ins
        assert x is not None
        assert w is not None
        run = getattr(reference, c.op)
        want = run(x * np.float64(scale), w, *added, **options)
        names = [(o.dtype, o.shape, o.strides) for o in c.ins if o]
        text = f"{what} {c.op} {names} -> {c.dst.dtype} {c.dst.shape} {c.dst.strides} {options}"
        if c.exact:
            assert_same_bits(got, want.astype(got.dtype) + np.zeros((), got.dtype), text)
            return
        activation = options.pop("activation", None)
        size = self.size(c, x * np.float64(scale), w.astype(np.float64), options)
        one = c.op == "conv2d" and self.units and options.get("precision") is None
        one = one and x.dtype == w.dtype == got.dtype == np.float16
        bound = reference.window_budget(
            size, c.depth, *added, layout=options["layout"], activation=activation,
            in_one_piece=one,
        )  # fmt: skip
        assert_close(got, want, bound, text)

    def size(self, c: Call, x: Array, w: Array, options: dict[str, Any]) -> Array:
        """What the error of a call's sums is in proportion to."""
        found: Array = getattr(reference, c.op)(np.abs(x), np.abs(w), **options)
        return found
