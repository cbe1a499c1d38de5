"""conv2d_backward_weight against the float64 reference: exact on small integers, else by budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.kernels import conv2d_backward_weight
from pykernels.plans.conv.select_weight import DIRECT, WeightGradChoice
from pykernels.reference.conv import conv2d
from pykernels.reference.conv import conv2d_backward_weight as reference
from pykernels.reference.conv import window_budget as budget
from tests.harness import Array, Case, Form, Operand, assert_close, assert_same_bits

pytestmark = pytest.mark.gpu

LAST = (0, 2, 3, 1)


@dataclass(frozen=True)
class Call:
    """One gradient: sizes as in conv2d, options, dtypes of dy, x and dst, layouts in memory."""

    n: int = 2
    c: int = 3  # channels of a group
    o: int = 5
    image: tuple[int, int] = (9, 11)
    kernel: tuple[int, int] = (3, 3)
    stride: Any = 1
    padding: Any = 1
    dilation: Any = 1
    groups: int = 1
    layout: str = "NCHW"
    dtypes: tuple[str, str, str] = ("float32", "float32", "float32")
    forms: tuple[Form, Form, Form] = (Form(), Form(), Form())

    @property
    def options(self) -> dict[str, Any]:
        return {
            "stride": self.stride, "padding": self.padding, "dilation": self.dilation,
            "groups": self.groups, "layout": self.layout,
        }  # fmt: skip

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of dy, x and dst."""
        c, o = self.c * self.groups, self.o * self.groups
        w = (o, self.c, *self.kernel)
        one = conv2d(
            np.zeros((1, 1, *self.image)), np.zeros((1, 1, *self.kernel)), stride=self.stride,
            padding=self.padding, dilation=self.dilation,
        )  # fmt: skip
        dy, x = (self.n, o, *one.shape[2:]), (self.n, c, *self.image)
        if self.layout == "NHWC":
            dy, x = (tuple(s[a] for a in LAST) for s in (dy, x))
        return dy, x, w


def add(case: Case, call: Call, real: bool) -> tuple[Operand, Operand, Operand]:
    """The tensors of a call: small integers, or normal numbers where sums are to be rounded."""
    dy, x, w = call.shapes

    def values(shape: tuple[int, ...], dtype: str) -> Array:
        if real:
            return case.rng.standard_normal(shape).astype(dtype)
        return case.rng.integers(-4, 5, shape).astype(dtype)

    return (
        case.input(values(dy, call.dtypes[0]), call.forms[0], buffer="dy"),
        case.input(values(x, call.dtypes[1]), call.forms[1], buffer="x"),
        case.output(w, call.dtypes[2], call.forms[2], buffer="dst"),
    )


def check(dev: pk.Device, calls: list[Call], *, real: bool = False, seed: int = 0) -> None:
    """Run all calls at once; compare each with the reference, and by the adjoint identity."""
    case = Case(dev, seed)
    operands = [add(case, call, real) for call in calls]
    case.build()
    given = [(dy.array.copy(), x.array.copy()) for dy, x, _ in operands]

    def run() -> None:
        for call, (dy, x, dst) in zip(calls, operands, strict=True):
            conv2d_backward_weight(dy.tensor, x.tensor, dst.tensor, **call.options)

    outputs = [o for o in case.operands if o.output]
    results = case.run(run)
    for call, (dy, x), (_, _, dst) in zip(calls, given, operands, strict=True):
        got = results[outputs.index(dst)]
        want = reference(dy, x, dst.shape, **call.options)
        if real:
            size = reference(np.abs(dy), np.abs(x), dst.shape, **call.options)
            depth = dy.size // max(dst.shape[0], 1)
            assert_close(got, want, budget(size, depth), str(call))
            continue
        with np.errstate(over="ignore"):
            assert_same_bits(got + 0, want.astype(got.dtype) + 0, str(call))
        if got.dtype == np.float32:
            w = case.rng.integers(-3, 4, dst.shape)
            y = conv2d(x, w, **call.options)
            assert (y * dy).sum() == (w * got.astype("f8")).sum(), f"adjoint: {call}"


# -- kernels, strides, padding, dilation, groups --------------------------------------------------


@pytest.mark.parametrize(
    "kernel", ((1, 1), (2, 2), (3, 3), (5, 5), (7, 7), (11, 11), (1, 4), (3, 2))
)
def test_weight_of_every_kernel(dev: pk.Device, kernel: tuple[int, int]) -> None:
    check(dev, [
        Call(kernel=kernel, c=c, o=o, image=(13, 12), padding=(kernel[0] // 2, kernel[1] // 2),
             groups=groups)
        for c, o, groups in ((3, 5, 1), (4, 8, 1), (1, 1, 5), (8, 33, 1))
    ])  # fmt: skip


@pytest.mark.parametrize("stride", (1, 2, 3, 4, 5, (1, 3), (4, 1)))
def test_weight_of_every_stride(dev: pk.Device, stride: Any) -> None:
    check(dev, [
        Call(stride=stride, kernel=k, c=c, o=o, groups=groups, padding=padding, dilation=dilation,
             image=(14, 17))
        for k, dilation in (((3, 3), 1), ((2, 3), (1, 4)), ((3, 1), (4, 2)))
        for padding in (0, (1, 2), (0, 5, 7, 1))
        for c, o, groups in ((3, 5, 1), (4, 9, 1), (1, 2, 3))
    ])  # fmt: skip


def test_weight_of_padding_wider_than_the_kernel(dev: pk.Device) -> None:
    check(dev, [
        Call(padding=padding, kernel=(3, 3), image=image, c=c, groups=groups, o=2)
        for padding in (6, (9, 0), (0, 11, 12, 3), "same", "valid")
        for image in ((3, 4), (7, 5))
        for c, groups in ((4, 1), (1, 4))
    ])  # fmt: skip


def test_weight_of_tiny_images(dev: pk.Device) -> None:
    check(dev, [
        Call(n=n, image=image, kernel=kernel, padding=padding, c=c, o=6)
        for n in (1, 5, 40)
        for image, kernel, padding in (
            ((1, 1), (1, 1), 0), ((1, 1), (3, 3), 1), ((1, 9), (1, 2), 0), ((2, 3), (2, 2), 1),
            ((40, 1), (5, 1), 2),
        )
        for c in (3, 4)
    ])  # fmt: skip


@pytest.mark.parametrize("groups", (2, 3, 8))
def test_weight_of_groups(dev: pk.Device, groups: int) -> None:
    check(dev, [
        Call(groups=groups, c=c, o=o, layout=layout, kernel=kernel)
        for c, o in ((1, 1), (1, 3), (2, 4), (8, 8), (5, 36))
        for layout in ("NCHW", "NHWC") for kernel in ((3, 3), (5, 4))
    ])  # fmt: skip


@pytest.mark.parametrize("rows", (31, 32, 33, 65))
@pytest.mark.sample
def test_weight_around_the_tiles(dev: pk.Device, rows: int) -> None:
    check(dev, [
        Call(o=rows, c=c, kernel=kernel, n=1, image=image, padding=0)
        for c, kernel in ((32, (1, 1)), (33, (1, 1)), (8, (2, 2)), (7, (3, 3)), (4, (3, 3)))
        for image in ((6, 7), (4, 17))
    ])  # fmt: skip


# -- layouts, dtypes, splits ----------------------------------------------------------------------


def test_weight_of_any_layout(dev: pk.Device) -> None:
    forms = (
        Form(), Form(phase=1), Form(gap=4, phase=4), Form(order=LAST), Form(order=LAST, phase=3),
        Form(steps=(1, 1, -1, -1)), Form(steps=(1, 2, 1, 1), phase=1), Form(order=(3, 1, 0, 2)),
        Form(steps=(1, 1, 1, 2)), Form(steps=(-1, -1, 1, 1)),
    )  # fmt: skip
    repeats = (Form(steps=(0, 1, 1, 1)), Form(steps=(1, 0, 1, 1)), Form(steps=(1, 1, 0, 0)))
    calls = [
        Call(c=c, o=8, groups=groups, layout=layout,
             forms=(f, (*forms, *repeats)[(i * 3 + 1) % 13], forms[(i * 7 + 2) % 10]))
        for i, f in enumerate((*forms, *repeats))
        for c, groups in ((4, 2), (3, 1)) for layout in ("NCHW", "NHWC")
    ]  # fmt: skip
    check(dev, calls)


@pytest.mark.parametrize("dtypes", (
    ("float16", "float16", "float32"), ("float16", "float16", "float16"),
    ("float32", "float16", "float32"), ("float16", "float32", "float16"),
))  # fmt: skip
@pytest.mark.sample
def test_weight_of_halves(dev: pk.Device, dtypes: tuple[str, str, str]) -> None:
    calls = [
        Call(dtypes=dtypes, c=c, o=o, groups=groups, layout=layout)
        for c, o, groups in ((4, 8, 1), (3, 5, 1), (1, 1, 6))
        for layout in ("NCHW", "NHWC")
    ]
    check(dev, calls)
    check(dev, calls, real=True)


def test_weight_within_the_budget(dev: pk.Device) -> None:
    check(dev, [
        Call(n=3, c=4, o=33, image=(40, 41)), Call(n=3, c=3, o=12, image=(40, 41), stride=2),
        Call(n=3, c=1, o=1, groups=5, image=(40, 41)), Call(n=2, c=8, o=8, layout="NHWC"),
    ], real=True)  # fmt: skip


@pytest.mark.parametrize(("body", "splits"), (
    ("32x32", 1), ("32x32", 7), ("64x64", 1), ("64x64", 5), ("64x128", 3), (DIRECT, 4),
))  # fmt: skip
@pytest.mark.sample
def test_weight_by_every_body(dev: pk.Device, body: str, splits: int) -> None:
    with force(dev, WeightGradChoice(body, splits)):
        check(dev, [
            Call(c=c, o=o, n=2, image=(12, 15), kernel=kernel, stride=stride, layout=layout)
            for layout in ("NCHW", "NHWC")
            for c, o, kernel, stride in (
                (4, 70, (3, 3), 1), (16, 8, (3, 3), 2),
                (132 if body != DIRECT else 5, 66, (1, 1), 1),
            )
        ])  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sample
def test_weight_random(dev: pk.Device, seed: int) -> None:
    """Twenty-five parameter sets each."""
    rng = np.random.default_rng(seed)

    def two(low: int, high: int) -> tuple[int, int]:
        return int(rng.integers(low, high)), int(rng.integers(low, high))

    calls: list[Call] = []
    while len(calls) < 25:
        kernel, dilation = two(1, 5), two(1, 4)
        padding = tuple(int(v) for v in rng.integers(0, 5, 4))
        image = two(1, 16)
        if any(
            size + sum(padding[2 * a : 2 * a + 2]) < dilation[a] * (kernel[a] - 1) + 1
            for a, size in enumerate(image)
        ):
            continue
        calls.append(Call(
            n=int(rng.integers(1, 4)), c=int(rng.choice([1, 2, 3, 4, 8])),
            o=int(rng.choice([1, 2, 4, 7, 16, 35])), image=image, kernel=kernel,
            stride=two(1, 4), padding=padding, dilation=dilation,
            groups=int(rng.choice([1, 1, 2, 3])), layout=str(rng.choice(["NCHW", "NHWC"])),
            forms=(
                Form(phase=int(rng.integers(9))), Form(gap=int(rng.choice([0, 0, 4, 1]))), Form(),
            ),
        ))  # fmt: skip
    check(dev, calls, seed=seed)


def test_weight_in_one_buffer(dev: pk.Device) -> None:
    """dy, x and dst are slices of one buffer."""
    for near in (8192, 0):
        case = Case(dev)
        call = Call(c=4, o=8)
        dy, x, w = call.shapes
        a = case.input(case.rng.integers(-4, 5, dy).astype("f4"), buffer="one", near=near)
        b = case.input(case.rng.integers(-4, 5, x).astype("f4"), buffer="one", near=near)
        dst = case.output(w, "float32", buffer="one", near=near)
        case.build()
        want = reference(a.array, b.array, w, **call.options)
        (got,) = case.run(
            lambda a=a, b=b, d=dst: conv2d_backward_weight(a.tensor, b.tensor, d.tensor, padding=1)  # type: ignore[misc]
        )
        assert_same_bits(got + 0, want.astype("f4") + 0)


def test_weight_is_the_same_each_time(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x, dy = (dev.tensor(rng.standard_normal((3, 8, 30, 30)).astype("f4")) for _ in range(2))
    first, again = dev.empty((8, 8, 3, 3)), dev.empty((8, 8, 3, 3))
    for dst in (first, again):
        conv2d_backward_weight(dy, x, dst, padding=1)
    assert_same_bits(first.numpy(), again.numpy())


def test_weight_keeps_infinities(dev: pk.Device) -> None:
    """Of the last pixel of a tile that is not full: nothing else is multiplied with it."""
    x, dy = np.ones((1, 32, 3, 3), "f4"), np.ones((1, 32, 3, 3), "f4")
    dst = dev.empty((32, 32, 1, 1))
    for layout in ("NCHW", "NHWC"):
        for which in (0, 1):
            given = [dy.copy(), x.copy()]
            given[which][0, 2, 2, 2] = np.inf
            want = np.full(dst.shape, 9.0)
            want[(slice(None), 2) if which else 2] = np.inf
            if layout == "NHWC":
                given = [np.ascontiguousarray(a.transpose(LAST)) for a in given]
            conv2d_backward_weight(*map(dev.tensor, given), dst, layout=layout)  # type: ignore[arg-type]
            np.testing.assert_array_equal(dst.numpy(), want)


def test_weight_scales(dev: pk.Device) -> None:
    call = Call(c=4, o=8)
    dy, x, w = (np.random.default_rng(1).integers(-4, 5, s).astype("f4") for s in call.shapes)
    dst = dev.empty(w.shape)
    for c in (slice(None), slice(0, 1)):
        conv2d_backward_weight(dev.tensor(dy), dev.tensor(x), dst, padding=1, scale=0.5)
        assert_same_bits(
            dst.numpy()[:, c], (reference(dy, x, w.shape, padding=1) / 2).astype("f4")[:, c]
        )


def test_weight_of_nothing(dev: pk.Device) -> None:
    for n, c, o in ((0, 3, 5), (2, 3, 0), (2, 0, 5), (0, 4, 8)):
        dst = dev.full((o, c, 3, 3), 7)
        conv2d_backward_weight(dev.zeros((n, o, 4, 4)), dev.zeros((n, c, 4, 4)), dst, padding=1)
        assert (dst.numpy() == 0).all()


def test_weight_rejects(dev: pk.Device) -> None:
    dy, x, dst = dev.zeros((2, 6, 5, 5)), dev.zeros((2, 4, 5, 5)), dev.zeros((6, 4, 3, 3))
    ints = dev.zeros((2, 4, 5, 5), "int32")
    wrong: list[tuple[type[Exception], str, tuple[pk.Tensor, ...], dict[str, Any]]] = [
        (pk.ShapeError, r"dy must have shape \(2, 6, 3, 3\) but has shape \(2, 6, 5, 5\)",
         (dy, x, dst), {}),
        (pk.ShapeError, r"dst must have four axes", (dy, x, dst[0]), {"padding": 1}),
        (pk.ShapeError, r"x must have four axes", (dy, x[0], dst), {"padding": 1}),
        (pk.ShapeError, r"dst must have 4 / 1 channels of x", (dy, x, dst[:, :3]), {"padding": 1}),
        (pk.ShapeError, r"groups must divide the channels of dy, 6, but is 4",
         (dy, x, dst), {"groups": 4}),
        (pk.ShapeError, r"the output would be empty", (dy, x, dst), {"dilation": 3}),
        (pk.ArgumentError, r"groups must be a positive integer", (dy, x, dst), {"groups": 0}),
        (pk.ArgumentError, r"stride must be an integer of at least 1", (dy, x, dst), {"stride": 0}),
        (pk.ArgumentError, r"padding must be", (dy, x, dst), {"padding": -1}),
        (pk.ArgumentError, r"layout must be 'NCHW' or 'NHWC'", (dy, x, dst), {"layout": "CHWN"}),
        (pk.DTypeError, r"x must be float32, float16 or bfloat16", (dy, ints, dst), {}),
        (pk.AliasError, r"dst is broadcast", (dy, x, dst[:1].broadcast_to((6, 4, 3, 3))), {}),
    ]  # fmt: skip
    for error, match, args, options in wrong:
        with pytest.raises(error, match=rf"\[conv2d_backward_weight\] .*{match}"):
            conv2d_backward_weight(*args, **options)
