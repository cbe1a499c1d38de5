"""What functions do around a kernel: convert arrays, allocate the output, return arrays.

If no argument is a Tensor, numpy arrays run on the default device and the result is an array. If an
argument is a Tensor, arrays are copied to its device, where float64 becomes float32, and the result
is a Tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any, TypeAlias, overload

import numpy as np

from pykernels._generated.kernels import narrow as _narrow
from pykernels.device import Device, Tensor, default_device
from pykernels.dtypes import DTYPES, DTypeName
from pykernels.errors import ArgumentError, DTypeError, ShapeError, either
from pykernels.runtime.launch import run
from pykernels.runtime.processes import refuse_process
from pykernels.steps import Arg, Kernel
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import Layout, contiguous_layout, expanded, repeats_to

from .scalars import integer

__all__ = ["Array", "Call", "Known", "NDArray", "array_of", "is_complex", "narrowed", "refusal"]

NDArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Array: TypeAlias = Tensor | NDArray
# Cached calls of a function: layouts of the result and of views, by the layouts of the arguments
# and by options.
Known: TypeAlias = dict[tuple[Hashable, ...], tuple[Any, ...]]
MAX_KNOWN = 4096  # most cached calls of a function


class Call:
    """The arrays of one call of a kernel, and the device that it runs on."""

    __slots__ = (
        "_args", "_arrays", "_given", "_host", "_made", "_op", "_order", "_out", "_shape",
    )  # fmt: skip

    def __init__(self, kernel: Kernel, *arrays: Array | None, out: Tensor | None = None) -> None:
        self._op = kernel.name
        self._args = _arguments(kernel)
        if out is not None and not isinstance(out, Tensor):
            raise DTypeError(f"[{self._op}] out must be a pykernels.Tensor but is {type_name(out)}")
        self._arrays, self._out = arrays, out
        self._given: Tensor | None = None  # the first tensor, which gives the device
        for a in (*arrays, out):
            if isinstance(a, Tensor):
                self._given = a
                break
        self._host: Device | None = None  # the device for numpy arrays
        self._made: Tensor | None = None  # the tensor that was made of the last array
        self._order: tuple[int, ...] | None = None  # the order of the axes, if axes are moved
        self._shape: tuple[int, ...] = ()

    @overload
    def tensor(self, name: str, array: Array) -> Tensor: ...
    @overload
    def tensor(self, name: str, array: None) -> None: ...
    def tensor(self, name: str, array: Array | None) -> Tensor | None:
        """An argument as a tensor; a float64 array beside tensors becomes float32. DTypeError if
        the kernel does not accept its dtype."""
        arg = self._args[name]
        if array is None and arg.optional:
            return None
        array = array_of(self._op, name, array)
        dtype = array._layout.dtype.name if isinstance(array, Tensor) else _name(array.dtype)
        if dtype == "float64" and self._given is not None:
            dtype = "float32"
        if dtype == "int64" and "int64" not in arg.dtypes and "int32" in arg.dtypes:
            array, dtype = narrowed(self._op, name, array), "int32"
        if dtype not in arg.accepted:
            raise DTypeError(
                f"[{self._op}] {name} must be {either(arg.accepted)} but is {dtype}"
                f"{_conversion(arg, array, dtype)}"
            )
        if isinstance(array, Tensor):
            return array
        self._made = self._device.tensor(array)
        return self._made

    @property
    def _device(self) -> Device:
        if self._given is not None:
            return self._given.device
        if self._host is None:
            self._host = default_device()
        return self._host

    @property
    def op(self) -> str:
        """The name of the function."""
        return self._op

    @property
    def asked_dtype(self) -> DTypeName | None:
        """The dtype of the tensor given as `out`."""
        return None if self._out is None else self._out.dtype

    def out(self, shape: tuple[int, ...], dtype: DTypeName) -> Tensor:
        """The tensor given as `out`, or a new tensor."""
        out = self._out
        if out is None:
            return self.empty(shape, dtype)
        if out.shape != shape:
            raise ShapeError(f"[{self._op}] out must have shape {shape} but has {out.shape}")
        if out.dtype != dtype:
            raise DTypeError(f"[{self._op}] out must be {dtype} but is {out.dtype}")
        return out

    def empty(self, shape: tuple[int, ...], dtype: DTypeName) -> Tensor:
        """A new tensor."""
        like = self._made if self._given is None else self._given
        if like is None:
            return self._device.empty(shape, dtype)
        return like._fresh(contiguous_layout(shape, DTYPES[dtype]))

    def expanded(self, **shapes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape to which the arguments repeat by numpy's rule."""
        try:
            return expanded(*shapes.values())
        except ValueError:
            told = " and ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise ShapeError(
                f"[{self._op}] shapes must broadcast together but are {told}"
            ) from None

    @property
    def is_moved(self) -> bool:
        """True if the kernel runs over an axis that is not the last axis."""
        return self._order is not None

    def over(self, x: Tensor, axis: int, **last_only: object) -> None:
        """Run over this axis of x instead of the last axis; `moved` gives the views for that.

        Options in `last_only` are allowed for the last axis only.
        """
        op = self._op
        index = integer(op, "axis", axis)
        ndim = max(x.ndim, 1)  # a tensor without axes counts as a row of one element
        if not -ndim <= index < ndim:
            raise ShapeError(f"[{op}] axis {index} does not exist in shape {x.shape}")
        index %= ndim
        if index == ndim - 1:
            return
        for name, value in last_only.items():
            given = value is not None if isinstance(value, Tensor | None) else value != 0
            if given:
                raise ArgumentError(
                    f"[{op}] axis must be -1 if {name} is given, because axis -3 counts its heads, "
                    f"but is {index - x.ndim}: transpose x instead"
                )
        self._order = (*(a for a in range(x.ndim) if a != index), index)
        self._shape = x.shape

    @overload
    def moved(self, name: str, t: Tensor) -> Tensor: ...
    @overload
    def moved(self, name: str, t: None) -> None: ...
    def moved(self, name: str, t: Tensor | None) -> Tensor | None:
        """A view whose last axis is the axis given to `over`. A tensor with fewer axes first gets
        leading axes of size 1."""
        if t is None or self._order is None:
            return t
        extra = len(self._order) - t.ndim
        arg = self._args[name]
        full = t[(*(None,) * extra, ...)] if extra > 0 else t
        fits = full.shape == self._shape
        if arg.broadcast and extra >= 0:
            shape, target = (tuple(s[a] for a in self._order) for s in (full.shape, self._shape))
            fits = repeats_to(shape, target)
        if not fits:
            rule = "broadcast to" if arg.broadcast else "have the shape"
            raise ShapeError(
                f"[{self._op}] {name} must {rule} {self._shape} but has shape {t.shape}"
            )
        return full.transpose(*self._order)

    def leave(self, result: Tensor) -> Array:
        """The result in the form that the caller gets."""
        return result.numpy() if self._given is None else result

    def remember(
        self, known: Known, *views: Tensor | None, flags: tuple[Hashable, ...] = ()
    ) -> None:
        """Keep the layouts of the result and of the views that the kernel got, for later calls on
        tensors of the same layouts. Nothing is kept if an argument is a numpy array, if `out` is
        given, or if an axis is moved. `flags` are the other values that decide the layouts. Each
        view begins at the first element of its tensor."""
        if self._given is None or self._out is not None or self._order is not None:
            return
        key: list[Layout | None] = []
        for a in self._arrays:
            if isinstance(a, np.ndarray):
                return
            key.append(None if a is None else a._layout)
        if len(known) >= MAX_KNOWN:
            known.clear()
        known[*key, *flags] = tuple([None if v is None else v._layout for v in views])


def array_of(op: str, name: str, value: Any) -> Array:
    """Return a tensor or a numpy array unchanged; raise DTypeError for anything else."""
    if isinstance(value, (Tensor, np.ndarray)):
        return value
    raise DTypeError(
        f"[{op}] {name} must be a pykernels.Tensor or a numpy array but is {type_name(value)}: "
        "pk.tensor(x) makes one"
    )


def is_complex(value: object) -> bool:
    """True for complex numbers, and for tensors and arrays of them."""
    if isinstance(value, Tensor):
        return value._layout.dtype.kind == "c"
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind == "c"
    return isinstance(value, complex)


def refusal(op: str, name: str) -> DTypeError:
    """The error of a function that does not compute with complex numbers."""
    return DTypeError(
        f"[{op}] {name} is complex64, which {op} does not compute with: abs, angle, real and imag "
        "make float32 of it"
    )


@overload
def narrowed(op: str, name: str, array: Tensor) -> Tensor: ...
@overload
def narrowed(op: str, name: str, array: NDArray) -> NDArray: ...
def narrowed(op: str, name: str, array: Array) -> Array:
    """An argument of int64 as int32, the dtype in which it is computed.

    Raises:
        ArgumentError: an element of an array does not fit. For a tensor the next synchronisation
            raises IndexRangeError.
    """
    if isinstance(array, Tensor):
        result = array._fresh(contiguous_layout(array.shape, DTYPES["int32"]))
        run(_narrow.KERNEL, (array, result))
        return result
    least, most = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if not -(1 << 31) <= least <= most < 1 << 31:
        bad = least if least < -(1 << 31) else most
        raise ArgumentError(
            f"[{op}] int64 is computed as int32, but {name} holds {bad}: convert it to float32 "
            "first"
        )
    return array.astype(np.int32)


@functools.lru_cache(maxsize=256)
def _name(dtype: np.dtype[Any]) -> str:
    refuse_process()  # str(dtype) imports a module, which fails while Python exits
    return str(dtype)  # this takes some microseconds


def _conversion(arg: Arg, array: Array, dtype: str) -> str:
    """A hint on how to convert an array that the argument does not take, if the conversion keeps
    its meaning.

    For an integer mask the hint is bool, because its values 0 and 1 say what is masked and are not
    logits to add.
    """
    kind = DTYPES[dtype].kind if dtype in DTYPES else np.dtype(array.dtype).kind
    found = ""
    if "mask" in arg.name and kind != "f":
        found = "bool" if "bool" in arg.dtypes else ""
    else:
        same, fits = {"f": ("f", ""), "b": ("b", "fiu")}.get(kind, ("iu", "f"))
        for kinds in (same, fits) if kind in "fiub" else ():
            found = found or next((d for d in arg.dtypes if DTYPES[d].kind in kinds), "")
    if isinstance(array, Tensor) and dtype == "int64" and found != "int32":
        return ""  # a tensor of int64 converts to int32 only
    hint = "bool" if found == "bool" else repr(found)
    return f": convert it with .astype({hint}) first" if found else ""


@functools.cache
def _arguments(kernel: Kernel) -> dict[str, Arg]:
    return {a.name: a for a in kernel.args}
