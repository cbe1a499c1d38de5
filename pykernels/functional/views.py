"""Views with axes removed, added, moved or cut. Nothing runs on the device, and the result shares
memory with x.

A Tensor gives a Tensor, a numpy array gives numpy's view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np

from pykernels.call.again import again
from pykernels.call.arrays import Array, array_of
from pykernels.call.operation import either
from pykernels.call.scalars import choice, integer
from pykernels.device import Tensor
from pykernels.errors import ShapeError
from pykernels.tensors import axes
from pykernels.tensors.host import shape_of

__all__ = [
    "broadcast_to", "chunk", "diagonal", "expand", "expand_dims", "flatten", "flip", "meshgrid",
    "moveaxis", "permute", "split", "squeeze", "swapaxes", "unsqueeze",
]  # fmt: skip

Axes = int | Sequence[int]


@again
def squeeze(x: Array, axis: Axes | None = None, *, dim: Axes | None = None) -> Array:
    """A view without the axes of size 1, or without the axes that `axis` names.

    Raises:
        ShapeError: a named axis has another size, or does not exist.
    """
    if dim is not None:
        axis = either("squeeze", "axis", axis, None, "dim", dim)
    return cast(Array, axes.squeeze(array_of("squeeze", "x", x), axis))


@again
def unsqueeze(x: Array, axis: int) -> Array:
    """A view with a new axis of size 1, at position `axis` of the result.

    Raises:
        ShapeError: the result has no such axis.
    """
    return cast(Array, axes.expand_dims(array_of("unsqueeze", "x", x), axis, "unsqueeze"))


@again
def expand_dims(x: Array, axis: Axes) -> Array:
    """A view with new axes of size 1, at these positions of the result.

    Raises:
        ShapeError: the result has no such axis, or an axis is named twice.
    """
    return cast(Array, axes.expand_dims(array_of("expand_dims", "x", x), axis))


@again
def expand(x: Array, shape: Axes) -> Array:
    """`broadcast_to`, where -1 keeps the size of the axis (torch).

    Raises:
        ShapeError: the shape of x does not broadcast to this shape.
    """
    return _broadcast(array_of("expand", "x", x), axes.expand(x, shape))


@again
def broadcast_to(x: Array, shape: Axes) -> Array:
    """A read-only view of the same elements in a larger shape, by strides of 0.

    Raises:
        ShapeError: the shape of x does not broadcast to this shape by numpy's rules.
    """
    return _broadcast(array_of("broadcast_to", "x", x), shape_of(shape))


@again
def flatten(x: Array, start_axis: int = 0, end_axis: int = -1) -> Array:
    """The axes from `start_axis` to `end_axis` as one axis: a view if possible, else a copy.

    Raises:
        ShapeError: an axis does not exist, or the first axis is behind the last.
    """
    return cast(Array, axes.flatten(array_of("flatten", "x", x), start_axis, end_axis))


@again
def moveaxis(x: Array, source: Axes, destination: Axes) -> Array:
    """A view with axes moved to new positions; the others keep their order.

    Raises:
        ShapeError: an axis does not exist or is named twice, or the numbers of axes and positions
            differ.
    """
    return cast(Array, axes.moveaxis(array_of("moveaxis", "x", x), source, destination))


@again
def permute(x: Array, dims: Sequence[int]) -> Array:
    """A view with the axes in this order (torch).

    Raises:
        ShapeError: an axis does not exist, or is not named exactly once.
    """
    found = array_of("permute", "x", x)
    if isinstance(found, Tensor):
        return found.permute(dims)
    order = [integer("permute", "dims", d) for d in dims]
    if sorted(d % found.ndim if found.ndim else d for d in order) != [*range(found.ndim)]:
        raise ShapeError(f"[permute] dims must name each axis of {found.shape} once but is {dims}")
    return found.transpose(order)


@again
def swapaxes(x: Array, axis1: int, axis2: int) -> Array:
    """A view with two axes exchanged.

    Raises:
        ShapeError: an axis does not exist.
    """
    return cast(Array, axes.swapaxes(array_of("swapaxes", "x", x), axis1, axis2))


@again
def flip(x: Array, axis: Axes | None = None, *, dim: Axes | None = None) -> Array:
    """A view that runs backwards along these axes; None is all axes.

    Raises:
        ShapeError: an axis does not exist, or is named twice.
    """
    if dim is not None:
        axis = either("flip", "axis", axis, None, "dim", dim)
    return cast(Array, axes.flip(array_of("flip", "x", x), axis))


@again
def diagonal(x: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """A view of the diagonals over two axes, as the last axis; `offset` counts from the main
    diagonal upwards.

    Raises:
        ShapeError: an axis does not exist, or both are the same.
    """
    found = array_of("diagonal", "x", x)
    if isinstance(found, Tensor):
        return found.diagonal(offset, axis1, axis2)
    axes.diagonal_axes(found, axis1, axis2)
    return np.diagonal(found, offset, axis1, axis2)


@again
def meshgrid(*xi: Array, indexing: Literal["xy", "ij"] = "xy") -> tuple[Array, ...]:
    """Grids of coordinates: read-only views of each vector, repeated along the axes of the others
    by strides of 0.

    Args:
        xi: n Tensors or numpy arrays with one axis or without axes, each of any dtype. If one is a
            Tensor, the others are copied to its device.
        indexing: "ij": vector i lies along axis i; "xy": the first two axes are swapped (numpy's
            default; torch's is "ij").

    Returns:
        n grids of one shape with n axes: numpy arrays if all arguments are, else Tensors.

    Raises:
        ShapeError: an argument has several axes.
        ArgumentError: another indexing.
        DTypeError: an argument is not an array.
    """
    choice("meshgrid", "indexing", indexing, ("xy", "ij"))
    vectors = [array_of("meshgrid", "x", x) for x in xi]
    for v in vectors:
        if v.ndim > 1:
            raise ShapeError(f"[meshgrid] xi must have one axis each but has shape {v.shape}")
    given = next((v for v in vectors if isinstance(v, Tensor)), None)
    if given is not None:
        vectors = [v if isinstance(v, Tensor) else given.device.tensor(v) for v in vectors]
    places = [*range(len(vectors))]  # positions of the vectors among the axes
    if indexing == "xy" and len(places) > 1:
        places[:2] = 1, 0
    shape = tuple([vectors[a].size for a in places])
    return tuple([
        _broadcast(v.reshape((-1, *(1,) * (len(shape) - 1 - a))), shape)
        for v, a in zip(vectors, places, strict=True)
    ])  # fmt: skip


@again
def split(
    x: Array, indices_or_sections: Axes, axis: int = 0, *, dim: int | None = None
) -> list[Array]:
    """Views of parts along an axis, by numpy's rules; torch's `split` takes sizes instead.

    Args:
        x: Tensor or numpy array.
        indices_or_sections: The number of parts; if it does not divide the size, the first parts
            are longer by one (numpy's `array_split`). Or the positions of the cuts.
        axis: The axis to cut.
        dim: Another name for axis.

    Raises:
        ShapeError: the axis does not exist.
        ArgumentError: less than one section or more than 65,536, or positions that are not
            integers.
    """
    if dim is not None:
        axis = either("split", "axis", axis, 0, "dim", dim)
    return axes.split(array_of("split", "x", x), indices_or_sections, axis)


@again
def chunk(x: Array, chunks: int, axis: int = 0, *, dim: int | None = None) -> list[Array]:
    """Views of up to `chunks` parts along an axis, by torch's rule: each part has the size of the
    axis divided by `chunks`, rounded up; only the last part may be smaller. So there may be fewer
    parts than `chunks`.

    Raises:
        ShapeError: the axis does not exist.
        ArgumentError: less than one chunk, or more than 65,536.
    """
    if dim is not None:
        axis = either("chunk", "axis", axis, 0, "dim", dim)
    return axes.chunk(array_of("chunk", "x", x), chunks, axis)


def _broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    if isinstance(x, Tensor):
        return x.broadcast_to(shape)
    try:
        return np.broadcast_to(x, shape)
    except ValueError:
        raise ShapeError(f"[broadcast_to] {x.shape} does not broadcast to {shape}") from None
