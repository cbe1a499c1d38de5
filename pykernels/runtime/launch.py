"""The launcher: a call -> its dispatches (cached) -> bind groups (cached) -> the queue."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import Any

from pykernels.errors import ArgumentError, BufferStateError, LimitError, PyKernelsError
from pykernels.lazy import load
from pykernels.steps import Kernel
from pykernels.wgsl.watch import SLOTS

from .bound import MAX_LAUNCHES, Call, bind, unbound
from .checks import wrong_type
from .context import Context
from .dispatch import Prepared
from .faults import Crowded
from .handle import Handle
from .observe import live, observe
from .owners import Check, Owner, check_of, inherited
from .prepare import prepare

__all__ = ["launch", "run", "wrong_type"]

MAX_PLANS = 16384


def run(
    kernel: Kernel,
    tensors: tuple[Handle | None, ...],
    scalars: tuple[float, ...] = (),
    options: tuple[Any, ...] = (),
) -> None:
    """Run one call of a kernel. It is checked completely before anything is recorded."""
    try:
        key = (kernel, options, *[None if t is None else t._location for t in tensors])
    except AttributeError:
        raise wrong_type(kernel, tensors) from None
    launch(key, tensors, scalars)


def launch(
    key: tuple[Any, ...], tensors: tuple[Handle | None, ...], scalars: tuple[float, ...],
    observed: bool = False,
) -> None:  # fmt: skip
    """Like `run`, but the caller has made the key of the call: this takes a third of the time.

    `key` is the kernel, its options, and the location of each tensor; `scalars` are plain numbers.
    `observed`: the tapes know the call already.
    """
    if live and not observed:
        observe(launch, key, tensors, scalars)
        return
    context: Context = tensors[-1]._context  # type: ignore[union-attr]
    if context.guarded:
        context.check()
        if context.debugging is not None and load("pykernels.raw.records").recorded_launch(
            context, key, tensors, scalars
        ):
            return
        if context.checks_indices and load("pykernels.raw.checking").checked_launch(
            context, key, tensors, scalars
        ):
            return
    try:
        with context.lock:
            try:
                call = context.calls.entries.get(key)
            except TypeError:
                raise ArgumentError(f"[{key[0].name}] unusable options {key[1]!r}") from None
            try:
                if call is None or call.watched:
                    call = _launch_checked(context, key, tensors, scalars, call)
                elif (
                    context.noted and (context.scopes or not context.faults.open)
                ) or not context.recorder.record(call, scalars):
                    call = _launch_slow(context, key, tensors, scalars, call)
                elif context.noted:
                    _pass_on(context, call, tensors)
            except (struct.error, OverflowError):
                # pykernels itself passed these numbers, not the caller
                if not scalars and not key[1]:
                    raise
                raise _wrong_scalar(key[0], scalars, key[1]) from None
            if context.debug and call is not None:
                _submit_alone(context, key[0], call)
    except Crowded:
        trace = context.tracing() if context.scopes else None
        if trace is not None:
            trace.spoil()  # the trace would see this launch twice, because it starts again
        context.transfers.poll()  # the lock is not held while it waits
        launch(key, tensors, scalars, True)


def _launch_checked(
    context: Context, key: tuple[Any, ...], tensors: tuple[Handle | None, ...],
    scalars: tuple[float, ...], call: Call | None,
) -> Call | None:  # fmt: skip
    """Repeat an earlier launch that reports indices out of range, outside of captures. Other
    launches take the slow path."""
    if call is not None and not context.scopes and not context.dead:
        owner = context.caller()
        check = check_of(owner, call.keeps)
        if context.recorder.record(call, scalars, check):
            _name(context, call, tensors, owner, check)
            return call
    return _launch_slow(context, key, tensors, scalars, call)


def _launch_slow(
    context: Context,
    key: tuple[Any, ...],
    tensors: tuple[Handle | None, ...],
    scalars: tuple[float, ...],
    known: Call | None,
) -> Call | None:
    """Record a launch outside the device's batches, or a launch with new views, which need new bind
    groups. Returns None if the launch is held until the end of a call."""
    if context.dead:
        context.check()  # the device may have been closed while this thread waited for the lock
    context.settle()
    recorder: Any = context.recorder
    if context.scopes:
        recorder = context.recorder_of(key[0].name)
        held = context.held() if recorder is context.recorder else None
        if held is not None:
            held.launch(launch, _prepared(context, key[0], tensors, key[1]), key, tensors, scalars)
            return None
        trace = context.tracing()
        if trace is not None:
            trace.launched(key, tensors, scalars)
    own, owner = recorder is context.recorder, context.caller()
    if known is not None and own:
        check = _check(known, owner)
        if recorder.record(known, scalars, check):
            _tell(context, known, tensors, owner, check)
            return known
    prepared = _prepared(context, key[0], tensors, key[1])
    scratch, page = recorder.room(prepared, tensors)
    make = bind if own or recorder.arena is None else unbound
    call = make(context, prepared, tensors, scratch, recorder.params, page)
    check = _check(call, owner)
    recorder.record(call, scalars, check)
    if own and not any(b.foreign for b in call.blocks):
        context.calls.add(key, call)
    if own or recorder.arena is None:  # a capture runs nothing
        _tell(context, call, tensors, owner, check)
    return call


def _tell(
    context: Context, call: Call, tensors: tuple[Handle | None, ...], owner: Owner,
    check: Check | None,
) -> None:  # fmt: skip
    """Store the facts about a launch that later readers of its results need."""
    if check is not None:
        _name(context, call, tensors, owner, check)
    elif context.faults.open:
        _pass_on(context, call, tensors)


def _check(call: Call, owner: Owner) -> Check | None:
    """The record of a call that reports indices out of range; None for another call."""
    return check_of(owner, call.keeps) if call.watched else None


def _pass_on(context: Context, call: Call, tensors: tuple[Handle | None, ...]) -> None:
    """Let the outputs of an unchecked call name the checked calls that their values come from."""
    found: tuple[Check, ...] = ()
    several = False
    for i in call.inputs:
        checks = tensors[i]._storage.checks  # type: ignore[union-attr]
        if checks and checks is not found:
            several = bool(found)
            found += checks
    if found and (several or any([c.keeps or not c.open for c in found])):
        found = inherited(found, context.caller(), None)
    for i in call.outputs:
        tensors[i]._storage.checks = found  # type: ignore[union-attr]


def _name(
    context: Context, call: Call, tensors: tuple[Handle | None, ...], owner: Owner, check: Check
) -> None:
    """Like `_pass_on`, for a checked call: its own check is added."""
    found: tuple[Check, ...] = ()
    for i in call.named:
        found += tensors[i]._storage.checks  # type: ignore[union-attr]
    named = inherited(found, owner, check) if found else (check,)
    for i in call.outputs:
        tensors[i]._storage.checks = named  # type: ignore[union-attr]
    context.noted = True


def _prepared(
    context: Context,
    kernel: Kernel,
    tensors: tuple[Handle | None, ...],
    options: tuple[Any, ...],
) -> Prepared:
    """The dispatches of a call, cached by the layouts of its tensors."""
    plan_key = _plan_key(context, kernel, tensors, options)
    prepared = context.plans.get(plan_key)
    if prepared is None:
        prepared = prepare(context, kernel, tensors, options)
        count, watched = len(prepared.dispatches), len(prepared.watched)
        if count > MAX_LAUNCHES or watched > SLOTS:
            raise LimitError(
                f"[{kernel.name}] the call needs {count} dispatches, {watched} of them with "
                f"checked indices: one batch holds {MAX_LAUNCHES} and {SLOTS}"
            )
        if prepared.textures:
            return prepared
        if len(context.plans) >= MAX_PLANS:
            context.plans.clear()
        context.plans[plan_key] = prepared
    return prepared


def _plan_key(
    context: Context,
    kernel: Kernel,
    tensors: tuple[Handle | None, ...],
    options: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Everything that the dispatches of a call depend on: layouts, offsets within the alignment,
    distances inside of shared buffers, and forced choices of plans."""
    dst = tensors[-1]
    assert dst is not None
    block, base = dst._block, dst._offset
    caps = context.caps
    parts: list[Any] = [kernel, options, caps.tuning, caps.forced, dst._key]
    for t in tensors[:-1]:
        if t is None:
            parts.append(None)
            continue
        if t._context is not context:
            raise BufferStateError(f"[{kernel.name}] tensors of two devices in one call")
        parts.append(t._key)
        if t._block is block:
            parts.append(t._offset - base)
    if sum(arg.role == "out" for arg in kernel.args) > 1:
        parts += _neighbours(kernel, tensors)
    return tuple(parts)


def _neighbours(kernel: Kernel, tensors: tuple[Handle | None, ...]) -> list[int]:
    """For each output other than dst, the other tensors in its buffer: the number of the output,
    the number of the tensor, and the distance of their offsets in bytes."""
    found = []
    for i, arg in enumerate(kernel.args[:-1]):
        out = tensors[i]
        if arg.role == "in" or out is None:
            continue
        for j, t in enumerate(tensors):
            if t is not None and j != i and t._block is out._block:
                found += [i, j, t._offset - out._offset]
    return found


def _wrong_scalar(
    kernel: Kernel, scalars: Sequence[object], options: Sequence[object]
) -> PyKernelsError:
    names, values = (*kernel.scalars, *kernel.options), (*scalars, *options)
    given = ", ".join(f"{n}={v!r}" for n, v in zip(names, values, strict=True))
    return ArgumentError(f"[{kernel.name}] scalar arguments must be numbers that fit: {given}")


def _submit_alone(context: Context, kernel: Kernel, call: Call) -> None:
    """PYKERNELS_DEBUG: print the launch, and submit it by itself."""
    for d in call.prepared.dispatches:
        line = f"pykernels: {d.op}: {d.label} grid {'x'.join(map(str, d.grid))}"
        print(line, file=sys.stderr)
    try:
        context.recorder.flush()
    except PyKernelsError as e:
        raise type(e)(f"[{kernel.name}] {e}") from None
