"""Products of matrices: dst[n, m] = act(scale * sum_k a[m, k] b[n, k] + bias + residual).

With dz behind the activation da[m, k] = sum_n dz[n, m] b[n, k] and db[n, k] = sum_m dz[n, m]
a[m, k]. Along batch axes where an operand repeats, its sum goes over them too: they become part of
the axis that is summed, so that one product does it.
"""

from __future__ import annotations

import math
from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels.tape import Taped, reads

from ._epilogue import before_activation, epilogue_reads


@reads(of=epilogue_reads("a", "b"))
def mul_mat(call: Taped) -> None:
    a, b, options = call.saved("a"), call.saved("b"), _Options(call)
    dz = before_activation(call, lambda: _sums(call, a, b))
    call.give("bias", dz)
    call.give("residual", dz)
    if a.shape[:-2] == b.shape[:-2] and not _batch_repeats(call, "b"):
        batch = _batch_repeats(call, "a")
        if all(axis in batch or n == 1 for axis, n in enumerate(a.shape[:-2])):
            _of_one(call, a, b, dz, batch)
            return
    lead = b.ndim - a.ndim
    wide = a.reshape((1,) * lead + a.shape) if lead else a
    # Each matrix of a serves r neighbouring ones of b: an axis of b is one of a and one of r.
    pairs = [(m, n // max(m, 1)) for m, n in zip(wide.shape[:-2], b.shape[:-2], strict=True)]
    dz = _split(dz, pairs)
    if call.wants("a"):
        batch = _batch_repeats(call, "a")
        over = {2 * (axis + lead) for axis in batch} | {2 * i + 1 for i in range(len(pairs))}
        found = options.product(dz, _split(b, pairs), over)
        call.give("a", found.reshape(_once(a, batch)), summed=batch)
    if call.wants("b"):
        batch = _batch_repeats(call, "b")
        over = {2 * axis + i for axis in batch for i in (0, 1)}
        found = options.product(dz.swapaxes(-1, -2), _split(wide, [(m, 1) for m, _ in pairs]), over)
        call.give("b", found.reshape(_once(b, batch)), summed=batch)


def _of_one(call: Taped, a: Any, b: Any, dz: Any, batch: tuple[int, ...]) -> None:
    """The gradients where one matrix a serves all rows of b, as in a layer."""
    options, rows = _Options(call), dz.reshape(-1, dz.shape[-1])
    if call.wants("b"):
        one = a[(0,) * (a.ndim - 2)] if a.ndim > 2 else a
        call.give("b", options.matmul(rows, one).reshape(b.shape))
    if call.wants("a"):
        found = options.matmul(rows.T, b.reshape(-1, b.shape[-1]))
        call.give("a", found.reshape(_once(a, batch)), summed=batch)


class _Options:
    """Factor and precision of the call."""

    def __init__(self, call: Taped) -> None:
        self._scale, self._precision = call.scalar("scale"), call.option("precision")

    def product(self, left: Any, right: Any, over: set[int]) -> Any:
        """left[..., c, p] right[..., c, q] summed over c and some axes before it: (..., p, q)."""
        count = left.ndim - 2
        shape = [max(m, n) for m, n in zip(left.shape, right.shape, strict=True)][:-2]
        rest = [axis for axis in range(count) if axis not in over]
        last = [axis for axis in range(count) if axis in over]
        sides = []
        for t in (left, right):
            t = t.broadcast_to([*(shape[a] if a in over else t.shape[a] for a in range(count)),
                                *t.shape[-2:]]) if over else t  # fmt: skip
            t = t.transpose(*rest, *last, count, count + 1)
            depth = math.prod(t.shape[len(rest) : -1])
            sides.append(t.reshape(*t.shape[: len(rest)], depth, t.shape[-1]))
        return self.matmul(sides[0].swapaxes(-1, -2), sides[1])

    def matmul(self, left: Any, right: Any) -> Any:
        """left @ right."""
        return F.matmul(left, right, scale=self._scale, precision=self._precision)


def _split(t: Any, pairs: list[tuple[int, int]]) -> Any:
    """Each batch axis as two."""
    return t.reshape(*(n for pair in pairs for n in pair), *t.shape[-2:])


def _batch_repeats(call: Taped, name: str) -> tuple[int, ...]:
    """The batch axes along which an operand repeats."""
    return tuple([axis for axis in call.repeats(name) if axis < len(call.shape(name) or ()) - 2])


def _once(t: Any, repeats: tuple[int, ...]) -> list[int]:
    """A shape without repetitions."""
    return [1 if axis in repeats else n for axis, n in enumerate(t.shape)]


def _sums(call: Taped, a: Any, b: Any) -> Any:
    """What the activation was applied to."""
    dst = b.device.empty(call.shape("dst") or ())
    kernels.mul_mat(
        a, b, dst, bias=call.saved("bias"), residual=call.saved("residual"),
        scale=call.scalar("scale"), precision=call.option("precision"),
    )  # fmt: skip
    return dst
