"""Checks the arguments of `Tape.gradient`, and makes its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.handle import Handle
from pykernels.runtime.observe import Record, StorageWindow, record_of
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import Window, contiguous_layout

from ._sums import _order

__all__ = ["apart", "as_source", "check", "seed_of", "tree_of", "window_of"]


def tree_of(sources: Any) -> Any:
    """The sources as a tree; an iterable that is not a tree becomes a list."""
    known = isinstance(sources, (Tensor, Mapping, list, tuple, str, bytes))
    if known or dataclasses.is_dataclass(sources) or not isinstance(sources, Iterable):
        return sources
    return [*sources]


def check(t: object, name: str, op: str) -> None:
    """Raise unless `t` is a tensor that may have a gradient."""
    if not isinstance(t, Tensor):
        raise DTypeError(f"[{op}] {name} must be a pykernels.Tensor but is {type_name(t)}")
    if t._layout.dtype.kind not in ("f" if name == "loss" else "fc"):
        hint = ""
        if t._layout.dtype.kind != "c":
            hint = ": pk.tensor(values, 'float32') makes one of integers"
        raise DTypeError(f"[{op}] {name} must have a float dtype but is {t.dtype}{hint}")
    if _order(t._layout).repeated or _order(t._layout).overlaps:
        raise ArgumentError(
            f"[{op}] {name} has elements that share memory (shape {t.shape}, strides "
            f"{t.strides}): pass the tensor of which it is a view"
        )


def apart(found: list[Tensor], seed: Tensor, known: set[Record]) -> list[Tensor]:
    """Make the gradients contiguous, sharing no memory with each other or with known tensors."""
    taken: dict[Any, list[Window]] = {seed._storage: [Window(0, 1 << 62)]}
    own = []
    for grad in found:
        windows = taken.setdefault(grad._storage, [])
        window = grad._window
        shared = any(w.overlaps(window) for w in windows)
        if shared or not grad.contiguous or record_of(grad._storage) in known:
            grad = grad.copy()
        else:
            windows.append(window)
        own.append(grad)
    return own


def as_source(grad: Tensor, source: Tensor) -> Tensor:
    """The gradient of a complex source as complex numbers: the gradient of the real parts, plus i
    times the gradient of the imaginary parts."""
    if source._layout.dtype.kind != "c" or grad._layout.dtype.kind == "c":
        return grad
    whole = grad if grad._offset % 8 == 0 else grad.copy()
    return whole._with(contiguous_layout(source.shape, source._layout.dtype))


def window_of(t: Handle) -> StorageWindow:
    start, end = t._window
    return t._storage, start, end


def seed_of(loss: Tensor, seed: Any) -> Tensor:
    """The gradient of the loss, made of `seed`."""
    if seed is None:
        if loss.size != 1:
            raise ArgumentError(
                f"[gradient] a loss must have one element but has shape {loss.shape}: give a seed"
            )
        return loss.device.full(loss.shape, 1, loss.dtype)
    if isinstance(seed, (int, float)):
        return loss.device.full((), seed, loss.dtype).broadcast_to(loss.shape)
    if not isinstance(seed, (Tensor, np.ndarray)):
        raise DTypeError(f"[gradient] seed must be a tensor, array or number, not {seed!r}")
    given = loss.device.tensor(seed, loss.dtype)
    try:
        return given.broadcast_to(loss.shape)
    except ShapeError:
        raise ShapeError(
            f"[gradient] seed must repeat to {loss.shape} but has shape {given.shape}"
        ) from None
