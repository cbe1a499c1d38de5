"""`pk.autocast`: blocks in which functions convert their arguments, by the tables in `casts`.

A context variable holds the innermost block's state. `live` is empty if no context has a state;
then a call tests only `live`. The code allows for signal handlers that run in the middle of a call.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from pykernels.device import Tensor, default_device
from pykernels.dtypes import DTypeLike, dtype_of
from pykernels.errors import ArgumentError, DTypeError, FeatureError
from pykernels.runtime.scopes import Block

from .casts import FLOAT16
from .scalars import flag

__all__ = ["Cast", "autocast", "casting", "live", "recast", "restored"]


class Cast:
    """The state of a block: True if arguments are converted inside."""

    __slots__ = ("__weakref__", "enabled")

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled


_state: ContextVar[Cast | None] = ContextVar("pykernels_autocast", default=None)
# The states that a context may still hold. When a state is deleted, its weak reference is removed
# by `set.discard`, without Python code.
live: set[weakref.ref[Cast]] = set()


class autocast(Block):
    """Inside the block, products, convolutions and attention compute in float16, and losses in
    float32.

        with pk.autocast("float16"):
            loss = pk.mse_loss(pk.tanh(x @ w1) @ w2, y)

        @pk.autocast("float16")
        def forward(x): ...

    Some functions convert their arguments, on the device of the arguments. Products, convolutions
    and attention convert float32 to float16, and their results are then float16. Norms, softmax and
    losses convert float16 to float32. docs/guide/training.md lists these functions. All other
    functions, and every call with `out`, compute in the dtypes of their inputs. Tapes record a
    conversion like any other call, so a gradient has the dtype of its parameter. A weight that is
    used twice is converted twice. `Tape.gradient` and optimisers convert nothing, even inside the
    block.

    Blocks nest; the innermost counts. The state belongs to a context (see `contextvars`): an
    asyncio task that starts inside begins with a copy of the state and keeps it; a thread begins
    without a state (Python 3.14 can be set to copy it). A program that is captured inside the block
    keeps the conversions.

    Args:
        dtype: "float16" and no other.
        enabled: False switches conversions off inside the block.

    Raises:
        DTypeError: another dtype.
        ArgumentError: enabled is not a bool; this block is open already; or the block decorates a
            generator or a coroutine function, whose body would run outside of the block.
        FeatureError: a call inside the block has to convert to float16, on a device without
            shader-f16; this call launches nothing.
    """

    _made_by = "pk.autocast(dtype)"
    _open_error = ArgumentError

    def __init__(self, dtype: DTypeLike, *, enabled: bool = True) -> None:
        if not _is_half(dtype):
            raise DTypeError(f"[autocast] dtype must be 'float16' but is {dtype!r:.40}")
        super().__init__()
        self._enabled = flag("autocast", "enabled", enabled)

    def _begin(self) -> AbstractContextManager[None]:
        return restored(Cast(self._enabled))

    def _recreate_cm(self) -> autocast:
        return autocast("float16", enabled=self._enabled)


def casting() -> Cast | None:
    """The state of the caller's context."""
    return _state.get() if live else None


@contextmanager
def restored(state: Cast | None) -> Iterator[None]:
    """A block with this state; with None, no arguments are converted."""
    before = _state.get()
    try:
        if state is not None:
            live.add(weakref.ref(state, live.discard))
        _state.set(state)
        yield
    finally:
        if _state.get() is state:  # False if another context ends the block
            _state.set(before)


def recast(op: str, *arrays: Any) -> tuple[Any, ...]:
    """The arguments of a function, converted as the caller's block says.

    numpy arrays are converted on the host. Arguments that are not arrays stay as they are.

    Raises:
        FeatureError: a device cannot compute in float16.
    """
    state = _state.get()
    if state is None or not state.enabled:
        return arrays
    half = op in FLOAT16
    sources = {"float32" if half else "float16"}
    if half and any(isinstance(a, Tensor) for a in arrays):
        sources.add("float64")  # beside tensors float64 is used as float32
    changed = [a for a in arrays if _dtype(a) in sources]
    if not changed:
        return arrays
    if half:
        _check_device(op, arrays)
    name = "float16" if half else "float32"
    return tuple([_converted(a, name) if _dtype(a) in sources else a for a in arrays])


def _is_half(dtype: object) -> bool:
    try:
        return dtype_of(dtype).name == "float16"
    except DTypeError:
        return False


def _dtype(a: object) -> str:
    if isinstance(a, Tensor):
        return a._layout.dtype.name
    return str(a.dtype) if isinstance(a, np.ndarray) else ""


def _converted(a: Any, dtype: str) -> Any:
    if isinstance(a, Tensor):
        return a.astype("float16" if dtype == "float16" else "float32")
    with np.errstate(over="ignore"):  # overflow gives infinity, as on the device
        return a.astype(dtype)


def _check_device(op: str, arrays: tuple[Any, ...]) -> None:
    devices = [a.device for a in arrays if isinstance(a, Tensor)] or [default_device()]
    for device in devices:
        if not device._context.caps.f16:
            raise FeatureError(
                f"[{op}] autocast computes in float16, but the device has no shader-f16"
            )
