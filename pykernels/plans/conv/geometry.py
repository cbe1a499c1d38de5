"""The checked arguments of convolutions, in one form for all plans."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pykernels._generated.ops import ACTIVATIONS
from pykernels.errors import ArgumentError, ShapeError
from pykernels.tensors.layout import Ints, View

__all__ = [
    "ORDERS",
    "Geometry",
    "LayoutName",
    "Padding",
    "Pair",
    "activation_number",
    "channels_first",
    "check_bias",
    "check_group",
    "check_shape",
    "geometry",
    "kernel_of",
    "pair",
    "reorder",
    "transposed_size",
]

Pair: TypeAlias = int | tuple[int, int]
Padding: TypeAlias = Pair | tuple[int, int, int, int] | Literal["same", "valid"]
LayoutName: TypeAlias = Literal["NCHW", "NHWC"]
LAYOUTS = ("NCHW", "NHWC")
ORDERS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1)}  # positions of N, C, H, W


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution's window: pairs are (rows, columns), padding is (top, bottom, left, right)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]

    def output(self, op: str, image: tuple[int, int]) -> tuple[int, int]:
        """The numbers of rows and columns of the output; ShapeError if one of them is 0."""
        top, bottom, left, right = self.padding
        out = []
        for n, padding, k, s, d in zip(
            image, (top + bottom, left + right), self.kernel, self.stride, self.dilation,
            strict=True,
        ):  # fmt: skip
            reach = d * (k - 1) + 1
            if n + padding < reach:
                padded = (image[0] + top + bottom, image[1] + left + right)
                raise ShapeError(
                    f"[{op}] the padded image must be as large as the kernel's reach, "
                    f"{self.reach}, but is {padded}: the output would be empty"
                )
            out.append((n + padding - reach) // s + 1)
        return out[0], out[1]

    @property
    def reach(self) -> tuple[int, int]:
        """The numbers of rows and columns from a window's first tap to its last tap, both
        included."""
        (kh, kw), (dh, dw) = self.kernel, self.dilation
        return dh * (kh - 1) + 1, dw * (kw - 1) + 1


def transposed_size(
    op: str, image: tuple[int, int], g: Geometry, more: tuple[int, int]
) -> tuple[int, int]:
    """The numbers of rows and columns of a transposed convolution's output; ShapeError if one of
    them is 0."""
    for extra, s, d in zip(more, g.stride, g.dilation, strict=True):
        if extra >= max(s, d):
            raise ArgumentError(
                f"[{op}] output_padding must be less than stride or dilation, {g.stride} and "
                f"{g.dilation}, but is {more}"
            )
    size = [
        (image[a] - 1) * g.stride[a] - sum(g.padding[2 * a : 2 * a + 2]) + g.reach[a] + more[a]
        for a in (0, 1)
    ]
    if min(size) < 1:
        raise ShapeError(
            f"[{op}] the output must have one row and column or more but would have {tuple(size)}"
        )
    return size[0], size[1]


def geometry(
    op: str, kernel: tuple[int, int], stride: Pair, padding: Padding, dilation: Pair
) -> Geometry:
    """The arguments of a call; ArgumentError if one is unusable."""
    steps = pair(op, "stride", stride, 1)
    apart = pair(op, "dilation", dilation, 1)
    if min(kernel) < 1:
        raise ShapeError(f"[{op}] w must have a kernel of one tap or more but has {kernel}")
    return Geometry(kernel, steps, _sides(op, padding, kernel, steps, apart), apart)


def pair(op: str, name: str, value: object, least: int) -> tuple[int, int]:
    """An argument that is one integer for both axes, or a pair of integers; each is at least
    `least`."""
    given = value if isinstance(value, tuple) else (value, value)
    found = _integers(given, least)
    if found is None or len(found) != 2:
        raise ArgumentError(
            f"[{op}] {name} must be an integer of at least {least} and below 2**31, or a pair of "
            f"them, but is {value!r}"
        )
    return found[0], found[1]


def _integers(values: tuple[object, ...], least: int) -> tuple[int, ...] | None:
    if any(isinstance(v, bool) for v in values):
        return None
    try:
        found = tuple(operator.index(v) for v in values)  # type: ignore[arg-type]
    except TypeError:
        return None
    return found if all(least <= v < 1 << 31 for v in found) else None


def _sides(
    op: str,
    padding: object,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
) -> tuple[int, int, int, int]:
    """Padding as (top, bottom, left, right)."""
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        if stride != (1, 1):
            raise ArgumentError(f"[{op}] padding 'same' needs stride 1 but stride is {stride}")
        rows, cols = (d * (k - 1) for d, k in zip(dilation, kernel, strict=True))
        return rows // 2, rows - rows // 2, cols // 2, cols - cols // 2
    given = padding if isinstance(padding, tuple) else (padding,)
    found = _integers(given, 0)
    if found is None or len(found) not in (1, 2, 4):
        raise ArgumentError(
            f"[{op}] padding must be an integer of at least 0 and below 2**31, a pair of them "
            "(rows, columns), four (top, bottom, left, right), 'same' or 'valid', but is "
            f"{padding!r}"
        )
    if len(found) == 4:
        return found[0], found[1], found[2], found[3]
    return found[0], found[0], found[-1], found[-1]


def channels_first(op: str, name: str, v: View, layout: str) -> View:
    """Images as (N, C, H, W); ShapeError if there are not four axes."""
    if layout not in LAYOUTS:
        raise ArgumentError(f"[{op}] layout must be 'NCHW' or 'NHWC' but is {layout!r}")
    if v.ndim != 4:
        axes = ", ".join(layout)
        raise ShapeError(f"[{op}] {name} must have four axes ({axes}) but has shape {v.shape}")
    return v if layout == "NCHW" else reorder(v, (0, 3, 1, 2))


def reorder(v: View, order: tuple[int, ...]) -> View:
    """The view with its axes in another order."""
    return v.with_layout([v.shape[a] for a in order], [v.strides[a] for a in order])


def check_shape(op: str, name: str, v: View, want: Ints, layout: str) -> None:
    """Raise if an image, as (N, C, H, W), does not have this shape."""
    if v.shape != want:
        shown, found = (tuple(s[a] for a in ORDERS[layout]) for s in (want, v.shape))
        raise ShapeError(f"[{op}] {name} must have shape {shown} but has shape {found}")


def kernel_of(op: str, w: View) -> tuple[int, int]:
    """Rows and columns of the weights' kernel; ShapeError if there are not four axes."""
    if w.ndim != 4:
        raise ShapeError(f"[{op}] w must have four axes but has shape {w.shape}")
    return w.shape[2], w.shape[3]


def check_bias(op: str, bias: View | None, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(f"[{op}] bias must have shape ({channels},) but has shape {bias.shape}")


def activation_number(op: str, name: str | None) -> int:
    """The number of an activation in the epilogue."""
    if name not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"[{op}] activation must be one of {names} but is {name!r}")
    return ACTIVATIONS[name]


def check_group(op: str, groups: object, channels: dict[str, int]) -> int:
    """The number of groups, which divides each of these numbers of channels."""
    found = _integers((groups,), 1)
    if found is None:
        raise ArgumentError(f"[{op}] groups must be a positive integer but is {groups!r}")
    for name, n in channels.items():
        if n % found[0]:
            raise ShapeError(f"[{op}] groups must divide {name}, {n}, but is {found[0]}")
    return found[0]
