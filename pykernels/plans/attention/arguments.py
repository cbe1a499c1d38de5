"""The rules of arguments that flash_attn and flash_attn_backward share."""

from __future__ import annotations

import math
import operator
from typing import Literal, NamedTuple, TypeAlias

from pykernels.errors import ArgumentError, LimitError, ShapeError
from pykernels.plans.matmul.product import broadcasts
from pykernels.tensors.layout import Ints, View

__all__ = ["OPEN", "Band", "Causal", "Dims", "Window", "alibi_heads", "band", "dims", "expect",
           "number", "scale_of", "sizes"]  # fmt: skip

Causal: TypeAlias = "bool | Literal['top-left', 'bottom-right']"
Window: TypeAlias = "tuple[int | None, int | None] | None"
# The bound of a band that is open on one side; no key is that far away.
OPEN = 1 << 30


class Dims(NamedTuple):
    """The sizes of one call: q (batch, heads, queries, depth), k (batch, kv_heads, keys, depth),
    v (batch, kv_heads, keys, value_depth)."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    depth: int
    value_depth: int

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.heads // self.kv_heads


class Band(NamedTuple):
    """Query i may see key j if low <= j - i <= high and j - i <= top; -OPEN and OPEN mean no bound.
    `low` and `high` count from the last key, `top` (causal="top-left") from the first."""

    low: int
    high: int
    top: int

    @property
    def highest(self) -> int:
        """The upper bound of j - i."""
        return min(self.high, self.top)

    @property
    def hides(self) -> bool:
        """True if there is a bound."""
        return self.low > -OPEN or self.highest < OPEN

    def of_queries(self, first: int) -> Band:
        """The band of the queries from `first` on, with queries counted from `first`."""
        low = self.low + first if self.low > -OPEN else self.low
        high, top = (bound + first if bound < OPEN else bound for bound in (self.high, self.top))
        return Band(low, high, top)


def dims(op: str, q: View, k: View, v: View, mask: View | None, sinks: View | None) -> Dims:
    """The sizes of a call; ShapeError names an input that does not fit."""
    for name, view in (("q", q), ("k", k), ("v", v)):
        if view.ndim != 4:
            raise ShapeError(
                f"[{op}] {name} must have four axes (batch, heads, length, depth) but has shape "
                f"{view.shape}"
            )
    batch, heads, queries, depth = q.shape
    kv_heads, keys = k.shape[1], k.shape[2]
    expect(op, "k", k, (batch, kv_heads, keys, depth))
    expect(op, "v", v, (batch, kv_heads, keys, v.shape[3]))
    if heads != kv_heads and (kv_heads == 0 or heads % kv_heads):
        raise ShapeError(
            f"[{op}] the heads of q must be a multiple of those of k and v, {kv_heads}, but are "
            f"{heads}"
        )
    for name, size, most in (("D", depth, 576), ("Dv", v.shape[3], 512)):
        if size > most:
            raise LimitError(f"{name} may be up to {most} but is {size}")
    if max(queries, keys) >= OPEN // 2:
        raise LimitError(f"S and T must be below {OPEN // 2} but are {queries} and {keys}")
    if mask is not None and not broadcasts(mask.shape, (batch, heads, queries, keys)):
        raise ShapeError(
            f"[{op}] mask must broadcast to {(batch, heads, queries, keys)} but has shape "
            f"{mask.shape}"
        )
    if sinks is not None:
        expect(op, "sinks", sinks, (heads,))
    return sizes(q, k, v)


def sizes(q: View, k: View, v: View) -> Dims:
    """The sizes of a call; the shapes of its inputs are not checked."""
    return Dims(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3])


def expect(op: str, name: str, view: View | None, shape: Ints) -> None:
    """ShapeError if the tensor is given and has another shape."""
    if view is not None and view.shape != shape:
        raise ShapeError(f"[{op}] {name} must have shape {shape} but has shape {view.shape}")


def band(op: str, d: Dims, causal: Causal, window: Window) -> Band:
    """The options causal and window as one band of keys around each query.

    Query i is at key p = i + T - S. causal: keys up to p ("top-left": up to i). window (left,
    right): keys from p - left to p + right; None is open.
    """
    if causal not in (False, True, "top-left", "bottom-right"):
        raise ArgumentError(
            f"[{op}] causal must be False, True, 'bottom-right' or 'top-left' but is {causal!r}"
        )
    at = d.keys - d.queries
    low, high, top = -OPEN, OPEN, OPEN
    if causal == "top-left":
        top = 0
    elif causal:
        high = at
    left, right = _window(op, window)
    if left is not None:
        low = max(low, at - left)
    if right is not None:
        high = min(high, at + right)
    return Band(low, high, top)


def _window(op: str, window: Window) -> tuple[int | None, int | None]:
    if window is None:
        return None, None
    if not isinstance(window, tuple) or len(window) != 2:
        raise ArgumentError(f"[{op}] window must be (left, right) or None but is {window!r}")
    sides: list[int | None] = []
    for side in window:
        try:
            sides.append(None if side is None else operator.index(side))
        except TypeError:
            raise ArgumentError(
                f"[{op}] window must hold integers or None but is {window!r}"
            ) from None
        if side is not None and side < 0:
            raise ArgumentError(
                f"[{op}] window must hold no negative sizes (None is open) but is {window!r}"
            )
    return sides[0], sides[1]


def scale_of(op: str, d: Dims, scale: float | None) -> float:
    """The factor of q.k; the default is 1 / sqrt(D)."""
    if scale is None:
        return 1.0 / math.sqrt(max(d.depth, 1))
    return number(op, "scale", scale, least=None)


def number(op: str, name: str, value: float, *, least: float | None = 0.0) -> float:
    """The number, if it is finite and at least `least`; ArgumentError for anything else."""
    try:
        found = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not abs(found) < 3.4e38 or (least is not None and found < least):
        rule = "a finite number" if least is None else f"a finite number of {least:g} or more"
        raise ArgumentError(f"[{op}] {name} must be {rule} but is {value!r}")
    return found


def alibi_heads(heads: int) -> int:
    """The largest power of two up to the number of heads."""
    return 1 << (max(heads, 1).bit_length() - 1)
