"""CSR: a sparse matrix in compressed rows, on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykernels.device import Device, Tensor, device_of
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, DTypeError, IndexRangeError, LimitError, ShapeError

from .host import type_name
from .operators import function

__all__ = ["CSR"]

NDArray = np.ndarray[Any, np.dtype[Any]]
_MOST = 2**31 - 1
_PARTS = ("data", "indices", "indptr")


class CSR:
    """A sparse matrix in compressed rows (scipy.sparse.csr_array), on a device.

    Row i has the elements data[indptr[i]:indptr[i + 1]], in the columns indices[indptr[i]:indptr[i
    + 1]]. Columns may be in any order, and elements at the same place add up. `a @ x` multiplies by
    a dense vector or matrix; `pk.csr_matmul` says what it takes. `a.data` (elements,), `a.indices`
    (elements,) and `a.indptr` (rows + 1,) are Tensors, and `a.shape` is (rows, columns). The
    gradient of the elements is the gradient of `a.data`.

    Numpy arrays are checked here. Tensors are neither copied nor read: if they have an index out of
    range, the synchronisation after a product raises IndexRangeError. For a Tensor, you must make
    sure that indptr ascends from 0 to the number of elements.

    Args:
        source: A CSR matrix or array of scipy.sparse, or any object with data, indices, indptr and
            shape. Or (data, indices, indptr), each a numpy array or a Tensor. data is float32 or
            float16; float64 in numpy arrays becomes float32. indices and indptr are integers, and
            int32 in Tensors.
        shape: (rows, columns); None is the shape of the source. For three numpy arrays, None means
            one column more than the largest index.
        device: The device for numpy arrays; None is the default device.

    Raises:
        ShapeError: the arrays do not fit each other or the shape.
        IndexRangeError: an index outside of the columns; indptr does not ascend from 0 to the
            number of elements.
        DTypeError, ArgumentError: another dtype or another format, such as CSC.
        LimitError: there are 2^31 or more rows, columns or elements.
    """

    __slots__ = ("_checked", "data", "indices", "indptr", "shape")

    def __init__(
        self,
        source: Any,
        shape: tuple[int, int] | None = None,
        *,
        device: Device | None = None,
    ) -> None:
        parts, own = _parts(source)
        given = own if shape is None else _shape(shape)
        on_host = [isinstance(part, np.ndarray) for part in parts]
        if any(on_host) and not all(on_host):
            raise DTypeError("[CSR] data, indices and indptr must be all Tensors or all arrays")
        for name, part in zip(_PARTS, parts, strict=True):
            if part.ndim != 1:
                raise ShapeError(f"[CSR] {name} must have one axis but has shape {part.shape}")
        if parts[0].shape != parts[1].shape or parts[2].shape[0] < 1:
            raise ShapeError(
                "[CSR] data and indices must be (elements,) and indptr (rows + 1,) but they have "
                f"shapes {parts[0].shape}, {parts[1].shape} and {parts[2].shape}"
            )
        rows = parts[2].shape[0] - 1
        if given is None:
            if not all(on_host):
                raise ArgumentError("[CSR] shape must be given for Tensors")
            given = rows, int(parts[1].max(initial=-1)) + 1
        if given[0] != rows:
            raise ShapeError(f"[CSR] indptr of {rows + 1} elements does not fit shape {given}")
        if max(*given, parts[0].shape[0]) > _MOST:
            raise LimitError(f"[CSR] {given} with {parts[0].shape[0]} elements is too large")
        self.shape: tuple[int, int] = given
        self._checked = all(on_host)
        if all(on_host):
            found = device_of(device)
            self.data, self.indices, self.indptr = (
                found.tensor(part) for part in _host(*parts, columns=given[1])
            )
        else:
            self.data, self.indices, self.indptr = parts
            _tensors(*parts)

    @property
    def device(self) -> Device:
        """The device of its tensors."""
        return self.data.device

    @property
    def dtype(self) -> DTypeName:
        """The dtype of its elements."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """The number of stored elements, zeros among them."""
        return self.data.shape[0]

    def toarray(self) -> NDArray:
        """The matrix as a dense numpy array; waits for the device."""
        data, indices, indptr = self.data.numpy(), self.indices.numpy(), self.indptr.numpy()
        dense = np.zeros(self.shape, data.dtype)
        np.add.at(dense, (np.repeat(np.arange(self.shape[0]), np.diff(indptr)), indices), data)
        return dense

    def __matmul__(self, x: Any) -> Any:
        """A @ x, computed by `pk.csr_matmul`."""
        return function("csr_matmul")(self, x)

    def __repr__(self) -> str:
        return f"CSR({self.shape}, {self.dtype}, {self.nnz} elements, {self.device})"


def _parts(source: Any) -> tuple[list[Any], tuple[int, int] | None]:
    """The three arrays, and the shape if the source has one."""
    parts: list[Any]
    own: Any = None
    if isinstance(source, tuple | list) and len(source) == 3:
        parts = list(source)
    elif all(hasattr(source, name) for name in (*_PARTS, "shape")):
        form = getattr(source, "format", "csr")
        if form != "csr":
            raise ArgumentError(f"[CSR] source must be in CSR but is in {form}: use .tocsr()")
        parts = [getattr(source, name) for name in _PARTS]
        own = _shape(getattr(source, "shape", None))
    else:
        raise DTypeError(
            "[CSR] source must be a CSR array of scipy.sparse or (data, indices, indptr) but is "
            f"{type_name(source)}"
        )
    for name, part in zip(_PARTS, parts, strict=True):
        if not isinstance(part, Tensor | np.ndarray):
            raise DTypeError(
                f"[CSR] {name} must be a pykernels.Tensor or a numpy array but is {type_name(part)}"
            )
    return parts, own


def _shape(shape: Any) -> tuple[int, int]:
    try:
        rows, columns = (int(n.__index__()) for n in shape)
    except (AttributeError, TypeError, ValueError):
        raise ShapeError(f"[CSR] shape must be (rows, columns) but is {shape!r}") from None
    if rows < 0 or columns < 0:
        raise ShapeError(f"[CSR] shape must be (rows, columns) but is {shape!r}")
    return rows, columns


def _host(data: NDArray, indices: NDArray, indptr: NDArray, *, columns: int) -> list[NDArray]:
    """Check numpy arrays, and convert them to dtypes that the device takes."""
    if data.dtype.name not in ("float32", "float16", "float64"):
        raise DTypeError(f"[CSR] data must be float32, float16 or float64 but is {data.dtype}")
    for name, a in (("indices", indices), ("indptr", indptr)):
        if a.dtype.kind not in "iu":
            raise DTypeError(f"[CSR] {name} must be integers but is {a.dtype}")
    if int(indptr[0]) != 0 or int(indptr[-1]) != data.size or (indptr[1:] < indptr[:-1]).any():
        raise IndexRangeError(f"[CSR] indptr must ascend from 0 to {data.size}, the elements")
    wrong = (indices < 0) | (indices >= columns)
    if wrong.any():
        at = int(wrong.argmax())
        raise IndexRangeError(
            f"[CSR] indices[{at}] is {int(indices[at])} but there are {columns} columns"
        )
    kept = data.astype(np.float32) if data.dtype == np.float64 else data
    return [kept, indices.astype(np.int32), indptr.astype(np.int32)]


def _tensors(data: Tensor, indices: Tensor, indptr: Tensor) -> None:
    """Raise unless products take the tensors' dtypes and all tensors are on one device."""
    if data.dtype not in ("float32", "float16"):
        raise DTypeError(f"[CSR] data must be float32 or float16 but is {data.dtype}")
    for name, t in (("indices", indices), ("indptr", indptr)):
        if t.dtype != "int32":
            raise DTypeError(f"[CSR] {name} must be int32 but is {t.dtype}")
        if t.device is not data.device:
            raise ArgumentError(f"[CSR] {name} must be on the device of data")
