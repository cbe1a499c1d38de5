"""The protocols by which numpy, DLPack and Python use tensors.

numpy's functions of tensors run on the device, or raise an error: `functions` and `ufuncs` list
the functions that run. A protocol that makes an array of a tensor copies it to the host. It raises
an error if a tape records the tensor, because gradients would be lost silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pykernels.errors import ArgumentError, TapeError
from pykernels.runtime.handle import Handle
from pykernels.runtime.observe import recording_tapes

from .functions import array_function
from .ufuncs import array_ufunc

__all__ = ["Interop"]

NDArray = np.ndarray[Any, np.dtype[Any]]


class Interop(Handle):
    """The protocols by which other libraries use an array."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        """`np.exp(t)`, `array + t`, `np.add.reduce(t)`: on the device, if pykernels has the
        function."""
        return array_ufunc(ufunc, method, inputs, named)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        """`np.sum(t)`, `np.concatenate([t, u])`: on the device, if pykernels has the function."""
        if not all(issubclass(kind, (Interop, np.ndarray)) for kind in types):
            return NotImplemented
        return array_function(func, args, kwargs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        """A copy on the host, for `numpy.asarray`.

        Raises:
            TapeError: a tape records the tensor.
        """
        if copy is False:
            raise ValueError("a tensor on a device becomes an array only by a copy")
        a = self._exported("an array")
        return a if dtype is None else a.astype(dtype)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A host copy, as a DLPack capsule (of kind CPU).

        Raises:
            ArgumentError: a stream is given; the host has none.
            BufferError: for another device than the host, for `copy=False`, and for bfloat16, which
                numpy does not export.
            TapeError: a tape records the tensor.
        """
        if stream is not None:
            raise ArgumentError(f"[dlpack] stream must be None, for a host copy, but is {stream!r}")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"a tensor is exported to the host, (1, 0), not to {dl_device}")
        if copy is False:
            raise BufferError("a tensor on a device is exported only by a copy")
        array = self._exported("a DLPack capsule")
        if max_version is None:
            return array.__dlpack__()
        return array.__dlpack__(max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The export is a copy on the host."""
        return (1, 0)

    def _exported(self, form: str) -> NDArray:
        """A copy on the host; TapeError if a tape records the tensor, because the caller may not
        expect that gradients end there."""
        if any(tape.needs(self) for tape in recording_tapes()):
            raise TapeError(
                f"[tape] {form} of a tensor that the tape records would have no gradient: compute "
                "on the device, or call .numpy() if you need no gradient"
            )
        array: NDArray = self.numpy()  # type: ignore[attr-defined]
        return array
