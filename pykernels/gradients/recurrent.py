"""Linear recurrences: the gradient of the state is a linear recurrence, too, which runs from the
last step to the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels._generated.operations.matmul import matmul
from pykernels.errors import TapeError
from pykernels.functional.elementwise import elementwise
from pykernels.runtime.observe import recording
from pykernels.tape import Taped, reads

from ._plain import plainly

_NAMES = ("q", "k", "v", "decay", "state", "pair", "rate")
_BYTES = 1 << 26  # bytes of the states of one piece of the time steps


@reads(*_NAMES)
def linear_recurrence(call: Taped) -> None:
    if call.option("every"):
        raise TapeError("[tape] linear_recurrence has a gradient rule for its last state only")
    if recording():
        before = call.option("before")
        plainly(call, lambda **given: _by_steps(before, **given), *_NAMES)
        return
    for name, gradient in _Backward(call).run().items():
        call.give(name, gradient)


class _Backward:
    """The gradients of a call. The time steps are cut into pieces, which are computed from the last
    piece to the first.

    With M = diag(f) + b a^T, a step is S = M S_old + k v^T. Let L be the gradient of S, and G = M^T
    L the gradient of S_old. L is G of the next step plus q dy^T. So L follows the same recurrence
    backwards, with q, dy and (b, a) in place of k, v and (a, b). The other gradients are products
    of L and the states, which are computed again from the state before the piece.
    """

    def __init__(self, call: Taped) -> None:
        self.q, self.k, self.v, self.decay, self.first, self.pair, self.rate = (
            call.saved(name) for name in _NAMES
        )
        self.before: bool = call.option("before")
        dy, last = call.dy(), call.dy("states")
        self.device = self.q.device
        b, self.length, h, depth = self.q.shape
        self.shape = (b, h, depth, self.v.shape[3])
        self.dy = self.device.zeros(self.v.shape) if dy is None else dy
        self.last = self.device.zeros(self.shape) if last is None else last[:, 0]
        self.span = max(1, _BYTES // (4 * b * h * depth * self.shape[3]))

    def run(self) -> Mapping[str, Any]:
        """The gradients by name."""
        starts = range(0, self.length, self.span)
        states, gradient = self._states_before(len(starts)), self.last
        parts: list[dict[str, Any]] = []
        for start, state in zip(reversed(starts), reversed(states), strict=True):
            part, gradient = self._piece(slice(start, start + self.span), state, gradient)
            parts.insert(0, part)
        found = parts[0]
        if len(parts) > 1:
            found = {n: F.concatenate([p[n] for p in parts], 1) for n in found}
        if self.rate is not None:
            of_product = found["decay"]
            found["decay"] = of_product * self.rate
            found["rate"] = F.sum(of_product * self.decay, axis=(0, 1))
        return {**found, "state": gradient}

    def _states_before(self, count: int) -> list[Any]:
        """The state before each piece."""
        if count == 1:
            return [self.first]
        b, *others = self.shape
        states = self.device.empty((b, count, *others))
        self._walk(self.k, self.v, self.decay, self.pair, self.first, states, self.rate, self.span)
        return [self.first, *[states[:, i] for i in range(count - 1)]]

    def _walk(
        self, k: Any, v: Any, decay: Any, pair: Any, first: Any, states: Any, rate: Any = None,
        every: int = 1,
    ) -> None:  # fmt: skip
        """Write the states of some steps."""
        unread = self.device.empty(v.shape)
        kernels.linear_recurrence(
            k, k, v, decay, first, unread, states, pair=pair, rate=rate, every=every
        )

    def _piece(self, steps: slice, first: Any, behind: Any) -> tuple[dict[str, Any], Any]:
        """The gradients of some steps and of the state before these steps, from `behind`, the
        gradient of the state after them."""
        q, k, v, f, dy = (t[:, steps] for t in (self.q, self.k, self.v, self.decay, self.dy))
        pair = None if self.pair is None else self.pair[:, steps]
        b, h, depth, width = self.shape
        room = [self.device.empty((b, q.shape[1] + 1, h, depth, width)) for _ in range(2)]
        for t, at_first in zip(room, (first, behind), strict=True):
            t[:, 0] = at_first
        self._walk(k, v, f, pair, first, room[0][:, 1:], self.rate)
        if self.rate is not None:
            f = elementwise("exp(f * r)", f=f, r=self.rate)
        old, new = room[0][:, :-1], room[0][:, 1:]
        back, factors = None if pair is None else pair[:, ::-1, :, ::-1], f[:, ::-1]
        if not self.before:  # M of a step leads from L of this step to L of the step before it
            factors = _delayed(factors, 1.0)
            back = None if back is None else _delayed(back, 0.0)
        self._walk(q[:, ::-1], dy[:, ::-1], factors, back, behind, room[1][:, 1:])
        walked = room[1][:, ::-1]
        grad = walked[:, 1:] if self.before else walked[:, :-1]
        turned, seen = grad.swapaxes(-1, -2), old if self.before else new
        found = {
            "q": _times(seen, dy), "k": _times(grad, v), "v": _times(turned, k),
            "decay": F.reduction("g * s", "sum", axis=-1, g=grad, s=old),
        }  # fmt: skip
        if self.rate is not None:
            found["decay"] = found["decay"] * f
        before = walked[:, 0] if self.before else f[:, 0, :, :, None] * grad[:, 0]
        if pair is not None:
            reads_, writes = pair[:, :, :, 0], pair[:, :, :, 1]
            da = _times(old, _times(turned, writes))
            db = _times(grad, _times(old.swapaxes(-1, -2), reads_))
            found["pair"] = F.stack([da, db], 3)
            if not self.before:
                product = _times(turned[:, 0], writes[:, 0])
                before = before + reads_[:, 0, :, :, None] * product[:, :, None]
        return found, before


def _delayed(t: Any, value: float) -> Any:
    """The value as the first step, followed by all steps except the last."""
    first = t.device.full((t.shape[0], 1, *t.shape[2:]), value)
    return F.concatenate([first, t[:, :-1]], 1)


def _times(matrices: Any, vectors: Any) -> Any:
    return matmul(matrices, vectors[..., None])[..., 0]


def _by_steps(
    before: bool, q: Any, k: Any, v: Any, decay: Any, state: Any, pair: Any = None,
    rate: Any = None,
) -> Mapping[str, Any]:  # fmt: skip
    """The recurrence, computed by operations for each step."""
    f: Any = decay if rate is None else F.exp(decay * rate)
    rows = []
    for t in range(q.shape[1]):
        following = f[:, t, :, :, None] * state + k[:, t, :, :, None] * v[:, t, :, None]
        if pair is not None:
            read = F.sum(pair[:, t, :, 0, :, None] * state, axis=2, keepdims=True)
            following = following + pair[:, t, :, 1, :, None] * read
        rows.append(F.sum(q[:, t, :, :, None] * (state if before else following), axis=2))
        state = following
    return {"dst": F.stack(rows, 1), "states": state[:, None]}
