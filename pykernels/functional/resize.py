"""Images of another size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from pykernels import kernels
from pykernels._generated.kernels.resize import KERNEL
from pykernels._generated.operations.resize import _sampled as floats
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import choice, flag, real
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, ShapeError, either
from pykernels.rules.resize import LAYOUTS, images, sides
from pykernels.rules.resize import result as result_of
from pykernels.runtime.whole import whole
from pykernels.tensors.host import shape_of

from .elementwise import elementwise

__all__ = ["interpolate", "resize"]

Mode: TypeAlias = Literal["nearest", "linear", "cubic", "area"]
Coordinates: TypeAlias = Literal["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
Nearest: TypeAlias = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
Order: TypeAlias = Literal["chw", "hwc"]
Pair: TypeAlias = int | Sequence[int]
_FILTERS = ("nearest", "linear", "cubic")
_X = replace(KERNEL.args[0], dtypes=("float32", "float16", "uint8"))
_RESIZE = replace(KERNEL, args=(_X, *KERNEL.args[1:]))
_INTERPOLATE = replace(KERNEL, name="interpolate")
_OWN_MODES = ("nearest", "linear", "cubic", "area")
# For each mode of torch: our mode, the number of resized axes, and True if corners may be aligned.
_MODES: dict[str, tuple[Mode, tuple[int, ...], bool]] = {
    "nearest": ("nearest", (1, 2, 3), False), "nearest-exact": ("nearest", (1, 2, 3), False),
    "linear": ("linear", (1,), True), "bilinear": ("linear", (2,), True),
    "trilinear": ("linear", (3,), True), "bicubic": ("cubic", (2,), True),
    "area": ("area", (1, 2, 3), False),
}  # fmt: skip


@whole
def resize(
    x: Array,
    size: Pair,
    mode: Mode = "linear",
    *,
    coordinates: Coordinates = "half_pixel",
    nearest: Nearest = "round_prefer_floor",
    antialias: bool = False,
    layout: Order | None = None,
    out: Tensor | None = None,
) -> Array:
    """Images resized along the last two axes by the rules of ONNX's Resize. If `size` has three
    numbers, x holds volumes, which are resized along the last three axes.

    All is computed in f32; a uint8 result is rounded to nearest even and clamped to [0, 255].
    Beyond the edge, the edge pixel repeats. The place of row i of the result in x is an exact
    fraction (columns follow the same rule): (i + 1/2) H / OH - 1/2 for half_pixel; the same for
    pytorch_half_pixel, but 0 if OH is 1; i H / OH for asymmetric; i (H - 1) / (OH - 1) for
    align_corners.

    With `antialias` the rules are those of PIL and torch: where an axis shrinks, the filter is
    H / OH times as wide, pixels beyond the edge do not count, and 'cubic' has a = -0.5 (also where
    an axis grows). The rows are resized first, then the columns, and the numbers in between are
    f32. PIL rounds them to bytes, so some of its bytes differ by one.

    Args:
        x: Tensor or numpy array, float32, float16 or uint8, (..., H, W).
        size: (OH, OW), or one integer for both; (OD, OH, OW) for volumes (..., D, H, W), float32
            or float16, with layout 'chw'. The planes are resized first, then the axis D; the
            numbers in between are f32.
        mode: In each direction, 'nearest' takes one pixel, 'linear' two, and 'cubic' four (a =
            -0.75). 'area' takes the mean of the pixels from i H / OH, rounded down, to (i + 1) H /
            OH, rounded up.
        coordinates: the rule for the positions of the result's pixels; 'area' has half_pixel only.
        nearest: how 'nearest' rounds a position.
        antialias: widen the filter where an axis shrinks; for 'linear' and 'cubic' only.
        layout: 'hwc' for images (..., H, W, C), as files and cameras have them: the result has its
            channels last, too. 'chw' for (..., H, W). None is 'chw', but uint8 images are refused
            if the last axis has size 3 or 4 and 'chw' would mean more than 4 channels.
        out: The Tensor (..., OH, OW) to write to; None makes one of x's dtype.

    Returns:
        A Tensor for a Tensor, a numpy array for a numpy array.

    Raises:
        ShapeError, DTypeError, ArgumentError, LimitError: as `pykernels.kernels.resize`, or in mode
            'area' as `pykernels.kernels.adaptive_avg_pool2d`.
    """
    if isinstance(size, Sequence) and not isinstance(size, str) and len(size) == 3:
        return _resized_volumes(x, size, mode, coordinates, nearest, antialias, layout, out)
    known = layout is None or (isinstance(layout, str) and layout in LAYOUTS)
    known = known and isinstance(mode, str)
    floating = isinstance(x, Tensor) and x._layout.dtype.name in FLOATS
    if known and floating and mode != "area" and mode in _FILTERS:
        return floats(
            x, size, mode, coordinates=coordinates, nearest=nearest, antialias=antialias,
            layout=layout or "chw", out=out,
        )  # fmt: skip
    call = Call(_RESIZE, x, out=out)
    t = call.tensor("x", x)
    if layout is None:
        layout = "chw"
        if t.dtype == "uint8" and t.ndim > 2 and t.shape[-1] in (3, 4) and t.shape[-3] > 4:
            raise ArgumentError(
                f"[resize] x of shape {t.shape} looks like an image with its channels last: say "
                "layout='hwc', or 'chw' if its last two axes are rows and columns"
            )
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ArgumentError(f"[resize] layout must be {either(LAYOUTS)} but is {layout!r}")
    places, both = images("resize", t, layout), sides("resize", "size", size)
    result = result_of(call, places, both, layout)
    target = result.moveaxis(-1, -3) if layout == "hwc" else result
    smooth = flag("resize", "antialias", antialias)
    if not isinstance(mode, str) or mode not in _OWN_MODES:
        raise ArgumentError(f"[resize] mode must be one of {', '.join(_OWN_MODES)} but is {mode!r}")
    plain = isinstance(coordinates, str) and coordinates == "half_pixel" and not smooth
    if mode == "area" and not plain:
        raise ArgumentError("[resize] mode area takes no coordinates and no antialias")
    rules = {
        "mode": mode, "coordinates": coordinates, "nearest": nearest, "antialias": smooth,
    }  # fmt: skip
    if t.dtype != "uint8":
        _sampled(places, target, rules)
        return call.leave(result)
    values = t.device.empty(target.shape)
    _sampled(places.astype("float32"), values, rules)
    elementwise("minimum(maximum(rint(v), 0), 255)", v=values, out=values)
    kernels.cpy(values, target)
    return call.leave(result)


def _sampled(x: Tensor, dst: Tensor, rules: dict[str, Any]) -> None:
    """Resize images (..., H, W) to the size of dst, with the arguments of `kernels.resize`."""
    if rules["mode"] != "area":
        kernels.resize(x, dst, **rules)
    elif x.ndim <= 4:
        more = (None,) * (4 - x.ndim)
        kernels.adaptive_avg_pool2d(x[more], dst[more])
    else:
        images = dst.device.empty(dst.shape, dst.dtype)
        count = math.prod(x.shape[:-3])
        flat = x.reshape(count, *x.shape[-3:])
        kernels.adaptive_avg_pool2d(flat, images.reshape(count, *dst.shape[-3:]))
        kernels.cpy(images, dst)


def _resized_volumes(
    x: Array, size: Sequence[int], mode: Any, coordinates: Any, nearest: Any, antialias: bool,
    layout: Any, out: Tensor | None,
) -> Array:  # fmt: skip
    op = "resize"
    call = Call(KERNEL, x, out=out)
    t = call.tensor("x", x)
    if layout is not None and not (isinstance(layout, str) and layout == "chw"):
        raise ArgumentError(f"[{op}] layout must be 'chw' for volumes but is {layout!r:.40}")
    choice(op, "mode", mode, _OWN_MODES)
    smooth = flag(op, "antialias", antialias)
    plain = isinstance(coordinates, str) and coordinates == "half_pixel" and not smooth
    if mode == "area" and not plain:
        raise ArgumentError(f"[{op}] mode area takes no coordinates and no antialias")
    if t.ndim < 3:
        raise ShapeError(f"[{op}] x must have three or more axes but has shape {t.shape}")
    result = call.out((*t.shape[:-3], *shape_of(size)), t.dtype)
    _volumes(t, result, {
        "mode": mode, "coordinates": coordinates, "nearest": nearest, "antialias": smooth,
    })  # fmt: skip
    return call.leave(result)


def _volumes(x: Tensor, dst: Tensor, rules: dict[str, Any]) -> None:
    """Resize volumes (..., D, H, W) to the size of dst: first each plane, then along D."""
    *lead, depth, rows, cols = dst.shape
    kind = x.dtype if rules["mode"] == "nearest" else "float32"
    planes = x.device.empty((*lead, x.shape[-3], rows, cols), kind)
    _sampled(x if x.dtype == kind else x.astype(kind), planes, rules)
    # For the axis D, the planes are the rows of an image, and the length of rows stays the same.
    large = x.device.empty((*lead, depth, rows, cols), kind)
    flat = [t.reshape(*lead, t.shape[-3], rows * cols) for t in (planes, large)]
    _sampled(flat[0], flat[1], rules)
    kernels.cpy(large, dst)


@again
@whole
def interpolate(
    input: Array,
    size: Pair | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    *,
    antialias: bool = False,
    out: Tensor | None = None,
) -> Array:
    """Signals, images or volumes of another size, as torch.nn.functional.interpolate.

    Computed in f32.

    Args:
        input: Tensor or numpy array, float32, float16 or bfloat16, (N, C, L), (N, C, H, W) or
            (N, C, D, H, W).
        size: the result's L, or H and W, or D, H and W (one integer for all).
        scale_factor: a factor for each axis, in place of size; the new size is rounded down. The
            factor only decides the size, as with torch's recompute_scale_factor=True.
        mode: 'nearest', 'nearest-exact', 'area', 'linear' (3 axes), 'bilinear' or 'bicubic' (4
            axes), 'trilinear' (5 axes).
        align_corners: True keeps the centres of the corners in place; for linear and cubic modes
            only.
        antialias: widen the filter where an axis shrinks, as in `resize`; for 'bilinear' and
            'bicubic' only, and without align_corners.
        out: The Tensor to write to; None makes one of the input's dtype.

    Returns:
        A Tensor for a Tensor, a numpy array for a numpy array.

    Raises:
        ShapeError, DTypeError, ArgumentError, LimitError: as `pykernels.kernels.resize`.
    """
    op = "interpolate"
    call = Call(_INTERPOLATE, input, out=out)
    t = call.tensor("x", input)
    if not isinstance(mode, str) or mode not in _MODES:
        raise ArgumentError(f"[{op}] mode must be one of {', '.join(_MODES)} but is {mode!r}")
    ours, axes, corners = _MODES[mode]
    spatial = t.ndim - 2
    if spatial not in axes:
        names = either(str(a + 2) for a in axes)
        raise ShapeError(f"[{op}] input must have {names} axes for {mode} but has shape {t.shape}")
    aligned = flag(op, "align_corners", align_corners)
    if aligned and not corners:
        raise ArgumentError(
            f"[{op}] align_corners needs a linear or cubic mode but mode is {mode!r}"
        )
    smooth = flag(op, "antialias", antialias)
    if smooth and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"[{op}] antialias needs mode bilinear or bicubic but mode is {mode!r}")
    if smooth and aligned:
        raise ArgumentError(f"[{op}] antialias needs align_corners=False but it is True")
    result = call.out((*t.shape[:2], *_size(op, t.shape[2:], size, scale_factor)), t.dtype)
    image, dst = (t[:, :, None], result[:, :, None]) if spatial == 1 else (t, result)
    coordinates: Coordinates = "half_pixel"
    if aligned or mode == "nearest":
        coordinates = "align_corners" if aligned else "asymmetric"
    nearest: Nearest = "floor" if mode == "nearest" else "round_prefer_ceil"
    rules = {
        "mode": ours, "coordinates": coordinates, "nearest": nearest, "antialias": smooth,
    }  # fmt: skip
    if spatial == 3:
        _volumes(image, dst, rules)
    else:
        _sampled(image, dst, rules)
    return call.leave(result)


def _size(
    op: str, old: tuple[int, ...], size: Pair | None, factor: float | Sequence[float] | None
) -> tuple[int, ...]:
    """The sizes that the spatial axes get."""
    if (size is None) == (factor is None):
        raise ArgumentError(f"[{op}] either size or scale_factor must be given")
    given: Any = size if factor is None else factor
    values = tuple(given) if isinstance(given, Sequence) else (given,) * len(old)
    if len(values) != len(old):
        raise ArgumentError(f"[{op}] there are {len(old)} axes to resize but {given!r}")
    if factor is None:
        return shape_of(values)
    factors = [real(op, "scale_factor", v) for v in values]
    if not all(math.isfinite(f) and f > 0 for f in factors):
        raise ArgumentError(f"[{op}] scale_factor must be above 0 but is {factor!r}")
    return tuple(math.floor(n * f) for n, f in zip(old, factors, strict=True))
