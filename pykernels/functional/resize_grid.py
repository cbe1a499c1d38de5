"""Images read at the places that a grid gives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pykernels._generated.kernels.maximum import KERNEL
from pykernels._generated.operations.matmul import matmul
from pykernels._generated.operations.move import gather
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import choice, flag, integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.runtime.whole import whole

from .elementwise import elementwise
from .fill_sequences import arange

__all__ = ["deform_conv2d", "grid_sample"]

_ARGS = tuple(
    replace(KERNEL.args[0], name=name, dtypes=("float32", "float16")) for name in ("input", "grid")
)
_GRID = replace(KERNEL, name="grid_sample", args=_ARGS)
_DEFORM = replace(
    KERNEL,
    name="deform_conv2d",
    args=tuple([
        replace(_ARGS[0], name=name, optional=name in ("bias", "mask"))
        for name in ("x", "offset", "weight", "bias", "mask")
    ]),
)  # fmt: skip
Pair = int | Sequence[int]
Mode = Literal["bilinear", "nearest", "bicubic"]
Padding = Literal["zeros", "border", "reflection"]
# Places far outside of the image, infinities and NaN are moved to places just outside.
_FAR = "where(abs(x) < 16777216, x, -100)"
# The weights of the neighbours at -1, 0, 1 and 2 for a place between 0 and 1 (Keys 1981, a =
# -0.75).
_NEAR, _AWAY = (
    "((1.25 * {0} - 2.25) * {0} * {0} + 1)",
    "(((-0.75 * {0} + 3.75) * {0} - 6) * {0} + 3)",
)
_SHARES = (_AWAY.format("(t + 1)"), _NEAR.format("t"), _NEAR.format("(1 - t)"),
           _AWAY.format("(2 - t)"))  # fmt: skip


@again
@whole
def grid_sample(
    input: Array, grid: Array, mode: Mode = "bilinear", padding_mode: Padding = "zeros",
    align_corners: bool = False,
) -> Array:  # fmt: skip
    """Images at the places of a grid, as in torch: result[n, :, i, j] is input[n] at
    (x, y) = grid[n, i, j]. Volumes are read at (x, y, z).

    The coordinates -1 and 1 are the outer edges of the first and last pixels, or, with
    `align_corners`, the centres of these pixels. All is computed in f32, by calls that have
    gradients. The gradient of input is computed by `scatter_add`. The gradient of the grid comes
    from the weights of the neighbours, and is 0 for 'nearest'.

    Args:
        input: Tensor or numpy array, float32, float16 or bfloat16, (N, C, H, W) or
            (N, C, D, H, W), sizes above 0.
        grid: Tensor or numpy array, float32, float16 or bfloat16, (N, OH, OW, 2), or
            (N, OD, OH, OW, 3) for volumes. NaN is outside.
        mode: 'bilinear' mixes four neighbouring pixels (eight in a volume). 'nearest' takes one
            pixel; half-way between two, it takes the pixel with the even number. 'bicubic' mixes
            sixteen pixels, and is for images only.
        padding_mode: The pixels outside: 'zeros'; 'border', the nearest pixel; 'reflection', the
            image mirrored at its edges (with `align_corners` at the centres of its outer pixels).
        align_corners: see above.

    Returns:
        (N, C, OH, OW) or (N, C, OD, OH, OW), of input's dtype: a numpy array if input and grid are
        numpy arrays, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError and the errors of `pykernels.kernels`.

    Source: Jaderberg et al. 2015.
    """
    op = "grid_sample"
    choice(op, "mode", mode, ("bilinear", "nearest", "bicubic"))
    choice(op, "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    corners = flag(op, "align_corners", align_corners)
    call = Call(_GRID, input, grid)
    x, places = call.tensor("input", input), call.tensor("grid", grid)
    sizes = x.shape[2:]
    if x.ndim not in (4, 5) or not math.prod(sizes):
        raise ShapeError(
            f"[{op}] input must be (N, C, H, W) or (N, C, D, H, W) with pixels but has shape "
            f"{x.shape}"
        )
    axes = len(sizes)
    if places.ndim != axes + 2 or places.shape[0] != x.shape[0] or places.shape[-1] != axes:
        want = ", ".join(("OD", "OH", "OW")[3 - axes :])
        raise ShapeError(
            f"[{op}] grid must have shape ({x.shape[0]}, {want}, {axes}) but has {places.shape}"
        )
    if mode == "bicubic" and axes == 3:
        raise ArgumentError(f"[{op}] mode must be 'bilinear' or 'nearest' for volumes")
    at = [_place(places[..., axes - 1 - a], n, corners) for a, n in enumerate(sizes)]
    flat = x.astype("float32").reshape((*x.shape[:2], -1))
    if mode == "bicubic":
        found = _smooth(flat, sizes, [_there(p) for p in at], padding_mode, corners)
    else:
        at = [_there(_folded(p, n, padding_mode, corners)) for p, n in zip(at, sizes, strict=True)]
        if mode == "nearest":
            found = _picked(flat, sizes, [elementwise("round(x)", x=p) for p in at])
        else:
            found = _mixed(flat, sizes, at)
    return call.leave(found.reshape((*x.shape[:2], *places.shape[1:-1])).astype(x.dtype))


@whole
def deform_conv2d(
    x: Array, offset: Array, weight: Array, bias: Array | None = None, stride: Pair = 1,
    padding: Pair = 0, dilation: Pair = 1, mask: Array | None = None,
) -> Array:  # fmt: skip
    """Deformable convolution: each tap is read at a place that an offset moves (torchvision.ops,
    ONNX DeformConv).

    Tap k of result pixel (i, j) reads x at its usual place plus its own offset. A place between
    pixels is a mix of four pixels; pixels outside of the image count as 0. All is computed in f32,
    by calls that have gradients: the taps are gathered as columns, and one product follows.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, H, W).
        offset: float32 or float16, (N, 2 G KH KW, OH, OW): for each of G groups of channels and
            each tap, the offset in rows and the offset in columns.
        weight: float32 or float16, (O, C / groups, KH, KW); its shape gives the number of groups.
        bias: float32 or float16, (O,).
        stride: Distance between windows, an integer or (rows, columns).
        padding: Zeros around x, an integer or (rows, columns).
        dilation: Distance between taps, an integer or (rows, columns).
        mask: Factors of the taps, float32 or float16, (N, G KH KW, OH, OW).

    Returns:
        (N, O, OH, OW), of x's dtype: a numpy array if all arguments are, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError and the errors of `pykernels.kernels`.

    Source: Dai and others 2017; Zhu and others 2019 (mask).
    """
    op = "deform_conv2d"
    steps, around, gaps = (
        _pair(op, name, v)
        for name, v in (("stride", stride), ("padding", padding), ("dilation", dilation))
    )
    call = Call(_DEFORM, x, offset, weight, bias, mask)
    image, moved, w = (
        call.tensor("x", x),
        call.tensor("offset", offset),
        call.tensor("weight", weight),
    )
    more, factors = call.tensor("bias", bias), call.tensor("mask", mask)
    if image.ndim != 4 or w.ndim != 4 or not math.prod(image.shape[1:]):
        raise ShapeError(
            f"[{op}] x must be (N, C, H, W) with pixels and weight (O, C / groups, KH, KW) but "
            f"they have shapes {image.shape} and {w.shape}"
        )
    n, channels, *sizes = image.shape
    outs, inner, *kernel = w.shape
    groups, taps = channels // max(inner, 1), math.prod(kernel)
    if not inner or channels % inner or outs % groups or not taps:
        raise ShapeError(
            f"[{op}] weight must divide {channels} channels into groups but has shape {w.shape}"
        )
    large = [
        (sizes[a] + 2 * around[a] - gaps[a] * (kernel[a] - 1) - 1) // steps[a] + 1 for a in range(2)
    ]
    parts = moved.shape[1] // (2 * taps) if moved.ndim == 4 else 0
    if moved.shape != (n, 2 * parts * taps, *large) or not parts or channels % parts:
        raise ShapeError(
            f"[{op}] offset must be ({n}, {2 * taps} G, {large[0]}, {large[1]}) with G a divisor "
            f"of {channels} but has shape {moved.shape}"
        )
    for name, t, shape in (("mask", factors, (n, parts * taps, *large)), ("bias", more, (outs,))):
        if t is not None and t.shape != shape:
            raise ShapeError(f"[{op}] {name} must have shape {shape} but has {t.shape}")
    places = moved.reshape(n * parts, *kernel, 2, *large)
    at = []
    for axis in range(2):
        # tap and pixel get the shapes (KH, 1, 1, 1) and (OH, 1), or (KW, 1, 1) and (OW,), to repeat
        # to (N G, KH, KW, OH, OW)
        more_axes = (None,) * (1 - axis)
        tap, pixel = (
            arange(0.0, float(k), device=image.device) for k in (kernel[axis], large[axis])
        )
        place = elementwise(
            "float32(p) + t * gap + i * step - pad", p=places[:, :, :, axis],
            t=tap[(slice(None), None, None, *more_axes)], i=pixel[(slice(None), *more_axes)],
            gap=float(gaps[axis]), step=float(steps[axis]), pad=float(around[axis]),
        )  # fmt: skip
        at.append(_there(place))
    flat = image.astype("float32").reshape(n * parts, channels // parts, -1)
    columns: Any = _mixed(flat, sizes, at)
    if factors is not None:
        columns = elementwise("c * m", c=columns, m=factors.reshape(n * parts, 1, -1))
    columns = columns.reshape(n, groups, inner * taps, -1)
    y: Any = matmul(w.astype("float32").reshape(groups, outs // groups, inner * taps), columns)
    y = y.reshape(n, outs, *large)
    if more is not None:
        y = elementwise("y + b", y=y, b=more.reshape(-1, 1, 1))
    return call.leave(y.astype(image.dtype))


def _pair(op: str, name: str, value: Pair) -> tuple[int, int]:
    """An argument as two integers; one integer counts for both."""
    both = value if isinstance(value, Sequence) else (value, value)
    if isinstance(both, str) or len(both) != 2:
        raise ArgumentError(f"[{op}] {name} must be an integer or two but is {value!r:.60}")
    found = [integer(op, name, v) for v in both]
    least = 0 if name == "padding" else 1
    if min(found) < least:
        raise ArgumentError(f"[{op}] {name} must be from {least} up but is {value!r:.60}")
    return found[0], found[1]


def _place(at: Tensor, size: int, corners: bool) -> Tensor:
    """The place along an axis of `size` pixels as float32; the centres of pixels are 0, 1, 2,
    ..."""
    n = float(size)
    text = "(float32(g) + 1) / 2 * (n - 1)" if corners else "((float32(g) + 1) * n - 1) / 2"
    return elementwise(text, g=at, n=n)  # type: ignore[return-value]


def _folded(x: Any, size: int, padding: str, corners: bool) -> Any:
    """The places; a place outside of the axis is moved to the place that the padding mode reads."""
    n = float(size)
    if padding == "reflection":
        low, period = (0.0, n - 1) if corners else (-0.5, n)
        if period:  # the mirrored image repeats after twice the size
            turn = elementwise("abs(x - low)", x=x, low=low)
            turn = elementwise("t - two * floor(t / two)", t=turn, two=2 * period)
            text = "where(t <= p, t, 2 * p - t) + low"
            x = elementwise(text, t=turn, p=period, low=low)
        else:
            x = elementwise("0 * x", x=x)
    if padding != "zeros":
        x = elementwise("where(x > 0, where(x < last, x, last), 0)", x=x, last=n - 1)
    return x


def _there(x: Any) -> Any:
    return elementwise(_FAR, x=x)


def _mixed(flat: Tensor, sizes: Sequence[int], at: Sequence[Any]) -> Tensor:
    """The sum of the neighbours of each place, with linear weights."""
    first = [elementwise("floor(x)", x=p) for p in at]
    near: Any = {}
    for a, (place, low) in enumerate(zip(at, first, strict=True)):
        near |= {f"x{a}": place, f"l{a}": low}
    total: Any = None
    for sides in itertools.product((0, 1), repeat=len(at)):
        text = " * ".join(
            f"(x{a} - l{a})" if side else f"(l{a} + 1 - x{a})" for a, side in enumerate(sides)
        )
        share = elementwise(text, **near).reshape((flat.shape[0], 1, -1))
        corner = [low + side if side else low for low, side in zip(first, sides, strict=True)]
        part = _picked(flat, sizes, corner) * share
        total = part if total is None else total + part
    return total  # type: ignore[no-any-return]


def _smooth(
    flat: Tensor, sizes: Sequence[int], at: Sequence[Any], padding: str, corners: bool
) -> Tensor:
    """The sum of the sixteen neighbours of each place, with cubic weights."""
    first = [elementwise("floor(x)", x=p) for p in at]
    rest = [elementwise("x - l", x=p, l=low) for p, low in zip(at, first, strict=True)]
    rows, columns = (
        [_there(_folded(low + (k - 1), n, padding, corners)) for k in range(4)]
        for low, n in zip(first, sizes, strict=True)
    )
    down, across = ([elementwise(text, t=t) for text in _SHARES] for t in rest)
    total: Any = None
    for i, j in itertools.product(range(4), repeat=2):
        share = elementwise("a * b", a=down[i], b=across[j]).reshape((flat.shape[0], 1, -1))
        part = _picked(flat, sizes, [rows[i], columns[j]]) * share
        total = part if total is None else total + part
    return total  # type: ignore[no-any-return]


def _picked(flat: Tensor, sizes: Sequence[int], at: Sequence[Any]) -> Tensor:
    """The pixels with these numbers along each axis, (N, C, places); 0 outside of the image."""
    given: dict[str, Any] = {}
    for a, (place, n) in enumerate(zip(at, sizes, strict=True)):
        given |= {f"x{a}": place, f"n{a}": float(n)}
    inside = " and ".join(f"x{a} >= 0 and x{a} < n{a}" for a in range(len(at)))
    index = "int32(x0)"
    for a in range(1, len(at)):
        index = f"({index} * int32(n{a}) + int32(x{a}))"
    count = flat.shape[0]
    places: Any = elementwise(f"where({inside}, {index}, 0)", **given)
    seen = elementwise(f"where({inside}, 1.0, 0.0)", **given).reshape((count, 1, -1))
    places = places.reshape((count, 1, -1))
    places = places.broadcast_to((*flat.shape[:2], places.shape[-1]))
    found: Any = gather(flat, 2, places, check=False)
    # A place outside gives 0, even if the pixel that was read in its place is NaN.
    return elementwise("where(s > 0, v, 0)", s=seen, v=found)  # type: ignore[return-value]
