"""What tensors are without their Device: shapes, strides, views that share a buffer, copies."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Self, TypeAlias, cast

import numpy as np

from .dtypes import DTypeLike, DTypeName, dtype_of, numpy_dtype
from .errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from .host import as_array, bytes_of, shape_of
from .layout import Layout, contiguous_layout, contiguous_strides, layout
from .runtime.handle import Handle
from .runtime.launch import run

__all__ = ["TensorBase"]

_Item: TypeAlias = int | slice | EllipsisType | None
Index: TypeAlias = _Item | tuple[_Item, ...]


class TensorBase(Handle):
    """What a tensor is, its views and its copies: all of it but its Device (see `device.py`)."""

    __slots__ = ()

    # -- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._layout.shape

    @property
    def dtype(self) -> DTypeName:
        """The dtype's name, as numpy spells it."""
        return self._layout.dtype.name

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps between neighbours along each axis, in bytes."""
        return self._layout.strides

    @property
    def offset(self) -> int:
        """First element's byte in the buffer."""
        return self._offset

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._layout.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._layout.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._layout.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements (without gaps)."""
        return self._layout.nbytes

    @property
    def contiguous(self) -> bool:
        """Do the elements lie one after the other in C order?"""
        return self._layout.contiguous

    @property
    def buffer(self) -> Any:
        """The GPUBuffer underneath (larger than the tensor: it is rounded up and shared).

        Recorded launches that use it are submitted first. From now on it is looked at before each
        submit, as others may destroy or map it, and the pool does not use it again.
        """
        return self._context.expose(self._block)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        strided = "" if self.contiguous else f", strides {self.strides}"
        where = f", offset {self._offset}" if self._offset else ""
        name = "a closed device" if self._context.dead else self._context.info["name"]
        return f"<pykernels.Tensor {self.dtype} {self.shape}{strided}{where} on {name}>"

    def __bool__(self) -> bool:
        raise TypeError("the truth of a tensor would need a read: use .numpy() or .item()")

    def _fresh(self, lay: Layout) -> Self:
        """An uninitialised tensor on the same device; its layout is contiguous."""
        context = self._context
        if context.guarded:
            context.check()
        return type(self)(context, context.allocate(lay.nbytes), 0, lay)

    # -- views ----------------------------------------------------------------------------------

    def _view(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> Self:
        lay = layout(tuple(shape), tuple(strides), self._layout.dtype)
        return type(self)(self._context, self._storage, offset, lay)

    def __getitem__(self, index: Index) -> Self:
        """Basic slicing, as numpy does it: integers, slices with any step, None, Ellipsis."""
        items = index if isinstance(index, tuple) else (index,)
        for i in items:
            number = isinstance(i, (int, np.integer)) and not isinstance(i, bool)
            if not (number or i is None or i is Ellipsis or isinstance(i, slice)):
                raise ArgumentError(
                    f"[getitem] an index must be an integer, slice, None or Ellipsis but is {i!r}"
                )
        if sum(i is Ellipsis for i in items) > 1:
            raise ArgumentError("[getitem] only one Ellipsis")
        used = sum(i is not None and i is not Ellipsis for i in items)
        if used > self.ndim:
            raise ShapeError(f"[getitem] {used} indices for {self.ndim} axes")
        if not any(i is Ellipsis for i in items):
            items = (*items, Ellipsis)
        shape: list[int] = []
        strides: list[int] = []
        offset, axis = self._offset, 0
        for item in items:
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            if item is ...:
                for _ in range(self.ndim - used):
                    shape.append(self.shape[axis])
                    strides.append(self.strides[axis])
                    axis += 1
                continue
            n, step = self.shape[axis], self.strides[axis]
            if isinstance(item, slice):
                try:
                    first, stop, stride = item.indices(n)
                except (TypeError, ValueError) as e:
                    raise ArgumentError(f"[getitem] {item!r}: {e}") from None
                count = len(range(first, stop, stride))
                offset += first * step if count else 0
                shape.append(count)
                strides.append(step * stride)
            else:
                i = int(item)
                if not -n <= i < n:
                    raise IndexRangeError(f"[getitem] index {i} for axis {axis} of size {n}")
                offset += i % n * step
            axis += 1
        return self._view(shape, strides, offset)

    @property
    def T(self) -> Self:
        """All axes reversed."""
        return self._view(self.shape[::-1], self.strides[::-1], self._offset)

    def transpose(self, *axes: int | Sequence[int]) -> Self:
        """Axes in a new order, as numbers or as one sequence (no argument: reversed)."""
        order = _numbers("transpose", axes) or tuple(range(self.ndim))[::-1]
        n = self.ndim
        if sorted(a + n if a < 0 else a for a in order) != list(range(n)):
            raise ShapeError(f"[transpose] axes must permute {n} axes but are {order}")
        return self._view(
            [self.shape[a] for a in order], [self.strides[a] for a in order], self._offset
        )

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Another shape for the same elements in C order: a view where that is possible, else a
        copy (as numpy). One size may be -1."""
        dims = list(_numbers("reshape", shape))
        known = 1
        for n in dims:
            known *= n if n != -1 else 1
        if dims.count(-1) > 1 or any(n < -1 for n in dims):
            raise ShapeError(f"[reshape] sizes must be from 0 up, at most one -1, but are {dims}")
        if -1 in dims and known > 0 and self.size % known == 0:
            dims[dims.index(-1)] = self.size // known
            known = self.size
        if known != self.size or -1 in dims:
            raise ShapeError(f"[reshape] {self.shape} has {self.size} elements, {dims} has not")
        strides = _reshaped(self._layout, tuple(dims))
        if strides is None:
            return self.copy().reshape(dims)
        return self._view(dims, strides, self._offset)

    def broadcast_to(self, shape: int | Sequence[int]) -> Self:
        """A read-only use of the same elements in a larger shape (stride 0), numpy's rules."""
        dims = shape_of(shape)
        extra = len(dims) - self.ndim
        own = (1,) * extra + self.shape
        if extra < 0 or any(n not in (1, m) for n, m in zip(own, dims, strict=True)):
            raise ShapeError(f"[broadcast_to] {self.shape} does not broadcast to {dims}")
        steps = (0,) * extra + self.strides
        strides = [s if n == m else 0 for n, m, s in zip(own, dims, steps, strict=True)]
        return self._view(dims, strides, self._offset)

    # -- copies ---------------------------------------------------------------------------------

    def astype(self, dtype: DTypeLike) -> Self:
        """A contiguous copy in another dtype, by the rules of `kernels.cpy`."""
        context = self._context
        context.check()
        dt = dtype_of(dtype)
        out = self._fresh(contiguous_layout(self.shape, dt))
        run(context.copy, (self, out))
        return out

    def copy(self) -> Self:
        """A contiguous copy."""
        return self.astype(self.dtype)

    def write(self, array: Any) -> None:
        """Set the elements from a numpy array of the same shape and dtype."""
        context = self._context
        context.check()
        context.refuse_in_capture("write")
        a = as_array(array, "write")
        if a.shape != self.shape:
            raise ShapeError(f"[write] array must have shape {self.shape} but has {a.shape}")
        if dtype_of(a.dtype, "array dtype").name != self.dtype:
            raise DTypeError(f"[write] array must be {self.dtype} but is {a.dtype}")
        if not self.size:
            return
        if self.contiguous and self._offset % 4 == 0 and self.nbytes % 4 == 0:
            flat = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
            context.transfers.upload(self._block, self._offset, flat.data)
        else:
            lay = contiguous_layout(a.shape, self._layout.dtype)
            given = Handle(context, context.upload(bytes_of(np.ascontiguousarray(a))), 0, lay)
            run(context.copy, (given, self))

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """A copy on the host; submits recorded launches and waits for them.

        Raises DTypeError for bfloat16 without the package ml_dtypes, and IndexRangeError as
        `Device.sync` does: then call again.
        """
        self._context.check()
        self._context.refuse_in_capture("read")
        dt = numpy_dtype(self.dtype)
        lay = self._layout
        if not lay.size:
            return np.empty(self.shape, dt)
        if lay.hi - lay.lo > 2 * lay.nbytes + 64:
            return self.copy().numpy()
        first = (self._offset + lay.lo) // 4 * 4
        last = -(-(self._offset + lay.hi) // 4) * 4
        raw = self._context.transfers.read(self._block, first, last - first)
        a: np.ndarray[Any, np.dtype[Any]] = np.ndarray(
            self.shape, dt, raw, self._offset - first, self.strides
        )
        return a if lay.contiguous else a.copy()

    def item(self) -> float | int | bool:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ShapeError(f"[item] a tensor of {self.size} elements has no single item")
        if self.dtype == "bfloat16":
            return self.astype("float32").item()
        return cast("float | int | bool", self.numpy().reshape(-1)[0].item())

    def __array__(
        self, dtype: Any = None, copy: bool | None = None
    ) -> np.ndarray[Any, np.dtype[Any]]:
        if copy is False:
            raise ValueError("a tensor on a device becomes an array only by a copy")
        a = self.numpy()
        return a if dtype is None else a.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """A host copy, as a DLPack capsule (of kind CPU)."""
        if options.get("copy") is False:
            raise BufferError("a tensor on a device is exported only by a copy")
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The export is a copy on the host."""
        return (1, 0)


def _numbers(op: str, values: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Integers given one by one, or as one sequence."""
    one = len(values) == 1 and isinstance(values[0], Sequence)
    found = cast("tuple[int, ...]", tuple(cast("Sequence[int]", values[0])) if one else values)
    if not all(isinstance(n, (int, np.integer)) for n in found):
        raise ArgumentError(f"[{op}] needs integers but got {values!r}")
    return tuple(int(n) for n in found)


def _reshaped(lay: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of the new shape over the same memory, None where a copy is needed."""
    if lay.size == 0 or lay.contiguous:
        return contiguous_strides(shape, lay.dtype.itemsize)
    # Both shapes in lockstep: axes that make up the same number of elements form a group. Inside
    # a group the old axes must follow one another in memory.
    old = [(n, s) for n, s in zip(lay.shape, lay.strides, strict=True) if n != 1]
    strides: list[int] = []
    i = 0
    for first, n in enumerate(shape):
        if len(strides) > first:
            continue
        group, last = n, first + 1
        if group == 1:
            strides.append(0)
            continue
        count, step = old[i]
        i += 1
        while group != count:
            if group < count:
                group *= shape[last]
                last += 1
            else:
                if step != old[i][0] * old[i][1]:
                    return None
                count, step = count * old[i][0], old[i][1]
                i += 1
        steps = contiguous_strides(shape[first:last], step)
        strides += steps
    return tuple(strides)
