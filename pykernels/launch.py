"""The launcher: array -> plan (cached) -> windows and params of this call -> one dispatch site."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any

from .errors import ArgumentError, BufferStateError, PyKernelsError
from .overlap import overlaps_itself
from .plan import Kernel
from .prepare import Dispatch, Prepared, prepare, wrong_type
from .recorder import Recorder

if TYPE_CHECKING:
    from .device import Device
    from .memory import Block
    from .tensor import Tensor

__all__ = ["key_of", "launch"]

MAX_PLANS = 16384


class Hot:
    """The bind groups of launches that may come again on the same views.

    Only buffers of the pool are in it, and it is cleared before the pool destroys any: it never
    keeps memory alive.
    """

    LIMIT = 8192

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.entries: dict[Any, tuple[tuple[Dispatch, Any, tuple[Block, ...]], ...]] = {}

    def add(self, key: Any, records: tuple[tuple[Dispatch, Any, tuple[Block, ...]], ...]) -> None:
        if len(self.entries) >= self.LIMIT:
            self.clear()
        self.entries[key] = records

    def clear(self) -> None:
        while self.entries:
            for _, group, _ in self.entries.popitem()[1]:
                self._lib.wgpuBindGroupRelease(group)

    def __del__(self) -> None:
        self.clear()


def key_of(
    kernel: Kernel, tensors: tuple[Tensor | None, ...], options: tuple[Any, ...] = ()
) -> tuple[Any, ...]:
    """What `launch` knows a call by: the kernel, its options, and where each tensor lies."""
    try:
        return (kernel, options, *[None if t is None else t._spot for t in tensors])
    except AttributeError:
        raise wrong_type(kernel, tensors) from None


def launch(
    key: tuple[Any, ...], tensors: tuple[Tensor | None, ...], scalars: tuple[float, ...]
) -> None:
    """Run one call of a kernel: checked completely before anything is recorded.

    `key` is `key_of(kernel, tensors, options)`; generated wrappers write it out, which takes a
    third of the time.
    """
    device = tensors[-1]._device  # type: ignore[union-attr]
    if device._guarded:
        device._check()
    lock = device._lock
    lock.acquire()  # half the cost of a with statement
    try:
        recorder: Recorder = device._recorder
        if device._external:
            recorder = device._external.get(get_ident(), recorder)
        try:
            records = device._hot.entries.get(key)
        except TypeError:
            raise ArgumentError(f"[{key[0].name}] unusable options {key[1]!r}") from None
        if records is None or recorder is not device._recorder:
            _launch_cold(device, recorder, key, tensors, scalars)
            return
        for d, group, blocks in records:
            pick = d.pick
            given = scalars if pick is None else [scalars[i] for i in pick]
            recorder.dispatch(d, group, blocks, given)
        if device._debug:
            device._debug_flush(key[0], [d for d, _, _ in records], recorder)
    except (struct.error, OverflowError):
        raise _wrong_scalar(key[0], scalars) from None
    finally:
        lock.release()


def _launch_cold(
    device: Device,
    recorder: Recorder,
    spot: tuple[Any, ...],
    tensors: tuple[Tensor | None, ...],
    scalars: tuple[float, ...],
) -> None:
    """A launch on views that were not seen before: the plan is cached, bind groups are new."""
    kernel: Kernel = spot[0]
    options = spot[1]
    dst = tensors[-1]
    assert dst is not None
    block, base = dst._block, dst._offset
    caps = device._caps
    parts: list[Any] = [kernel, options, caps.tuning, caps.forced, dst._key]
    for t in tensors[:-1]:
        if t is None:
            parts.append(None)
            continue
        if t._device is not device:
            raise BufferStateError(f"[{kernel.name}] tensors of two devices in one call")
        parts.append(t._key)
        if t._block is block:
            parts.append(t._offset - base)
    if sum(arg.role == "out" for arg in kernel.args) > 1:
        parts += _neighbours(kernel, tensors)
    key = tuple(parts)
    prepared = device._plans.get(key)
    if prepared is None:
        prepared = prepare(device, kernel, tensors, options)
        if len(device._plans) >= MAX_PLANS:
            device._plans.clear()
        device._plans[key] = prepared
    if prepared.detour:
        _run_detour(device, kernel, prepared, tensors, scalars, options)
        return
    temps = [device._pool.take(n)[0] for n in prepared.scratch]
    records: list[tuple[Dispatch, Any, tuple[Block, ...]]] = []
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
        if owned and recorder is device._recorder:
            device._hot.add(spot, tuple(records))
            kept = True
    finally:
        if not kept:
            for _, group, _ in records:
                device._engine.lib.wgpuBindGroupRelease(group)
    if device._debug:
        device._debug_flush(kernel, prepared.dispatches, recorder)


def _neighbours(kernel: Kernel, tensors: tuple[Tensor | None, ...]) -> list[int]:
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


def _run_detour(
    device: Device,
    kernel: Kernel,
    prepared: Prepared,
    tensors: tuple[Tensor | None, ...],
    scalars: tuple[float, ...],
    options: tuple[Any, ...],
) -> None:
    """The call with some tensors replaced by copies (another buffer, or f32 for f16)."""
    from .kernels import cpy

    replaced = list(tensors)
    for index, dtype in prepared.detour:
        t = tensors[index]
        assert t is not None
        if dtype == t.dtype:
            replaced[index] = _copy_alike(device, t)
            continue
        stand_in = device.empty(t.shape, dtype)
        if kernel.args[index].role == "in":
            cpy(t, stand_in)
        replaced[index] = stand_in
    stand_ins = tuple(replaced)
    launch(key_of(kernel, stand_ins, options), stand_ins, scalars)
    for index, _ in prepared.detour:
        target, result = tensors[index], replaced[index]
        if kernel.args[index].role == "out" and target is not None and result is not None:
            cpy(result, target)


def _copy_alike(device: Device, t: Tensor) -> Tensor:
    """A copy in another buffer with the same strides and the same phase, so that the same variant
    runs and the result has the same bits as without a shared buffer."""
    from .kernels import cpy
    from .tensor import Tensor

    lay = t._layout
    once = tuple(slice(0, 1) if s == 0 else slice(None) for s in lay.strides)
    single = t[once]  # each element once: broadcast axes would overlap as an output
    span = lay.hi - lay.lo
    if span > 4 * single.nbytes + 4096 or overlaps_itself(single._layout):
        return t.copy()
    align = device._caps.alignment
    storage, _ = device._pool.take(span + align + 16)
    like = Tensor(device, storage, (t._offset + lay.lo) % align - lay.lo, lay)
    cpy(single, like[once])
    return like
