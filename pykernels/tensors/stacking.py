"""Nested lists that contain tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pykernels.errors import BufferStateError

from .operators import function
from .views import TensorBase

__all__ = ["held", "stacked"]


def held(values: Any, depth: int = 32) -> Any:
    """A tensor in nested lists of values; None if there is no tensor."""
    kinds = {*map(type, values)} if depth else set()
    if any(issubclass(kind, TensorBase) for kind in kinds):
        return next(v for v in values if isinstance(v, TensorBase))
    if not any(issubclass(kind, (list, tuple)) for kind in kinds):
        return None
    found = (held(v, depth - 1) for v in values if isinstance(v, (list, tuple)))
    return next((t for t in found if t is not None), None)


def stacked(device: Any, values: Sequence[Any]) -> Any:
    """One tensor made of nested lists that contain tensors; tapes record the calls for it."""
    parts = []
    for value in values:
        if isinstance(value, (list, tuple)):
            own = held(value) is not None
            part = stacked(device, value) if own else _numbers(device, value)
        elif isinstance(value, TensorBase):
            part = value
            if part._context is not device._context:
                raise BufferStateError("[tensor] tensors of two devices in one call")
        else:
            part = _numbers(device, value)
        parts.append(part)
    return function("stack")(parts)


def _numbers(device: Any, values: Any) -> Any:
    """A tensor of values beside tensors; integers become int32, which any float dtype replaces."""
    return device.tensor(values, "int32" if np.asarray(values).dtype.kind in "iu" else None)
