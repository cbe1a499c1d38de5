"""Tells whether a call would work, without making it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np

from pykernels.device import Device, Tensor, default_device
from pykernels.dtypes import DTYPES, DTypeLike, DTypeName, dtype_of
from pykernels.errors import ArgumentError, PyKernelsError
from pykernels.runtime.blocks import Storage
from pykernels.runtime.context import living
from pykernels.runtime.scopes import Scope
from pykernels.runtime.trial import NeedsValues, Trial, trying
from pykernels.tensors.host import shape_of, type_name

__all__ = ["Meta", "Unsupported", "supports"]


class Meta:
    """A shape and a dtype in place of a tensor, for `supports`.

    Attributes:
        shape: Its shape.
        dtype: Its dtype.
    """

    __slots__ = ("dtype", "shape")
    shape: tuple[int, ...]
    dtype: DTypeName

    def __init__(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> None:
        self.shape, self.dtype = shape_of(shape), dtype_of(dtype).name

    def __repr__(self) -> str:
        return f"pykernels.Meta({self.shape}, {self.dtype!r})"


class Unsupported:
    """The answer of `supports` if a call would not work. It counts as false, and its text is the
    reason.

    Attributes:
        error: The error that the call would raise.
    """

    __slots__ = ("error",)

    def __init__(self, error: PyKernelsError) -> None:
        self.error = error

    def __bool__(self) -> Literal[False]:
        return False

    def __str__(self) -> str:
        return str(self.error)

    def __repr__(self) -> str:
        return f"<{type(self.error).__name__}: {self.error}>"


def supports(
    function: Callable[..., object], /, *args: Any, **options: Any
) -> Literal[True] | Unsupported:
    """Whether `function(*args, **options)` would work: True, or the reason why not, which counts as
    false.

        pk.supports(pk.softmax, pk.Meta((4096, 65536), "float16"))
        if not (answer := pk.supports(kernel, x, y, n=100)):
            print(answer)

    The function checks and plans its launches for the device, and none of them runs: nothing is
    allocated, uploaded, compiled or written. It may be any function of `pykernels` and
    `pykernels.kernels`, a raw kernel, a kernel of a package, or a function that calls these. If it
    needs values that only the device has, the answer covers only the calls before that point.

    Args:
        function: The function that would be called.
        args: Its arguments. A `Meta` stands for a tensor, and an array for a tensor of its shape
            and dtype; both may be inside lists, tuples and dicts.
        options: Its named arguments.

    Raises:
        ArgumentError: function cannot be called.
        BufferStateError: inside a capture or a recorded pass.
        TypeError: the function has no such parameters. A function of the caller's may also raise
            its own errors.
    """
    if not callable(function):
        raise ArgumentError(f"[supports] function must be callable but is {type_name(function)}")
    given = [*_leaves([*args, options])]
    tensors = [v for v in given if isinstance(v, Tensor)]
    named = next((v for v in given if isinstance(v, Device)), None)
    device = tensors[0].device if tensors else named or default_device()
    context = device._context
    with ExitStack() as block:
        trial = block.enter_context(trying(context))
        for other in living():  # the function may use tensors of any of these devices
            if other is not context and other.thread in (None, threading.get_ident()):
                block.enter_context(trying(other))
        pause = Scope("pause", None)  # tapes record nothing
        context.enter(pause)
        try:
            values = _Values(device, trial, bool(tensors))
            function(*values.of(args), **values.of(options))
        except NeedsValues:
            return True
        except PyKernelsError as e:
            return Unsupported(e.with_traceback(None))
        finally:
            pause.open = False
            context.leave(pause)
    return True


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _leaves(item)
    else:
        yield tree


class _Values:
    """Replace tensors in the arguments by tensors without memory. Views of one tensor become views
    of one replacement."""

    def __init__(self, device: Device, trial: Trial, beside_tensors: bool) -> None:
        self._device, self._trial, self._beside = device, trial, beside_tensors
        self._storages: dict[Storage, Storage] = {}

    def of(self, tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: self.of(value) for key, value in tree.items()}
        if type(tree) in (list, tuple):
            return type(tree)(self.of(item) for item in tree)
        if isinstance(tree, Meta):
            return self._device.empty(tree.shape, tree.dtype)
        if isinstance(tree, np.ndarray):
            return self._array(tree)
        if isinstance(tree, Tensor) and tree._context is self._device._context:
            return self._like(tree)
        return tree

    def _array(self, array: Any) -> Any:
        name = str(array.dtype)
        if name == "float64" and self._beside:
            name = "float32"
        if name not in DTYPES:
            return array  # the function raises the error
        return self._device.empty(array.shape, dtype_of(name).name)

    def _like(self, t: Tensor) -> Tensor:
        storage = self._storages.get(t._storage)
        if storage is None:
            storage = self._storages[t._storage] = self._trial.storage(t._block.size)
        found = self._device.empty(0)
        type(found).__init__(found, t._context, storage, t._offset, t._layout)
        return found
