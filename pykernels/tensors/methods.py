"""Methods of tensors: axes rearranged, elements picked and set, copies; `views.py` has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from pykernels._generated.kernels import fill as _fill
from pykernels._generated.methods import FunctionMethods
from pykernels.call.scalars import bits_of
from pykernels.errors import ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole

from . import axes
from .indexing import ArrayIndex, assign, has_arrays, pick
from .layout import expands_to
from .operators import is_function
from .selecting import put, selected
from .textures import write_texture
from .views import Index, TensorBase

__all__ = ["TensorMethods"]

Axes = int | Sequence[int]
# Names of numpy and torch, and our spelling.
_OTHERWISE = {
    "clone": ".copy()", "cpu": ".numpy()", "dim": ".ndim",
    "double": ".numpy()", "fill_": "pk.fill", "float": ".astype('float32')",
    "half": ".astype('float16')", "int": ".astype('int32')", "is_contiguous": ".contiguous",
    "long": ".astype('int64')", "numel": ".size", "stride": ".strides", "t": ".T",
    "to": ".astype(dtype) or device.tensor(t)", "view": ".reshape",
}  # fmt: skip


class TensorMethods(FunctionMethods, TensorBase):
    """Methods with the names of numpy and torch, besides views by slices."""

    __slots__ = ()

    if not TYPE_CHECKING:  # otherwise a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            """Raise an error that names our spelling, since most operations are functions here."""
            hint = ""
            if name in _OTHERWISE:
                hint = f": use {_OTHERWISE[name]}"
            elif not name.startswith("_") and is_function(name):
                hint = f": use pk.{name}"
            elif not name.startswith("_") and hasattr(np.ndarray, name):
                hint = f": use .numpy().{name}"
            raise AttributeError(
                f"'Tensor' object has no attribute {name!r}{hint}", name=name, obj=self
            )

    def __getitem__(self, index: Index | ArrayIndex | tuple[Any, ...]) -> Self:
        """numpy's indexing. Integers, slices with any step, None and Ellipsis make a view. Arrays,
        lists and tensors of integers or bools, alone or beside these, make a copy of the elements
        that they pick.

        Integers may count from the end. A mask on the device reads the number of elements, so
        captures refuse it.

        Raises:
            IndexRangeError: for an integer out of range; at the next synchronisation for a tensor
                that contains an index out of range.
            DTypeError, ShapeError, ArgumentError: it is no index of a tensor of this shape.
        """
        if not has_arrays(index):
            return super().__getitem__(cast(Index, index))
        if isinstance(index, TensorBase) and index.dtype == "bool":
            return selected(self, index)
        return pick(self, index)

    def __setitem__(self, index: Index | ArrayIndex | tuple[Any, ...], value: Any) -> None:
        """Set elements to a number, or to an array or tensor that broadcasts to them. The value is
        converted to the tensor's dtype: arrays by numpy's rules, tensors by the rules of `cpy`.

        Indices are as in `__getitem__`; if several values go to one element, the last value stays.
        If a mask on the device is the only index and the value is a number, the host reads nothing.
        For any other mask on the device, the host reads the number of elements, so captures refuse
        it.
        """
        if has_arrays(index):
            self._assign(index, value)
            return
        target = self[index]
        if isinstance(value, (bool, int, float, complex, np.generic)):
            run(_fill.KERNEL, (target,), bits_of("setitem", value, target.dtype))
            return
        made = self._context.facade.tensor
        source = value if isinstance(value, TensorBase) else made(value, self.dtype)
        if not expands_to(source.shape, target.shape):
            raise ShapeError(
                f"[setitem] value must broadcast to {target.shape} but has shape {source.shape}"
            )
        run(self._context.copy, (source.broadcast_to(target.shape), target))

    @whole
    def _assign(self, index: Any, value: Any) -> None:
        """Set the elements that arrays or a mask pick."""
        if not isinstance(value, (TensorBase, bool, int, float, np.generic)):
            value = self._context.facade.tensor(value, self.dtype)
        if isinstance(index, TensorBase) and index.dtype == "bool":
            put(self, index, value)
        else:
            assign(self, index, value)

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[Any, Any]) -> Self:
        """A copy. Copies of views of one flat tensor (`flatten_parameters`) are views again."""
        storage = self._storage
        if not hasattr(storage, "whole"):
            return self.copy()
        start, lay = storage.whole
        base = memo.get(storage)
        if base is None:
            base = memo[storage] = type(self)(self._context, storage, start, lay).copy()
            base._storage.whole = (0, lay)
        return type(self)(base._context, base._storage, self._offset - start, self._layout)

    def to_texture(self, texture: Any, *, level: int = 0) -> None:
        """Copy the elements to a texture, on the device, in order with launches and with the
        caller's own queue calls.

        Shape and dtype are as in `from_texture`.

        Args:
            texture: a GPUTexture, 2d or 3d, with the usage COPY_DST.
            level: the mip level.

        Raises:
            ShapeError: the tensor does not have the texture's shape.
            DTypeError: the dtypes differ, the argument is not a texture, or tensors have no dtype
                for the channels of its format.
            ArgumentError, BufferStateError: as in `from_texture`.
        """
        write_texture(self, texture, level)

    def squeeze(self, axis: Axes | None = None) -> Self:
        """A view without the axes of size 1, or without the named axes, which must have size 1."""
        return cast(Self, axes.squeeze(self, axis))

    def unsqueeze(self, axis: int) -> Self:
        """A view with a new axis of size 1, at this position of the result."""
        return cast(Self, axes.expand_dims(self, axis, "unsqueeze"))

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """`broadcast_to`, where -1 keeps the size of the axis."""
        one = len(shape) == 1 and isinstance(shape[0], Sequence)
        return self.broadcast_to(axes.expand(self, shape[0] if one else shape))

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Self:
        """The axes from `start_axis` to `end_axis` as one axis: a view if possible, else a copy."""
        return cast(Self, axes.flatten(self, start_axis, end_axis))

    def ravel(self) -> Self:
        """All elements in C order as one axis: a view if possible, else a copy."""
        return self.flatten()

    def permute(self, *order: int | Sequence[int]) -> Self:
        """The axes in this order, as torch's `permute`; another name of `transpose`."""
        return self.transpose(*order)

    def tolist(self) -> Any:
        """The elements as Python's numbers, in nested lists: reads, as `numpy` does."""
        return self.numpy().tolist()

    def moveaxis(self, source: Axes, destination: Axes) -> Self:
        """A view with axes moved to new positions; the others keep their order."""
        return cast(Self, axes.moveaxis(self, source, destination))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """A view with two axes exchanged."""
        return cast(Self, axes.swapaxes(self, axis1, axis2))

    def flip(self, axis: Axes | None = None) -> Self:
        """A view that runs backwards along these axes; without arguments along all."""
        return cast(Self, axes.flip(self, axis))

    def chunk(self, chunks: int, axis: int = 0) -> list[Self]:
        """Views of up to `chunks` parts along an axis; the last may be shorter, as in torch."""
        found: list[Any] = axes.chunk(self, chunks, axis)
        return found

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """A view of the diagonals over two axes, as the last axis; `offset` counts from the main
        diagonal upwards."""
        a, b = axes.diagonal_axes(self, axis1, axis2)
        start, n = axes.diagonal_start(self.shape[a], self.shape[b], offset)
        rest = [x for x in range(self.ndim) if x not in (a, b)]
        strides = self.strides
        first = self._offset + (start[0] * strides[a] + start[1] * strides[b] if n else 0)
        return self._view(
            [*(self.shape[x] for x in rest), n],
            [*(strides[x] for x in rest), strides[a] + strides[b]],
            first,
        )
