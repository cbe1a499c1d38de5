"""Tensors: a buffer, a byte offset, a shape, strides and a dtype. Views share the buffer."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from .dtypes import DTypeLike, DTypeName, dtype_of, numpy_dtype
from .errors import ArgumentError, DTypeError, LimitError, ShapeError
from .layout import Layout, contiguous_strides, extent, layout
from .memory import Storage

if TYPE_CHECKING:
    from .device import Device

__all__ = ["Tensor"]

_Item: TypeAlias = int | slice | EllipsisType | None
Index: TypeAlias = _Item | tuple[_Item, ...]


class Tensor:
    """An n-dimensional array on a device.

    Made by `Device.tensor`, `.empty` and the like, or around somebody else's buffer by
    `Tensor.from_buffer`. Slicing, transposing, reshaping and broadcasting make views.
    """

    __slots__ = (
        "__weakref__", "_block", "_device", "_key", "_layout", "_offset", "_padded", "_spot", "_storage",
    )  # fmt: skip

    def __init__(self, device: Device, storage: Storage, offset: int, lay: Layout) -> None:
        self._device = device
        self._storage = storage
        self._block = storage.block
        self._offset = offset
        self._layout = lay
        align = device._caps.alignment
        # May a binding be rounded up to 16 bytes? Only a buffer made by others can end before.
        self._padded = -(-(offset + lay.hi) // 16) * 16 <= storage.block.size
        self._key = (lay, offset % align, self._padded)
        self._spot = (lay, storage.block, offset)

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        shape: int | Sequence[int],
        dtype: DTypeLike,
        *,
        offset: int = 0,
        strides: Sequence[int] | None = None,
        device: Device | None = None,
    ) -> Tensor:
        """A tensor on a GPUBuffer that somebody else made (and keeps owning).

        Args:
            buffer: a GPUBuffer with the usage STORAGE (and COPY_SRC to be read back, COPY_DST to
                be written by the host).
            offset: byte offset of the first element, a multiple of the item size.
            strides: in bytes, multiples of the item size; None for C order.
            device: the Device to use; None makes one with `Device.from_wgpu`.

        Raises:
            ShapeError, DTypeError, BufferStateError.
        """
        from .device import Device, _shape

        dims = _shape(shape)
        dt = dtype_of(dtype)
        steps = contiguous_strides(dims, dt.itemsize) if strides is None else tuple(strides)
        if len(steps) != len(dims):
            raise ShapeError(f"[from_buffer] {len(dims)} sizes but {len(steps)} strides")
        for what, value in (("offset", offset), *(("stride", s) for s in steps)):
            if value % dt.itemsize:
                raise ShapeError(
                    f"[from_buffer] {what} must be a multiple of the item size {dt.itemsize} "
                    f"but is {value}"
                )
        if device is None:
            owner = getattr(buffer, "_device", None)
            if owner is None:
                raise ShapeError(f"[from_buffer] {type(buffer).__name__} is no GPUBuffer")
            device = Device.from_wgpu(owner)
        lo, hi = extent(dims, steps, dt.itemsize)
        size = getattr(buffer, "size", 0)
        if offset < 0 or offset + lo < 0 or offset + hi > size:
            raise ShapeError(
                f"[from_buffer] bytes {offset + lo} to {offset + hi} leave the buffer of {size}"
            )
        if -(-(offset + hi) // 4) * 4 > size:
            raise LimitError(
                f"[from_buffer] the view ends in the last {size % 4} bytes of a buffer whose size "
                f"({size}) is no multiple of 4: they cannot be bound"
            )
        if getattr(buffer, "_device", device._raw) is not device._raw:
            from .errors import BufferStateError

            raise BufferStateError("[from_buffer] the buffer belongs to another device")
        return cls(device, device.adopt(buffer), offset, layout(dims, steps, dt))

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
        """The GPUBuffer underneath (larger than the tensor: it is rounded up and shared)."""
        return self._block.buffer

    @property
    def device(self) -> Device:
        """The device that the tensor lives on."""
        return self._device

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        strided = "" if self.contiguous else f", strides {self.strides}"
        where = f", offset {self._offset}" if self._offset else ""
        name = self._device._raw.adapter.info["device"] if not self._device._dead else "closed"
        return f"<pykernels.Tensor {self.dtype} {self.shape}{strided}{where} on {name}>"

    def __bool__(self) -> bool:
        raise TypeError("the truth of a tensor would need a read: use .numpy() or .item()")

    # -- views ----------------------------------------------------------------------------------

    def _view(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> Tensor:
        lay = layout(tuple(shape), tuple(strides), self._layout.dtype)
        return Tensor(self._device, self._storage, offset, lay)

    def __getitem__(self, index: Index) -> Tensor:
        """Basic slicing, as numpy does it: integers, slices with any step, None, Ellipsis."""
        items = index if isinstance(index, tuple) else (index,)
        for i in items:
            if not (i is None or i is Ellipsis or isinstance(i, (int, np.integer, slice))):
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
            if item is Ellipsis:
                for _ in range(self.ndim - used):
                    shape.append(self.shape[axis])
                    strides.append(self.strides[axis])
                    axis += 1
                continue
            n, step = self.shape[axis], self.strides[axis]
            if isinstance(item, slice):
                first, stop, stride = item.indices(n)
                count = len(range(first, stop, stride))
                offset += first * step if count else 0
                shape.append(count)
                strides.append(step * stride)
            else:
                i = int(item)  # type: ignore[arg-type]
                if not -n <= i < n:
                    raise IndexError(f"[getitem] index {i} for axis {axis} of size {n}")
                offset += i % n * step
            axis += 1
        return self._view(shape, strides, offset)

    @property
    def T(self) -> Tensor:  # noqa: N802
        """All axes reversed."""
        return self._view(self.shape[::-1], self.strides[::-1], self._offset)

    def transpose(self, *axes: int) -> Tensor:
        """Axes in a new order (no argument: reversed)."""
        order = axes or tuple(range(self.ndim))[::-1]
        if sorted(a % max(self.ndim, 1) for a in order) != list(range(self.ndim)):
            raise ShapeError(f"[transpose] axes must permute {self.ndim} axes but are {axes}")
        return self._view(
            [self.shape[a] for a in order], [self.strides[a] for a in order], self._offset
        )

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Another shape for the same elements in C order: a view where that is possible, else a
        copy (as numpy). One size may be -1."""
        first = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        dims = [int(n) for n in cast("Sequence[int]", first)]
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

    def broadcast_to(self, shape: Sequence[int]) -> Tensor:
        """A read-only use of the same elements in a larger shape (stride 0), numpy's rules."""
        extra = len(shape) - self.ndim
        own = (1,) * extra + self.shape
        if extra < 0 or any(n not in (1, m) for n, m in zip(own, shape, strict=True)):
            raise ShapeError(f"[broadcast_to] {self.shape} does not broadcast to {tuple(shape)}")
        steps = (0,) * extra + self.strides
        strides = [s if n == m else 0 for n, m, s in zip(own, shape, steps, strict=True)]
        return self._view(shape, strides, self._offset)

    # -- copies ---------------------------------------------------------------------------------

    def astype(self, dtype: DTypeLike) -> Tensor:
        """A contiguous copy in another dtype, by the rules of `kernels.cpy`."""
        from .kernels import cpy

        out = self._device.empty(self.shape, dtype)
        cpy(self, out)
        return out

    def copy(self) -> Tensor:
        """A contiguous copy."""
        return self.astype(self.dtype)

    def write(self, array: Any) -> None:
        """Set the elements from a numpy array of the same shape and dtype."""
        from .kernels import cpy

        self._device._check()
        a = np.asarray(array)
        if a.shape != self.shape:
            raise ShapeError(f"[write] array must have shape {self.shape} but has {a.shape}")
        if dtype_of(a.dtype, "array dtype").name != self.dtype:
            raise DTypeError(f"[write] array must be {self.dtype} but is {a.dtype}")
        if not self.size:
            return
        if self.contiguous and self._offset % 4 == 0 and self.nbytes % 4 == 0:
            flat = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
            self._device._upload(self._block, self._offset, memoryview(flat))  # type: ignore[arg-type]
        else:
            cpy(self._device.tensor(a), self)

    def numpy(self) -> np.ndarray[Any, np.dtype[Any]]:
        """A copy on the host; submits recorded launches and waits for them.

        Raises DTypeError for bfloat16 without the package ml_dtypes.
        """
        self._device._check()
        dt = numpy_dtype(self.dtype)
        lay = self._layout
        if not lay.size:
            return np.empty(self.shape, dt)
        if lay.hi - lay.lo > 2 * lay.nbytes + 64:
            return self.copy().numpy()
        first = (self._offset + lay.lo) // 4 * 4
        last = -(-(self._offset + lay.hi) // 4) * 4
        raw = self._device._read(self._block, first, last - first)
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
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The export is a copy on the host."""
        return (1, 0)


def _reshaped(lay: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of the new shape over the same memory, None where a copy is needed."""
    if lay.size == 0 or lay.contiguous:
        return contiguous_strides(shape, lay.dtype.itemsize)
    # numpy decides on an array that is never read.
    fake = np.lib.stride_tricks.as_strided(
        np.empty(1, f"V{lay.dtype.itemsize}"), lay.shape, lay.strides
    )
    view = fake.view()
    try:
        view.shape = shape
    except (AttributeError, ValueError):
        return None
    return view.strides
