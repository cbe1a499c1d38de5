"""The tensors of a benchmark case: their shapes and layouts, and their memory on a device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pykernels import kernels
from pykernels.device import Device, Tensor
from pykernels.dtypes import DTYPES, DTypeName, numpy_dtype
from pykernels.tensors.layout import View

__all__ = ["Array", "Operand", "arena_of", "at_set", "poison", "span_of", "view_of"]

Array = np.ndarray[Any, Any]

# random elements that the host makes; a prime number, so that repeats do not line up with rows
BLOCK = 1_048_573


@dataclass(frozen=True)
class Operand:
    """One tensor of a case.

    order: the axes, from the outermost to the innermost in memory; () means C order.
    gap, phase: the numbers of unused elements after and before each run of the innermost axis.
    values: a function (rng, shape) -> array that makes the values; None means numbers in [-1, 1),
        or small integers.
    """

    shape: tuple[int, ...]
    dtype: DTypeName
    order: tuple[int, ...] = ()
    gap: int = 0
    phase: int = 0
    values: Callable[[np.random.Generator, tuple[int, ...]], Array] | None = None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize

    @property
    def base(self) -> tuple[int, ...]:
        """The shape in memory, in C order, with the unused elements."""
        shape = [self.shape[a] for a in self.axes]
        if shape:
            shape[-1] += self.phase + self.gap
        return tuple(shape)

    @property
    def axes(self) -> tuple[int, ...]:
        return self.order or tuple(range(len(self.shape)))

    def view(self, base: Any) -> Any:
        """The operand as a view of a tensor (or array of any kind) of the shape `base`."""
        if self.phase or self.gap:
            base = base[..., self.phase : base.shape[-1] - self.gap]
        if not self.order:
            return base
        back = tuple(self.order.index(a) for a in range(len(self.order)))
        permute = getattr(base, "permute", base.transpose)  # torch's transpose swaps two axes
        return permute(*back)


def span_of(o: Operand) -> int:
    """Bytes from one set to the next, so that the windows of all sets have the same alignment."""
    return max(-(-math.prod(o.base) * DTYPES[o.dtype].itemsize // 256) * 256, 256)


def poison(t: Tensor) -> None:
    """Fill the tensor with values that no kernel writes."""
    if t.contiguous:
        kernels.memset(t, 0xCD)
    else:
        kernels.fill(t, 77)


def view_of(t: Tensor | None) -> View | None:
    if t is None:
        return None
    lay = t._layout
    return View(0, lay.dtype, lay.shape, lay.strides, t.offset)


def at_set(arena: Tensor, o: Operand, index: int) -> Tensor:
    flat = arena[index, : math.prod(o.base)]
    view: Tensor = o.view(flat.reshape(o.base))
    return view


def arena_of(dev: Device, o: Operand, sets: int, seed: int) -> Tensor:
    """One buffer with all sets of an operand: random values, the same in each set."""
    dt = numpy_dtype(o.dtype)
    span = span_of(o) // dt.itemsize
    arena = dev.empty((sets, span), o.dtype)
    rng = np.random.default_rng(seed)
    if o.values is not None:
        at = at_set(arena, o, 0)
        at.write(np.ascontiguousarray(o.values(rng, o.shape), dt))
    else:
        _scatter(dev, arena[0], _random(rng, min(BLOCK, span), dt))
    if sets > 1:
        kernels.cpy(arena[:1].broadcast_to((sets - 1, span)), arena[1:])
    return arena


def _random(rng: np.random.Generator, n: int, dt: np.dtype[Any]) -> Array:
    if dt.kind in "iu":
        return rng.integers(0, 100, n).astype(dt)
    if dt.kind == "b":
        return rng.integers(0, 2, n).astype(dt)
    if dt.kind == "c":
        return _random(rng, 2 * n, np.dtype(np.float32)).view(dt)
    return (rng.random(n, np.float32) * 2 - 1).astype(dt)


def _scatter(dev: Device, flat: Tensor, block: Array) -> None:
    """Fill a flat tensor with repeats of a block."""
    source = dev.tensor(block)
    whole = flat.size // block.size
    if whole:
        head = flat[: whole * block.size].reshape(whole, block.size)
        kernels.cpy(source.broadcast_to(head.shape), head)
    rest = flat.size - whole * block.size
    if rest:
        kernels.cpy(source[:rest], flat[flat.size - rest :])
