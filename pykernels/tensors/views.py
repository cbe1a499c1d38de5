"""Tensors without their Device: shapes, strides, views that share a buffer, copies."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from types import EllipsisType
from typing import Any, Self, TypeAlias, cast

import numpy as np

from pykernels.dtypes import NAMES, DTypeLike, DTypeName, completes, dtype_of, numpy_dtype
from pykernels.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pykernels.runtime.handle import Handle
from pykernels.runtime.launch import launch, run
from pykernels.runtime.observe import live, written
from pykernels.runtime.owners import checks_of
from pykernels.runtime.signals import Signal
from pykernels.runtime.transfers import READ_CHUNK, Take, copy_bytes

from . import strides as relayout
from .host import as_array, bytes_of, shape_of
from .interop import Interop
from .layout import Layout, contiguous_layout, layout
from .operators import Operators
from .printing import described
from .reading import PendingRead, awaited

__all__ = ["Index", "TensorBase"]

_Item: TypeAlias = int | slice | EllipsisType | None
NDArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Index: TypeAlias = _Item | tuple[_Item, ...]


class TensorBase(Operators, Interop):
    """A tensor, its views and its copies, without its Device (see `device.py`)."""

    __slots__ = ()

    # -- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._layout.shape

    @property
    @completes
    def dtype(self) -> DTypeName:
        """The dtype's name, as numpy spells it; it also equals numpy's dtype."""
        return NAMES[self._layout.dtype.name]

    @property
    def strides(self) -> tuple[int, ...]:
        """Distances of neighbours along each axis, in bytes."""
        return self._layout.strides

    @property
    def offset(self) -> int:
        """The byte of the first element in the buffer."""
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
        """True if the elements lie one after the other in C order."""
        return self._layout.contiguous

    @property
    def buffer(self) -> Any:
        """The GPUBuffer that holds the tensor. It is larger than the tensor, because sizes are
        rounded up and tensors share buffers.

        Recorded launches that use the buffer are submitted before it is returned, and later
        launches that use it are submitted at once, so that the caller's queue calls come after
        them. Each submit checks the buffer, because other code may
        destroy or map it. The pool does not reuse it.
        """
        return self._context.expose(self._storage)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        """Views along the first axis."""
        if not self.shape:
            raise TypeError("iteration over a tensor without axes")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        """Dtype, shape, device and values, which are read; see `printing.described`."""
        return described(self)

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self._layout.size != 1:
            raise TypeError(
                f"the format {spec!r} needs a tensor of one element but the shape is {self.shape}"
            )
        return format(self.item(), spec)

    def __bool__(self) -> bool:
        if self._layout.size != 1:
            raise ArgumentError(
                f"[bool] a tensor of shape {self.shape} has no single truth value: reduce it "
                "first, or compare .numpy()"
            )
        return bool(self.item())

    def _fresh(self, lay: Layout) -> Self:
        """An uninitialised tensor on the same device; its layout is contiguous."""
        context = self._context
        if context.guarded:
            context.check()
        return type(self)(context, context.allocate(lay.nbytes), 0, lay)

    # -- views ----------------------------------------------------------------------------------

    def _with(self, lay: Layout) -> Self:
        """A view that begins at the same byte; the tensor itself if the layout is the same."""
        if lay is self._layout:
            return self
        return type(self)(self._context, self._storage, self._offset, lay)

    def _at(self, lay: Layout, delta: int) -> Self:
        """A view that begins `delta` bytes later."""
        return type(self)(self._context, self._storage, self._offset + delta, lay)

    def _view(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> Self:
        lay = layout(tuple(shape), tuple(strides), self._layout.dtype)
        return type(self)(self._context, self._storage, offset, lay)

    def __getitem__(self, index: Index) -> Self:
        """Basic slicing, as numpy does it: integers, slices with any step, None, Ellipsis."""
        if type(index) is int and self._layout.shape:
            lay = self._layout
            if -lay.shape[0] <= index < lay.shape[0]:
                at = self._offset + index % lay.shape[0] * lay.strides[0]
                return self._view(lay.shape[1:], lay.strides[1:], at)
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
        order = relayout.numbers("transpose", axes)
        if axes and not order and self.ndim:
            raise ShapeError(f"[transpose] axes must permute {self.ndim} axes but are ()")
        return self._with(relayout.transposed(self._layout, order))

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Another shape for the same elements in C order: a view if possible, else a copy (as in
        numpy). One size may be -1."""
        lay, dims = relayout.reshaped(self._layout, relayout.numbers("reshape", shape))
        return self.copy().reshape(dims) if lay is None else self._with(lay)

    def broadcast_to(self, shape: int | Sequence[int]) -> Self:
        """A read-only view of the same elements in a larger shape (stride 0), by numpy's rules."""
        return self._with(relayout.broadcast(self._layout, shape_of(shape)))

    # -- copies ---------------------------------------------------------------------------------

    def astype(self, dtype: DTypeLike) -> Self:
        """A contiguous copy in another dtype, converted as by `kernels.cpy`."""
        context = self._context
        context.check()
        dt = dtype_of(dtype)
        out = self._fresh(contiguous_layout(self.shape, dt))
        run(context.copy, (self, out))
        return out

    def copy(self) -> Self:
        """A contiguous copy."""
        return self.astype(self.dtype)

    def detach(self) -> Self:
        """A contiguous copy that counts as a constant for every tape (`pk.stop_gradient`)."""
        context = self._context
        context.check()
        out = self._fresh(contiguous_layout(self.shape, self._layout.dtype))
        launch((context.copy, (), self._location, out._location), (self, out), (), True)
        return out

    def write(self, array: Any) -> None:
        """Set the elements from a numpy array of the same shape and dtype."""
        context = self._context
        context.check()
        context.refuse_in_capture("write")
        context.run_held()
        a = as_array(array, "write")
        if a.shape != self.shape:
            raise ShapeError(f"[write] array must have shape {self.shape} but has {a.shape}")
        if dtype_of(a.dtype, "array dtype").name != self.dtype:
            raise DTypeError(f"[write] array must be {self.dtype} but is {a.dtype}")
        if not self.size:
            return
        if self.contiguous and self._offset % 4 == 0 and self.nbytes % 4 == 0:
            data = bytes_of(np.ascontiguousarray(a))
            if live:
                written(self)
            if context.noted:
                self._storage.checks = ()  # the host has written the tensor since
            context.transfers.upload(self._block, self._offset, data)
        else:
            lay = contiguous_layout(a.shape, self._layout.dtype)
            given = Handle(context, context.upload(bytes_of(np.ascontiguousarray(a))), 0, lay)
            run(context.copy, (given, self))

    def numpy(self, out: NDArray | None = None) -> NDArray:
        """A copy on the host; submits recorded launches and waits for them.

        Other threads continue to record meanwhile, and Ctrl-C works. More than 64 MiB are read in
        pieces, so writes of another thread may come in between.

        Args:
            out: a writable array of the same shape and dtype, contiguous in C order, to copy into
                and to return; this saves the memory of a new array, and half the time of a large
                read.

        Raises:
            DTypeError: `out` is not an array or has another dtype; or bfloat16 without the package
                ml_dtypes.
            ShapeError: `out` has another shape.
            ArgumentError: `out` is read-only or not contiguous.
            BufferStateError: the call is inside a capture; or the values do not exist yet, because
                a program has not run or a pass has not ended.
            IndexRangeError: as in `Device.sync`; or the values come from a call, of any thread,
                that found an index out of range. A second call returns the values.
        """
        target = self._target(out)
        context = self._context
        reader = context.caller(), checks_of(self._storage)
        source, nbytes, take = self._to_read(target)
        if nbytes:
            context.transfers.read_into(source._block, source._first, nbytes, take, reader)
        return target

    def numpy_async(self, out: NDArray | None = None) -> Coroutine[Any, Any, NDArray]:
        """`numpy` under asyncio: `await` returns the array, and other tasks run meanwhile.

        The copy is submitted at once, so the array has the tensor's values at the time of the call.
        (A tensor above 64 MiB is copied on the device first.) Cancelling the task leaves `out`
        undefined. Arguments and errors are those of `numpy`. An IndexRangeError is about launches
        of the caller, wherever the result is awaited.
        """
        return awaited(*self._submitted(out))

    def numpy_later(self, out: NDArray | None = None) -> PendingRead:
        """Starts `numpy` and returns at once; `result()` waits and returns the array.

        So the host can launch the next step before it reads the results of this step, and the
        device does not idle meanwhile. The copy is submitted at once, so the array has the tensor's
        values at the time of the call. (A tensor above 64 MiB is copied on the device first.) `out`
        is undefined until `result` returns. Arguments are those of `numpy`. Errors are also those
        of `numpy`: this method raises the errors of arguments, and `result` raises the errors of
        launches of the caller of `numpy_later`.
        """
        return PendingRead(*self._submitted(out))

    def _submitted(self, out: NDArray | None) -> tuple[Self, Iterator[Signal], NDArray]:
        """The tensor to read, the rest of the read, and the array that the read fills."""
        target = self._target(out)
        reader = self._context.caller(), checks_of(self._storage)
        source, nbytes, take = (self if self.nbytes <= READ_CHUNK else self.copy())._to_read(target)
        submit = source._context.transfers.submit_read
        steps = submit(source._block, source._first, nbytes, take, reader) if nbytes else iter(())
        return source, steps, target

    def _target(self, out: NDArray | None) -> NDArray:
        """The array to copy into."""
        self._context.check()
        self._context.refuse_in_capture("read")
        self._context.run_held()
        if self._block.guarded:
            self._context.refuse_unwritten("read", self._block)
        dt = numpy_dtype(self.dtype)
        if out is None:
            return np.empty(self.shape, dt)
        if not isinstance(out, np.ndarray):
            raise DTypeError(f"[numpy] out must be a numpy array but is {type(out).__name__}")
        if out.dtype != dt:
            raise DTypeError(f"[numpy] out must be {dt} but is {out.dtype}")
        if out.shape != self.shape:
            raise ShapeError(f"[numpy] out must have shape {self.shape} but has {out.shape}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ArgumentError("[numpy] out must be writable and contiguous in C order")
        return out

    @property
    def _first(self) -> int:
        """The byte at which the buffer's word with the first element begins."""
        return self._window.start // 4 * 4

    def _to_read(self, target: NDArray) -> tuple[Self, int, Take]:
        """The tensor to read, the number of bytes to read (from its first word on), and the
        function that gets these bytes."""
        lay, first = self._layout, self._first
        if not lay.size:
            return self, 0, _nothing
        end = self._offset + lay.hi
        nbytes = -(-end // 4) * 4 - first
        if lay.contiguous:
            return self, nbytes, partial(copy_bytes, bytes_of(target), self._offset - first)
        if nbytes > min(2 * lay.nbytes + 64, READ_CHUNK):
            self._context.refuse("read", "in a recorded pass of a view that needs a copy")
            return self.copy()._to_read(target)
        return self, nbytes, partial(_copy_strided, target, self._offset - first, self.strides)

    def item(self) -> float | int | bool:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ShapeError(f"[item] a tensor of {self.size} elements has no single item")
        if self.dtype == "bfloat16":
            return self.astype("float32").item()
        return cast("float | int | bool", self.numpy().reshape(-1)[0].item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())


def _copy_strided(
    target: NDArray, offset: int, strides: tuple[int, ...], at: int, data: memoryview
) -> None:
    # No variable may keep this memory, because it is unmapped soon.
    np.copyto(target, np.ndarray(target.shape, target.dtype, data, offset, strides))


def _nothing(at: int, data: memoryview) -> None:
    pass
