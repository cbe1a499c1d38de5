"""Images read at the places that a grid gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pykernels._generated.kernels.maximum import KERNEL
from pykernels._generated.operations.move import gather
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import choice, flag
from pykernels.device import Tensor
from pykernels.errors import ShapeError
from pykernels.runtime.whole import whole

from .elementwise import elementwise

__all__ = ["grid_sample"]

_ARGS = tuple(
    replace(KERNEL.args[0], name=name, dtypes=("float32", "float16")) for name in ("input", "grid")
)
_GRID = replace(KERNEL, name="grid_sample", args=_ARGS)
Mode = Literal["bilinear", "nearest"]
Padding = Literal["zeros", "border", "reflection"]
# Places far outside, infinities and NaN become places just outside.
_FAR = "where(abs(x) < 16777216, x, -100)"


@whole
def grid_sample(
    input: Array, grid: Array, mode: Mode = "bilinear", padding_mode: Padding = "zeros",
    align_corners: bool = False,
) -> Array:  # fmt: skip
    """Images at the places of a grid, as in torch: result[n, :, i, j] is input[n] at
    (x, y) = grid[n, i, j].

    -1 and 1 are the outer edges of the first and last pixels, or their centres with
    `align_corners`. Computed in f32 by calls that all have gradients: by input they are exact sums
    (`scatter_add`), by the grid those of the weights of neighbours; those of nearest ones are 0.

    Args:
        input: Tensor or numpy array, float32 or float16, (N, C, H, W), H and W above 0.
        grid: Tensor or numpy array, float32 or float16, (N, OH, OW, 2). NaN is outside.
        mode: 'bilinear' mixes four neighbours, 'nearest' takes one (in the middle the even one).
        padding_mode: What lies outside: 'zeros'; 'border', the nearest pixel; 'reflection', the
            image mirrored at its edges (with `align_corners` at the centres of its outer pixels).
        align_corners: see above.

    Returns:
        (N, C, OH, OW), of input's dtype: a numpy array if both are, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError and the errors of `pykernels.kernels`.

    Source: Jaderberg et al. 2015.
    """
    op = "grid_sample"
    choice(op, "mode", mode, ("bilinear", "nearest"))
    choice(op, "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    corners = flag(op, "align_corners", align_corners)
    call = Call(_GRID, input, grid)
    x, places = call.tensor("input", input), call.tensor("grid", grid)
    if x.ndim != 4 or not x.shape[2] * x.shape[3]:
        raise ShapeError(f"[{op}] input must be (N, C, H, W) with pixels but has shape {x.shape}")
    if places.ndim != 4 or places.shape[0] != x.shape[0] or places.shape[3] != 2:
        raise ShapeError(
            f"[{op}] grid must have shape ({x.shape[0]}, OH, OW, 2) but has shape {places.shape}"
        )
    across = _place(places[..., 0], x.shape[3], padding_mode, corners)
    down = _place(places[..., 1], x.shape[2], padding_mode, corners)
    flat = x.astype("float32").reshape((*x.shape[:2], -1))
    if mode == "nearest":
        found = _picked(flat, x.shape, elementwise("round(x)", x=across),
                        elementwise("round(y)", y=down))  # fmt: skip
    else:
        found = _mixed(flat, x.shape, across, down)
    shape = (*x.shape[:2], *places.shape[1:3])
    return call.leave(found.reshape(shape).astype(x.dtype))


def _place(at: Tensor, size: int, padding: str, corners: bool) -> Tensor:
    """The place along an axis of so many pixels, whose centres are 0, 1 and so on: float32."""
    n = float(size)
    text = "(float32(g) + 1) / 2 * (n - 1)" if corners else "((float32(g) + 1) * n - 1) / 2"
    x: Any = elementwise(text, g=at, n=n)
    if padding == "reflection":
        low, period = (0.0, n - 1) if corners else (-0.5, n)
        if period:  # over two images it goes forward and back
            turn = elementwise("abs(x - low)", x=x, low=low)
            turn = elementwise("t - two * floor(t / two)", t=turn, two=2 * period)
            text = "where(t <= p, t, 2 * p - t) + low"
            x = elementwise(text, t=turn, p=period, low=low)
        else:
            x = elementwise("0 * x", x=x)
    if padding != "zeros":
        x = elementwise("where(x > 0, where(x < last, x, last), 0)", x=x, last=n - 1)
    return elementwise(_FAR, x=x)  # type: ignore[return-value]


def _mixed(flat: Tensor, shape: tuple[int, ...], across: Tensor, down: Tensor) -> Tensor:
    """The four neighbours, each by the part of a pixel that is its own."""
    left, top = elementwise("floor(x)", x=across), elementwise("floor(y)", y=down)
    n = across.shape[0]
    total: Any = None
    for right in (0, 1):
        for below in (0, 1):
            near: Any = {"x": across, "y": down, "l": left, "t": top}
            text = ("(x - l)" if right else "(l + 1 - x)") + (
                " * (y - t)" if below else " * (t + 1 - y)"
            )
            share = elementwise(text, **near).reshape((n, 1, -1))
            part = _picked(flat, shape, left + right, top + below) * share
            total = part if total is None else total + part
    return total  # type: ignore[no-any-return]


def _picked(flat: Tensor, shape: tuple[int, ...], column: Any, row: Any) -> Tensor:
    """Pixels by the numbers of their columns and rows, (N, C, OH * OW); 0 outside."""
    height, width = float(shape[2]), float(shape[3])
    inside = "x >= 0 and x < w and y >= 0 and y < h"
    given: dict[str, Any] = {"x": column, "y": row, "w": width, "h": height}
    index: Any = elementwise(f"where({inside}, int32(y) * int32(w) + int32(x), 0)", **given)
    seen = elementwise(f"where({inside}, 1.0, 0.0)", **given).reshape((shape[0], 1, -1))
    index = index.reshape((shape[0], 1, -1))
    index = index.broadcast_to((*shape[:2], index.shape[-1]))
    found: Any = gather(flat, 2, index, check=False)
    # A pixel that is not there must not leave a NaN.
    return elementwise("where(s > 0, v, 0)", s=seen, v=found)  # type: ignore[return-value]
