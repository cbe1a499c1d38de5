"""The launcher: a call -> its dispatches (cached) -> bind groups (cached) -> one dispatch site."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Sequence
from threading import get_ident
from typing import Any

from pykernels.errors import ArgumentError, BufferStateError, PyKernelsError
from pykernels.plan import Kernel

from .bind_groups import Record
from .checks import wrong_type
from .context import Context
from .dispatch import Dispatch
from .handle import Handle
from .prepare import prepare
from .recorder import Recorder

__all__ = ["launch", "run", "wrong_type"]

MAX_PLANS = 16384


def run(
    kernel: Kernel,
    tensors: tuple[Handle | None, ...],
    scalars: tuple[float, ...] = (),
    options: tuple[Any, ...] = (),
) -> None:
    """Run one call of a kernel: checked completely before anything is recorded."""
    try:
        key = (kernel, options, *[None if t is None else t._location for t in tensors])
    except AttributeError:
        raise wrong_type(kernel, tensors) from None
    launch(key, tensors, scalars)


def launch(
    key: tuple[Any, ...], tensors: tuple[Handle | None, ...], scalars: tuple[float, ...]
) -> None:
    """What `run` does, where the caller has made the key of the call: a third of the time.

    `key` is the kernel, its options, and the location of each tensor.
    """
    context = tensors[-1]._context  # type: ignore[union-attr]
    if context.guarded:
        context.check()
    lock = context.lock
    lock.acquire()  # half the cost of a with statement
    try:
        recorder: Recorder = context.recorder
        if context.passes:
            recorder = context.passes.get(get_ident(), recorder)
        try:
            records = context.bind_groups.entries.get(key)
        except TypeError:
            raise ArgumentError(f"[{key[0].name}] unusable options {key[1]!r}") from None
        if records is None or recorder is not context.recorder:
            _launch_cold(context, recorder, key, tensors, scalars)
            return
        for d, group, blocks in records:
            pick = d.pick
            given = scalars if pick is None else [scalars[i] for i in pick]
            recorder.dispatch(d, group, blocks, given)
        if context.debug:
            _submit_alone(key[0], [d for d, _, _ in records], recorder)
    except (struct.error, OverflowError):
        raise _wrong_scalar(key[0], scalars) from None
    finally:
        lock.release()


def _launch_cold(
    context: Context,
    recorder: Recorder,
    key: tuple[Any, ...],
    tensors: tuple[Handle | None, ...],
    scalars: tuple[float, ...],
) -> None:
    """A launch on views that were not seen before: its bind groups are new."""
    kernel: Kernel = key[0]
    options = key[1]
    plan_key = _plan_key(context, kernel, tensors, options)
    prepared = context.plans.get(plan_key)
    if prepared is None:
        prepared = prepare(context, kernel, tensors, options)
        if len(context.plans) >= MAX_PLANS:
            context.plans.clear()
        context.plans[plan_key] = prepared
    temps = [context.pool.take(n)[0] for n in prepared.scratch]
    records: list[Record] = []
    kept = False
    try:
        for d in prepared.dispatches:
            blocks = tuple(
                tensors[slot]._block if slot >= 0 else temps[~slot].block  # type: ignore[union-attr]
                for _, slot, _ in d.refs
            )
            records.append((d, recorder.bind(d, tensors, temps), blocks))
            given = scalars if d.pick is None else [scalars[i] for i in d.pick]
            recorder.dispatch(*records[-1], given)
        owned = not temps and not any(b.foreign for _, _, blocks in records for b in blocks)
        if owned and recorder is context.recorder:
            context.bind_groups.add(key, tuple(records))
            kept = True
    finally:
        if not kept:
            for _, group, _ in records:
                context.engine.lib.wgpuBindGroupRelease(group)
    if context.debug:
        _submit_alone(kernel, prepared.dispatches, recorder)


def _plan_key(
    context: Context,
    kernel: Kernel,
    tensors: tuple[Handle | None, ...],
    options: tuple[Any, ...],
) -> tuple[Any, ...]:
    """All that the dispatches of a call depend on: layouts, phases, who shares a buffer, and what
    plans are told to take."""
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
    """Where tensors lie in the buffers of outputs other than dst: output, tensor, distance."""
    found = []
    for i, arg in enumerate(kernel.args[:-1]):
        out = tensors[i]
        if arg.role == "in" or out is None:
            continue
        for j, t in enumerate(tensors):
            if t is not None and j != i and t._block is out._block:
                found += [i, j, t._offset - out._offset]
    return found


def _wrong_scalar(kernel: Kernel, scalars: Sequence[object]) -> PyKernelsError:
    given = ", ".join(f"{n}={v!r}" for n, v in zip(kernel.scalars, scalars, strict=True))
    return ArgumentError(f"[{kernel.name}] scalar arguments must be numbers that fit: {given}")


def _submit_alone(kernel: Kernel, dispatches: Iterable[Dispatch], recorder: Recorder) -> None:
    """PYKERNELS_DEBUG: say what was launched, and submit it by itself."""
    for d in dispatches:
        line = f"pykernels: {d.op}: {d.label} grid {d.grid_x}x{d.grid_y}"
        print(line, file=sys.stderr)
    try:
        recorder.flush()
    except PyKernelsError as e:
        raise type(e)(f"[{kernel.name}] {e}") from None
