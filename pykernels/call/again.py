"""Repeats calls of functions whose Python code only makes views and launches kernels. The views and
launches of a call are kept; a later call like it makes them again and does not run the function's
Python code.

A call is like another one if its tensors have the same layouts and share buffers in the same way,
and if all other arguments are equal and of the same types. The second of such calls is traced: a
block of the kind "trace" notes its allocations and its launches. A tensor of a launch is kept as a
view of an argument, of new memory, or of a constant of the device. Numbers that the host writes to
the device in a call follow from the call's arguments. So the memory with these numbers is kept as a
constant, if it is small and no launch of the call writes to it. Calls that wait for the device are
not kept, and neither are calls whose results are not tensors. Under a tape, `autocast` or a byte
budget, the function itself runs each time, because its launches may differ there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar

from pykernels.device import Device, Tensor, default_device
from pykernels.dtypes import NAMES
from pykernels.runtime.blocks import storage_of
from pykernels.runtime.context import Context, budgeted
from pykernels.runtime.launch import launch
from pykernels.runtime.observe import live
from pykernels.runtime.scopes import Scope
from pykernels.tensors.quantised import QTensor

from . import autocast
from .traces import TENSOR, Kept, Trace, Untraceable, keep, planes_of

__all__ = ["again", "again_without_tensors", "not_kept"]

P = ParamSpec("P")
R = TypeVar("R")

MAX_TRACES = 4096  # most kept calls of a device
_PLAIN = frozenset((int, bool, str, type, type(None), type(NAMES["float32"])))
_ONCE, _NEVER = "once", "never"  # marks of calls whose launches are not kept
_GONE = object()


def again(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function whose launches depend only on its tensors and options."""
    return _decorated(function, False)


def again_without_tensors(function: Callable[P, R]) -> Callable[P, R]:
    """Like `again`, for functions that may get no tensor: they run on the device that they are
    given, or on the default device."""
    return _decorated(function, True)


def not_kept(arrays: Iterable[object]) -> None:
    """Say that the running call has done more than launch kernels, for example raised a warning, so
    the function must run each time. `arrays`: the arguments."""
    for a in arrays:
        trace = a._context.tracing() if isinstance(a, Tensor) else None
        if trace is not None:
            trace.spoil()


def _decorated(function: Callable[P, R], default: bool) -> Callable[P, R]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if live or budgeted or autocast.live:
            return function(*args, **kwargs)
        given: list[Any] = []
        key: list[Any] = [function]
        a: Any
        for a in args:
            kind = type(a)
            if kind is TENSOR:
                given.append(a)
                key.append(a._layout)
            elif kind in _PLAIN:
                key += (kind, a)
            elif not _add(key, given, kind, a):
                return function(*args, **kwargs)
        for name, a in kwargs.items():
            kind = type(a)
            if kind is TENSOR:
                given.append(a)
                key += (name, a._layout)
            elif kind in _PLAIN:
                key += (name, kind, a)
            else:
                key.append(name)
                if not _add(key, given, kind, a):
                    return function(*args, **kwargs)
        context: Context
        if given:
            context = given[0]._context
        elif default:
            context = default_device()._context
        else:
            return function(*args, **kwargs)
        if len(given) > 1:
            blocks = {t._block for t in given}
            if len(blocks) < len(given):
                key += _pattern(given)
        traces, found = context.traces, tuple(key)
        kept = traces.get(found)
        if kept is None:
            if len(traces) >= MAX_TRACES:
                traces.clear()
            traces[found] = _ONCE  # a call is traced when it comes a second time
        elif kept.__class__ is Kept and kept.caps is context.caps:
            done = _repeat(kept, context, given)
            if done is not _GONE:
                return done  # type: ignore[no-any-return]
            traces[found] = _ONCE
        elif kept is not _NEVER and not context.scopes and not _looked_into(context):
            return _traced(function, args, kwargs, context, given, found)  # type: ignore[no-any-return]
        return function(*args, **kwargs)

    return call


def _looked_into(context: Context) -> bool:
    """True if launches run texts that also check indices or write debug records; calls with such
    launches are not kept."""
    return context.checks_indices or context.debugging is not None


def _add(key: list[Any], given: list[Any], kind: type, value: Any) -> bool:
    """Add an argument to the key of a call; False if calls with it are not kept."""
    if kind is float:
        key += (float, value if value else repr(value))  # repr, because -0.0 == 0.0
    elif kind is tuple or kind is list:
        key += (kind, len(value))
        for v in value:
            inner = type(v)
            if inner is TENSOR:
                given.append(v)
                key.append(v._layout)
            elif inner in _PLAIN:
                key += (inner, v)
            elif not _add(key, given, inner, v):
                return False
    elif kind is QTensor:
        planes = planes_of(value)
        given += planes
        key += (QTensor, value.type, value.shape, *[t._layout for t in planes])
    elif kind is Device:
        # Tensors of the call must be on this device. If no tensor comes before this device, the
        # call runs on it.
        if given:
            if given[0]._context is not value._context:
                return False
            key.append(Device)
        else:
            key.append(Device)
            given.append(_Nothing(value._context))
    else:
        return False
    return True


class _Nothing:
    """Stands for a tensor on the device of a call, if the device comes before all tensors among the
    arguments."""

    __slots__ = ("_context",)
    _block = None

    def __init__(self, context: Context) -> None:
        self._context = context


def _pattern(given: Sequence[Any]) -> list[tuple[int, int]]:
    """For each tensor, the first tensor in the same buffer, and the distance from it in bytes.
    These tell which tensors overlap."""
    first: dict[Any, tuple[int, int]] = {}
    found = []
    for i, t in enumerate(given):
        if t._block is not None:
            at, offset = first.setdefault(t._block, (i, t._offset))
            found.append((at, t._offset - offset))
    return found


# -- the first calls ------------------------------------------------------------------------------


def _traced(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], context: Context,
    given: Sequence[Any], key: tuple[Any, ...],
) -> Any:  # fmt: skip
    """Run a call on views of its tensors, and keep what the call did.

    Each view has a storage of its own. The separate storages tell which argument a view belongs to,
    even if arguments share a buffer.
    """
    tensors = [t for t in given if t.__class__ is TENSOR]
    if any([t._context is not context for t in given]):
        return function(*args, **kwargs)  # the function raises the error
    before = [t._storage.checks for t in tensors]
    stand_ins = iter([_stand_in(t) for t in tensors])
    used: list[Tensor] = []

    def replaced(value: Any) -> Any:
        kind = type(value)
        if kind is TENSOR:
            used.append(next(stand_ins))
            return used[-1]
        if kind is tuple or kind is list:
            return kind([replaced(v) for v in value])
        if kind is QTensor:
            return QTensor._of_planes(
                value.kind, value.shape, [replaced(t) for t in planes_of(value)]
            )
        return value

    new_args = [replaced(a) for a in args]
    new_kwargs = {n: replaced(a) for n, a in kwargs.items()}
    trace = Trace()
    scope = Scope("trace", trace, context)
    caps = context.caps
    try:
        context.enter(scope)
        result = function(*new_args, **new_kwargs)
    finally:
        scope.open = False
        context.leave(scope)
    for t, stand_in, checks in zip(tensors, used, before, strict=True):
        if stand_in._storage.checks is not checks:  # the call wrote to this tensor
            t._storage.checks = stand_in._storage.checks
    try:
        context.traces[key] = keep(trace, given, used, result, caps)
    except Untraceable:
        context.traces[key] = _NEVER
    return _original(result, tensors, used)


def _stand_in(t: Tensor) -> Tensor:
    storage = storage_of(t._block)
    storage.checks = t._storage.checks
    found: Tensor = TENSOR(t._context, storage, t._offset, t._layout)
    return found


def _original(result: Any, tensors: Sequence[Tensor], used: Sequence[Tensor]) -> Any:
    """The result, with the caller's tensors and storages in place of their stand-ins."""
    kind = type(result)
    if kind is tuple or kind is list:
        return kind([_original(r, tensors, used) for r in result])
    if kind is QTensor:
        planes = [_original(t, tensors, used) for t in planes_of(result)]
        return QTensor._of_planes(result.kind, result.shape, planes)
    if kind is TENSOR:
        for t, stand_in in zip(tensors, used, strict=True):
            if result is stand_in:
                return t
            if result._storage is stand_in._storage:
                return TENSOR(result._context, t._storage, result._offset, result._layout)
    return result


# -- calls like them ------------------------------------------------------------------------------


def _repeat(kept: Kept, context: Context, slots: list[Any]) -> Any:
    """Repeat the kept call with these arguments, and return its result; `_GONE` if a constant no
    longer exists."""
    slots += kept.more
    for slot, constant, offset, lay in kept.constants:
        storage = constant()
        if storage is None:
            return _GONE
        slots[slot] = TENSOR(context, storage, offset, lay)
    if context.guarded:
        context.check()
    for new, views, kernel, options, scalars, pick, last in kept.steps:
        for slot, nbytes, lay in new:
            slots[slot] = TENSOR(context, context.allocate(nbytes), 0, lay)
        for slot, of, lay, delta in views:
            t = slots[of]
            slots[slot] = TENSOR(context, t._storage, t._offset + delta, lay)
        tensors = pick(slots)[:-1]
        places = [None if t is None else t._location for t in tensors]
        launch((kernel, options, *places), tensors, scalars)
        for slot in last:
            slots[slot] = None
    for slot, nbytes, lay in kept.new:
        slots[slot] = TENSOR(context, context.allocate(nbytes), 0, lay)
    for slot, of, lay, delta in kept.views:
        t = slots[of]
        slots[slot] = TENSOR(context, t._storage, t._offset + delta, lay)
    form = kept.result
    return slots[form] if form.__class__ is int else _made(form, slots)


def _made(form: Any, slots: Sequence[Any]) -> Any:
    """The result, built from its kept form."""
    if form.__class__ is int:
        return slots[form]
    kind, parts = form
    return kind([_made(p, slots) for p in parts])
