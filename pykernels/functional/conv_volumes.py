"""Convolutions of volumes: sums of convolutions of images, one for each plane of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from pykernels._generated.kernels.conv2d import KERNEL
from pykernels._generated.operations.conv import conv2d, conv_transpose2d
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.promotion import promote
from pykernels.call.scalars import integer, integers
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.runtime.whole import whole

from .elementwise import elementwise
from .move import pad, stack

__all__ = ["conv3d", "conv_transpose3d"]

_CONV, _TRANSPOSE = (replace(KERNEL, name=op) for op in ("conv3d", "conv_transpose3d"))
Activation = Literal["relu", "silu", "gelu_tanh", "gelu"] | None


@again
@whole
def conv3d(
    x: Array, w: Array, bias: Array | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | Literal["same", "valid"] = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1, *, residual: Array | None = None,
    activation: Activation = None,
) -> Array:  # fmt: skip
    """Convolution as torch.nn.functional.conv3d: the windows of x times w, plus bias and residual.

    For each plane of w, one launch adds the products of that plane to the sums so far, for all
    planes of the result. Sums are f32 and no operand is rounded.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, C, D, H, W) or without N.
        w: float32, float16 or bfloat16, (O, C / groups, KD, KH, KW).
        bias: float32, float16 or bfloat16, (O,).
        stride: Distance between windows, an integer or (planes, rows, columns).
        padding: Zeros around x: an integer, (planes, rows, columns), (front, back, top, bottom,
            left, right), "valid" (none), or "same" (zeros that preserve the size; stride must be
            1).
        dilation: Distance between taps, an integer or (planes, rows, columns).
        groups: Number of channel groups; an output channel reads only channels of its own group.
        residual: float32, float16 or bfloat16, added as well; broadcasts to the result's shape.
        activation: As in `conv2d`, applied to the result.

    Returns:
        (N, O, OD, OH, OW), of the common dtype of x and w, or float32 if they differ; in memory the
        order of the axes is (N, OD, O, OH, OW). A numpy array if all arguments are, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit, or the output would be empty.
        ArgumentError: if another argument is unusable.
        DTypeError and the errors of `pykernels.kernels.conv2d`.
    """
    call = Call(_CONV, x, w, bias, residual)
    op, taps = call.op, call.tensor("w", w)
    single, t = _volumes(op, call.tensor("x", x), taps)
    steps, gaps = three(op, "stride", stride), three(op, "dilation", dilation)
    front, back, edges = _edges(op, padding, taps, steps, gaps)
    n, planes = t.shape[0], taps.shape[2]
    room = t.shape[2] + front + back - (planes - 1) * gaps[0] - 1
    if room < 0 or planes < 1:
        raise ShapeError(
            f"[{op}] the kernel must fit into x with its padding but has {planes} planes, "
            f"with dilation {gaps[0]}, and x has {t.shape[2] + front + back} with its padding"
        )
    deep = room // steps[0] + 1
    if front or back:
        t = pad(t, ((0, 0), (0, 0), (front, back), (0, 0), (0, 0)))
    planar: Any = t.transpose(0, 2, 1, 3, 4)
    added = call.tensor("residual", residual)
    sums: Any = None
    vector = call.tensor("bias", bias)
    kind = promote(planar.dtype, taps.dtype)
    for i in range(planes):
        first, last = i * gaps[0], i == planes - 1
        part = planar[:, first : first + (deep - 1) * steps[0] + 1 : steps[0]]
        images = part.reshape(n * deep, *part.shape[2:])
        given: dict[str, Any] = {"residual": sums}
        if sums is None and added is not None:
            given["residual"] = _flat_residual(op, added, single, n, deep)
        shape = _size(images, taps[:, :, i], steps[1:], edges, gaps[1:])
        sums = conv2d(
            images, taps[:, :, i], vector if last else None, steps[1:], edges, gaps[1:], groups,
            activation=activation if last else None,
            out=planar.device.empty(shape, kind if last else "float32"), **given,
        )  # fmt: skip
    result = sums.reshape(n, deep, *sums.shape[1:]).transpose(0, 2, 1, 3, 4)
    return call.leave(result[0] if single else result)


@again
@whole
def conv_transpose3d(
    x: Array, w: Array, bias: Array | None = None, stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Array:  # fmt: skip
    """Transposed convolution as torch.nn.functional.conv_transpose3d.

    Sums are f32 and no operand is rounded. The output has (D - 1) stride - paddings + dilation
    (KD - 1) + 1 + output_padding planes; rows and columns follow the same formula.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, C, D, H, W) or without N.
        w: float32, float16 or bfloat16, (C, O / groups, KD, KH, KW).
        bias: float32, float16 or bfloat16, (O,).
        stride: Steps of the output between neighbouring elements of x, an integer or (planes, rows,
            columns).
        padding: Planes, rows and columns removed at the edges: an integer, (planes, rows, columns)
            or (front, back, top, bottom, left, right).
        output_padding: Planes, rows and columns added at the end, fewer than stride or dilation: an
            integer or (planes, rows, columns).
        groups: Number of channel groups; an output channel reads only channels of its own group.
        dilation: Steps between taps, an integer or (planes, rows, columns).

    Returns:
        (N, O, OD, OH, OW), of the common dtype of x and w, or float32 if they differ: a numpy array
        if all arguments are, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit, or the output would be empty.
        ArgumentError: if another argument is unusable.
        DTypeError and the errors of `pykernels.kernels.conv_transpose2d`.
    """
    call = Call(_TRANSPOSE, x, w, bias)
    op, taps = call.op, call.tensor("w", w)
    single, t = _volumes(op, call.tensor("x", x), taps)
    steps, gaps = three(op, "stride", stride), three(op, "dilation", dilation)
    more = three(op, "output_padding", output_padding, 0)
    if isinstance(padding, str):
        raise ArgumentError(f"[{op}] padding must be integers but is {padding!r}")
    front, back, edges = _edges(op, padding, taps, steps, gaps)
    if more[0] >= max(steps[0], gaps[0]):
        raise ArgumentError(
            f"[{op}] output_padding must be less than stride or dilation but is {more[0]}"
        )
    kind = promote(t.dtype, taps.dtype)
    if kind != "float32":  # in float32, because the products of several planes are added
        t = t.astype("float32")
    n, planes = t.shape[0], taps.shape[2]
    full = (t.shape[2] - 1) * steps[0] + (planes - 1) * gaps[0] + 1 + more[0]
    deep = full - front - back
    if deep < 1 or planes < 1 or t.shape[2] < 1:
        raise ShapeError(f"[{op}] the output must have one plane or more but would have {deep}")
    images = t.transpose(0, 2, 1, 3, 4)
    images = images.reshape(n * t.shape[2], *images.shape[2:])
    parts: list[list[tuple[int, Any]]] = [[] for _ in range(steps[0])]
    for i in range(planes):
        y: Any = conv_transpose2d(
            images, taps[:, :, i], None, steps[1:], edges, more[1:], groups, gaps[1:],
        )  # fmt: skip
        y = y.reshape(n, t.shape[2], *y.shape[1:])
        parts[i * gaps[0] % steps[0]].append((i * gaps[0] // steps[0], y))
    length = -(-full // steps[0])
    like = next(y for part in parts for _, y in part)
    rows = [_added(part, length, like) for part in parts]
    together: Any = rows[0] if len(rows) == 1 else stack(rows, 2)
    places = [i * gaps[0] + j * steps[0] for i in range(planes) for j in range(t.shape[2])]
    if not any(front <= at < front + deep for at in places):
        # the result must still depend on x and w, so that their gradients are zeros
        together = together.copy()
    shape = (n, length * steps[0], *like.shape[2:])
    result: Any = together.reshape(shape)[:, front : front + deep].transpose(0, 2, 1, 3, 4)
    vector = call.tensor("bias", bias)
    if vector is not None:
        if vector.shape != (result.shape[1],):
            raise ShapeError(
                f"[{op}] bias must have shape ({result.shape[1]},) but has {vector.shape}"
            )
        result = elementwise("y + b", y=result, b=vector.reshape(1, -1, 1, 1, 1))
    found: Any = result if result.dtype == kind else result.astype(kind)
    return call.leave(found[0] if single else found)


def _added(parts: list[tuple[int, Any]], length: int, like: Tensor) -> Tensor:
    """The sum of the parts of a result. A part is a pair: the position of its first plane in the
    result, and its planes. Each part is padded to `length` planes before the sum."""
    total: Any = None
    for at, y in parts:
        behind = length - at - y.shape[1]
        y = y[:, : y.shape[1] + min(behind, 0)]
        wide = pad(y, ((0, 0), (at, max(behind, 0)), (0, 0), (0, 0), (0, 0)))
        total = wide if total is None else elementwise("a + b", a=total, b=wide)
    if total is not None:
        return total  # type: ignore[no-any-return]
    return like.device.zeros((like.shape[0], length, *like.shape[2:]), like.dtype)


def _volumes(op: str, t: Tensor, taps: Tensor) -> tuple[bool, Any]:
    """True if x lacks the axis N, and x with this axis."""
    if t.ndim not in (4, 5):
        raise ShapeError(
            f"[{op}] x must have axes (N, C, D, H, W) or (C, D, H, W) but has shape {t.shape}"
        )
    if taps.ndim != 5:
        raise ShapeError(f"[{op}] w must have five axes but has shape {taps.shape}")
    return t.ndim == 4, t[None] if t.ndim == 4 else t


def three(op: str, name: str, value: Any, least: int = 1) -> tuple[int, int, int]:
    """An argument as three integers: one integer counts for all three axes."""
    found = integers(op, name, tuple(value)) if _is_row(value) else (integer(op, name, value),) * 3
    if len(found) != 3 or None in found or min(found) < least:
        raise ArgumentError(
            f"[{op}] {name} must be one or three integers of {least} or more but is {value!r}"
        )
    return found


def _is_row(value: Any) -> bool:
    return isinstance(value, (tuple, list))


def _edges(
    op: str, padding: Any, taps: Tensor, steps: Sequence[int], gaps: Sequence[int]
) -> tuple[int, int, Any]:
    """The padding as planes in front, planes behind, and the padding of each image."""
    if padding == "same":
        if set(steps) != {1}:
            raise ArgumentError(f"[{op}] stride must be 1 with padding 'same' but is {steps}")
        total = (taps.shape[2] - 1) * gaps[0]
        return total // 2, total - total // 2, "same"
    if padding == "valid":
        return 0, 0, 0
    if isinstance(padding, str):
        raise ArgumentError(f"[{op}] padding must be 'same' or 'valid' but is {padding!r}")
    if _is_row(padding) and len(padding) == 6:
        found = integers(op, "padding", tuple(padding))
        if None in found or min(found) < 0:
            raise ArgumentError(f"[{op}] padding must be integers of 0 or more but is {padding!r}")
        return found[0], found[1], tuple(found[2:])
    planes, rows, columns = three(op, "padding", padding, 0)
    return planes, planes, (rows, columns)


def _size(
    images: Tensor, taps: Tensor, steps: Sequence[int], edges: Any, gaps: Sequence[int]
) -> tuple[int, ...]:
    """The shape of the convolution of images."""
    around = {"same": None, 0: (0, 0, 0, 0)}.get(edges, edges) if not _is_row(edges) else edges
    sizes = []
    for a in range(2):
        n, k = images.shape[2 + a], taps.shape[2 + a]
        if around is None:
            sizes.append(n)
            continue
        more = 2 * around[a] if len(around) == 2 else around[2 * a] + around[2 * a + 1]
        sizes.append((n + more - (k - 1) * gaps[a] - 1) // steps[a] + 1)
    return images.shape[0], taps.shape[0], max(sizes[0], 0), max(sizes[1], 0)


def _flat_residual(op: str, added: Tensor, single: bool, n: int, deep: int) -> Tensor:
    """A residual of volumes as a residual of images, broadcast over planes and volumes."""
    if single:
        added = added[None] if added.ndim == 4 else added
    if added.ndim > 5:
        raise ShapeError(f"[{op}] residual must broadcast to the result but has {added.shape}")
    added = added.reshape((1,) * (5 - added.ndim) + added.shape).transpose(0, 2, 1, 3, 4)
    if added.shape[:2] == (1, 1):
        return added[0]
    for size, want in zip(added.shape[:2], (n, deep), strict=True):
        if size not in (1, want):
            raise ShapeError(f"[{op}] residual must broadcast to the result: {size} is not {want}")
    return added.broadcast_to((n, deep, *added.shape[2:])).reshape(n * deep, *added.shape[2:])
