"""From a step of a plan to a dispatch: binding windows, params and pipeline."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from pykernels.contract import PARAMS_BYTES
from pykernels.errors import LimitError, PyKernelsError
from pykernels.steps import Bound, Kernel, Mode, Step
from pykernels.wgsl.watch import PAGE_BYTES

from .context import Context
from .dispatch import Dispatch, fold

__all__ = ["lower"]

MAX_INDEX = (1 << 31) - 1
NULL = -(1 << 30)  # the slot of an optional tensor that was not given
FAULTS = NULL - 1  # the slot of the page of faults


def lower(
    context: Context,
    kernel: Kernel,
    step: Step,
    mode: Mode,
    bases: Mapping[int, int],
    scalars: Sequence[str],
) -> Dispatch:
    """One step of a kernel's plan, ready to be recorded.

    `bases` holds, for each slot, the byte from which the windows of its view are counted. A launch
    adds the tensor's offset; a temporary has no offset. `scalars` are the call's scalars, in order.
    """
    caps = context.caps
    skip: Bound | None = None
    into: Bound | None = None  # the output that `skip` shares a binding with
    union: tuple[int, int] | None = None
    if mode == "merged":
        into = next(b for b in step.bound if b.role == "out" and b.alias)
        skip = next(b for b in step.bound if b.name == into.alias)
        (a0, a1), (b0, b1) = (_window(b, caps.alignment) for b in (skip, into))
        union = min(a0, b0), max(a1, b1)
    windows: list[tuple[int, int, int]] = []  # slot, first byte, size
    indices: list[int] = []
    nulls = 0
    for b in step.bound:
        if b.view is None:
            indices.append(0)
            windows.append((NULL, PARAMS_BYTES * nulls, max(b.unit, 16)))
            nulls += 1
            continue
        start, end = _window(b, caps.alignment)
        if union is not None and (b is skip or b is into):
            start, end = union
        if end - start > caps.max_binding:
            raise LimitError(
                f"[{kernel.name}] {b.name} spans {end - start} bytes, but one binding of this "
                f"device holds {caps.max_binding}"
            )
        if (end - start) // b.elem > MAX_INDEX:
            raise LimitError(f"[{kernel.name}] {b.name} has offsets beyond 2^31 elements")
        indices.append((b.view.offset - start) // b.elem)
        if b is not skip:
            windows.append((b.view.slot, start - bases.get(b.view.slot, 0), end - start))
    pick = _pick(kernel, step, scalars)
    return _dispatch(context, kernel, step, mode, windows, indices, pick)


def _window(b: Bound, alignment: int) -> tuple[int, int]:
    """The first byte of a binding, and the byte after its last one. The binding has whole elements
    of the bound array, and whole words."""
    assert b.view is not None
    lo, hi = b.view.window
    start = lo // alignment * alignment
    end = start + max(-(-(hi - start) // b.unit), 1) * b.unit
    return start, -(-end // 4) * 4


def _dispatch(
    context: Context,
    kernel: Kernel,
    step: Step,
    mode: Mode,
    windows: Sequence[tuple[int, int, int]],
    indices: Sequence[int],
    pick: tuple[int, ...] | None,
) -> Dispatch:
    body = step.body
    key = body.key(step.axes, mode)
    writable = tuple(
        b.role == "out" or (mode == "rw" and not b.readonly)
        for b in step.bound
        if not (mode == "merged" and b.role == "in" and _aliased(step, b))
    )
    nbytes = sum(size for _, _, size in windows)
    formats = "" if step.scalars else body.args_format
    prefix, scalars = step.prefix(indices), "<" + formats
    if body.faults:
        windows = [*windows, (FAULTS, 0, PAGE_BYTES)]
        writable = (*writable, True)
        if step.watch is None:
            prefix += bytes(4)
        else:
            scalars = "<I" + formats
    kinds = tuple(r.kind for r in step.resources)
    pipeline, layout = context.pipelines.get(body.name, key, writable, kinds)
    ffi = context.engine.ffi
    count = len(windows) + 1 + len(step.resources)
    entries = ffi.new("WGPUBindGroupEntry[]", count)
    refs = []
    written = []
    for i, (slot, first, size) in enumerate(windows):
        entries[i].binding = i
        if slot == NULL or slot == FAULTS:  # a launch does not set this entry
            entries[i].offset = first
        entries[i].size = size
        if slot == NULL:
            entries[i].buffer = context.null.handle
        elif slot == FAULTS:
            pass  # each recorder binds its own page
        else:
            refs.append((entries + i, slot, first))
            written.append(writable[i])
    uniform = entries + len(windows)
    uniform.binding = len(windows)
    uniform.size = PARAMS_BYTES
    for i, resource in enumerate(step.resources, len(windows) + 1):
        entries[i].binding = i
        if resource.block is None:
            entries[i].sampler = resource.thing._internal
        else:
            entries[i].textureView = resource.block.handle
    descriptor = ffi.new("WGPUBindGroupDescriptor *")
    descriptor.layout = layout._internal
    descriptor.entryCount = count
    descriptor.entries = entries
    textures = tuple(r.block for r in step.resources if r.block is not None)
    grid = step.grid or (*fold(kernel.name, step.groups, context.caps.max_groups), 1)
    return Dispatch(
        label=f"{body.name} {key}",
        refs=tuple(refs),
        written=tuple(written),
        uniform_entry=uniform,
        descriptor=descriptor,
        keep=(layout, entries, step.resources),
        pipeline=pipeline,
        grid=grid,
        prefix=prefix,
        nbytes=nbytes + sum(t.size for t in textures),
        pack_into=struct.Struct(scalars).pack_into,
        pick=pick,
        formats=formats,
        op=kernel.name,
        watch=step.watch,
        page_entry=entries + (len(windows) - 1) if body.faults else None,
        textures=textures,
    )


def _pick(kernel: Kernel, step: Step, scalars: Sequence[str]) -> tuple[int, ...] | None:
    """The positions of the call's scalars that a step takes; None if it takes all, in order."""
    if step.scalars:
        return None if not scalars else ()
    names = list(scalars)
    unknown = set(step.body.args) - set(names)
    if unknown:
        raise PyKernelsError(f"[{kernel.name}] body {step.body.name} wants scalars {unknown}")
    picked = tuple(names.index(n) for n in step.body.args)
    return None if picked == tuple(range(len(names))) else picked


def _aliased(step: Step, b: Bound) -> bool:
    return any(o.role == "out" and o.alias == b.name for o in step.bound)
