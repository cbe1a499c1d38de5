"""Steps of several parameters in as few launches as the device's storage buffers allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from pykernels.device import Tensor
from pykernels.plans.optim.together import MOST, Form, padded, together
from pykernels.runtime.launch import run

from ._copy_together import BUFFERS

__all__ = ["Numbers", "launch_together", "zeros_together"]

SHORT = {"float32": "f32", "float16": "f16"}
LARGEST = 1 << 28  # most bytes of states in one buffer


class Numbers(NamedTuple):
    """The tensors that a step reads besides gradients, states and parameters."""

    settings: Tensor
    steps: Tensor | None = None
    rate: Tensor | None = None
    skip: Tensor | None = None


class _Pair(NamedTuple):
    """The position `at` of a parameter and its gradient; the states of the parameter are the bytes
    from `lo` to `hi`."""

    at: int
    lo: int
    hi: int


def launch_together(
    name: str, params: Sequence[Tensor], grads: Sequence[Tensor],
    states: Sequence[Sequence[Tensor]], numbers: Numbers, flag: bool = False, rule: str = "",
) -> list[int]:  # fmt: skip
    """Launch the steps of parameters that can share a launch. Returns the positions of all other
    parameters.

    A parameter needs its own launch if it is not contiguous, shares a buffer with another
    parameter, or has states that are not neighbours in memory (after unpickling, or a state added
    later).
    """
    context = params[0]._context
    given = [t for t in numbers if t is not None]
    common = len(given) + bool(states[0])
    most = min((context.limits[BUFFERS] - common) // 2, MOST)
    everything = list(range(len(params)))
    if most < 2 or len(params) < 2:
        return everything
    written = {p._block for p in params}
    fixed = {t._block for t in chain(given, grads)}
    if len(written) < len(params) or not written.isdisjoint(fixed):
        return everything
    lines: dict[Any, list[_Pair]] = {}
    for i in everything:
        key, pair = _placed(i, params[i], grads[i], states[i], context.caps.max_binding)
        if key is not None and not (states[i] and states[i][0]._block in fixed | written):
            lines.setdefault(key, []).append(pair)
    done: set[int] = set()
    for line in lines.values():
        for some in _cut(line, most, context.caps.max_binding):
            if len(some) < 2:
                continue
            _launch(name, some, params, grads, states, numbers, given, flag, rule)
            done.update([pair.at for pair in some])
    return [i for i in everything if i not in done]


def _placed(
    at: int, param: Tensor, grad: Tensor, states: Sequence[Tensor], largest: int
) -> tuple[Any, _Pair]:
    """The key of a parameter, and the place of its states. Parameters with equal keys can share a
    launch; a parameter whose key is None needs its own launch."""
    nothing = None, _Pair(at, 0, 0)
    for t in (param, grad):
        if not (t._layout.contiguous and t.dtype in SHORT and 0 < t._layout.nbytes <= largest):
            return nothing
    size = param.size
    vectors = size % 4 == 0 and param._offset % 16 == 0 and grad._offset % 16 == 0
    alike = param.dtype, grad.dtype, vectors
    if not states:
        return alike, _Pair(at, 0, 0)
    first = states[0]
    if first._offset % 16:
        return nothing
    for n, t in enumerate(states):
        behind = first._offset + 4 * n * padded(size)
        if t._storage is not first._storage or t._offset != behind or not t._layout.contiguous:
            return nothing
    return (*alike, first._storage), _Pair(at, first._offset, states[-1]._offset + 4 * size)


def _cut(line: Sequence[_Pair], most: int, largest: int) -> Iterator[list[_Pair]]:
    """Groups of at most `most` parameters. The states of a group have at most `largest` bytes,
    because a group is one launch, with one binding for all states."""
    some: list[_Pair] = []
    for pair in line:
        if some and (len(some) == most or pair.hi - some[0].lo > largest):
            yield some
            some = []
        some.append(pair)
    yield some


def _launch(
    name: str, some: Sequence[_Pair], params: Sequence[Tensor], grads: Sequence[Tensor],
    states: Sequence[Sequence[Tensor]], numbers: Numbers, given: Sequence[Tensor], flag: bool,
    rule: str,
) -> None:  # fmt: skip
    lo = min(pair.lo for pair in some)
    starts = tuple([(pair.lo - lo) // 4 for pair in some])
    first = states[some[0].at]
    window = []
    if first:
        count = (max(pair.hi for pair in some) - lo) // 4
        window = [first[0]._view((count,), (4,), lo)]
    kinds = [SHORT[of[some[0].at].dtype] for of in (params, grads)]
    rate, skip = numbers.rate is not None, numbers.skip is not None
    form = Form(len(first), rate, skip, flag, rule, *kinds)
    kernel = together(name, len(some), form).kernel
    some_grads, some_params = ([of[pair.at] for pair in some] for of in (grads, params))
    run(kernel, (*given, *some_grads, *window, *some_params), (), (starts,))


def zeros_together(
    params: Sequence[Tensor], moments: Sequence[str], missing: Callable[[str], bool]
) -> dict[str, Tensor]:
    """Zeros for the states of each parameter; one buffer holds the states of many parameters."""
    found: dict[str, Tensor] = {}
    device = params[0].device
    largest = min(LARGEST, device._context.caps.max_binding)
    waiting: list[tuple[str, Tensor, int]] = []
    used = 0

    def make() -> None:
        flat = device.zeros(used) if len(waiting) > 1 else None
        if flat is not None:
            flat._storage.whole = flat._offset, flat._layout
        for name, p, start in waiting:
            place = None if flat is None else flat[start : start + p.size].reshape(p.shape)
            found[name] = device.zeros(p.shape) if place is None else place
        waiting.clear()

    for i, p in enumerate(params):
        names = [name for m in moments if missing(name := f"{m}.{i}")]
        need = len(names) * padded(p.size)
        if waiting and 4 * (used + need) > largest:
            make()
            used = 0
        for name in names:
            waiting.append((name, p, used))
            used += padded(p.size)
    make()
    return found
