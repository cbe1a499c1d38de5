"""A call that was not seen before: checked completely, planned, and prepared for recording."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from .dtypes import DTypeName
from .errors import AliasError, DTypeError, LimitError, PyKernelsError, ShapeError
from .faults import PAGE_BYTES, Watch
from .layout import View
from .overlap import decide, overlaps_itself, rounded, share_elements
from .plan import Arg, Bound, Caps, Kernel, Mode, Scratch, Step
from .recorder import SLOT_BYTES

if TYPE_CHECKING:
    from .device import Device
    from .tensor import Tensor

__all__ = ["Dispatch", "Prepared", "prepare", "wrong_type"]

MAX_INDEX = (1 << 31) - 1
NULL = -(1 << 30)  # the slot of an optional tensor that was not given
FAULTS = NULL - 1  # the slot of the page of faults


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One step, ready to be recorded: everything that does not depend on the buffers."""

    label: str
    refs: tuple[tuple[Any, int, int], ...]  # entry, slot, offset from the tensor's
    uniform_entry: Any
    descriptor: Any  # of the bind group: its entries are filled in per launch
    keep: tuple[Any, ...]
    pipeline_raw: Any
    grid_x: int
    grid_y: int
    prefix: bytes
    nbytes: int  # bound by the storage bindings
    pack_into: Callable[..., None]  # writes the scalars of the call behind `prefix`
    pick: tuple[int, ...] | None  # scalars of the call that this step takes; None: all
    operations: int = 0  # of the whole call, at its last step
    op: str = ""  # the kernel
    watch: Watch | None = None  # the launch takes a slot for what it finds wrong
    page_entry: Any = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A cached plan: dispatches, scratch sizes, and inputs or outputs to be replaced first."""

    dispatches: tuple[Dispatch, ...] = ()
    scratch: tuple[int, ...] = ()
    detour: tuple[tuple[int, DTypeName], ...] = ()  # argument, dtype of its stand-in


def wrong_type(kernel: Kernel, tensors: Sequence[object]) -> PyKernelsError:
    from .tensor import Tensor

    for arg, t in zip(kernel.args, tensors, strict=True):
        if not isinstance(t, Tensor) and not (t is None and arg.optional):
            return DTypeError(
                f"[{kernel.name}] {arg.name} must be a pykernels.Tensor but is {type(t).__name__}"
            )
    raise AssertionError("unreachable")


def prepare(
    device: Device, kernel: Kernel, tensors: tuple[Tensor | None, ...], options: tuple[Any, ...]
) -> Prepared:
    args = dict(zip(kernel.args, tensors, strict=True))
    _check_tensors(kernel, args)
    _check_shapes(kernel, args)
    caps = device._caps
    if not caps.f16 and not kernel.moves_bytes:
        halves: list[tuple[int, DTypeName]] = [
            (i, "float32")
            for i, (arg, t) in enumerate(args.items())
            if t is not None and t.dtype == "float16" and "float32" in arg.dtypes
        ]
        if halves:
            return Prepared(detour=tuple(halves))
    views, shared = _views(kernel, tensors, caps)
    crowded = _crowded(kernel, views, tensors, caps.alignment)
    if crowded:
        return Prepared(detour=crowded)
    mode, copies = decide(
        kernel.args, {k: v for k, v in views.items() if v}, shared, caps.alignment, caps.max_binding
    )
    if copies:
        names = [a.name for a in kernel.args]
        return Prepared(
            detour=tuple((names.index(n), cast(DTypeName, args_dtype(views, n))) for n in copies)
        )
    scratch = Scratch()
    try:
        steps = kernel.plan(caps, scratch, *views.values(), *options)
    except LimitError as e:
        raise LimitError(f"[{kernel.name}] {e}") from None
    bases = [v.offset if v else 0 for v in views.values()]
    dispatches = [
        _lower(device, kernel, step, mode, set(shared), bases) for step in steps if step.groups > 0
    ]
    if dispatches:
        named = dict(zip(kernel.options, options, strict=True))
        operations = kernel.operations(*views.values(), **named)
        dispatches[-1] = replace(dispatches[-1], operations=operations)
    return Prepared(tuple(dispatches), tuple(scratch.sizes))


def _crowded(
    kernel: Kernel, views: dict[str, View | None], tensors: tuple[Tensor | None, ...], align: int
) -> tuple[tuple[int, DTypeName], ...]:
    """Outputs whose windows touch that of a later one: two of them cannot be writable at once."""
    outs = [
        (i, v, t)
        for i, (arg, v, t) in enumerate(zip(kernel.args, views.values(), tensors, strict=True))
        if arg.role == "out" and v is not None and t is not None and v.size
    ]
    found: list[tuple[int, DTypeName]] = []
    for n, (i, view, t) in enumerate(outs):
        for j, later, other in outs[n + 1 :]:
            if t._block is not other._block:
                continue
            if share_elements(view, later):
                raise AliasError(
                    f"[{kernel.name}] {kernel.args[i].name} and {kernel.args[j].name} share "
                    "elements: outputs need memory of their own"
                )
            (a0, a1), (b0, b1) = rounded(view, align), rounded(later, align)
            if (a0 < b1 and b0 < a1) and (i, view.dtype.name) not in found:
                found.append((i, view.dtype.name))
    return tuple(found)


def args_dtype(views: dict[str, View | None], name: str) -> str:
    view = views[name]
    assert view is not None
    return view.dtype.name


def _check_tensors(kernel: Kernel, args: dict[Arg, Tensor | None]) -> None:
    from .tensor import Tensor

    op = kernel.name
    same: dict[str, Arg] = {}
    for arg, t in args.items():
        if t is None and arg.optional:
            continue
        if not isinstance(t, Tensor):
            raise wrong_type(kernel, tuple(args.values()))
        if t.dtype not in arg.dtypes:
            allowed = " or ".join(arg.dtypes)
            raise DTypeError(f"[{op}] {arg.name} must be {allowed} but is {t.dtype}")
        if arg.same:
            first = same.setdefault(arg.same, arg)
            other = args[first]
            if other is not None and other.dtype != t.dtype:
                raise DTypeError(
                    f"[{op}] {arg.name} must have the dtype of {first.name}, {other.dtype}, "
                    f"but is {t.dtype}"
                )
        if arg.role == "out" and overlaps_itself(t._layout):
            raise AliasError(
                f"[{op}] {arg.name} is broadcast or overlaps itself (shape {t.shape}, strides "
                f"{t.strides}): an output needs memory of its own for each element"
            )


def _check_shapes(kernel: Kernel, args: dict[Arg, Tensor | None]) -> None:
    op = kernel.name
    by_name = {a.name: t for a, t in args.items()}
    for arg, t in args.items():
        if t is None:
            continue
        if arg.like:
            other = by_name[arg.like]
            if other is not None and other.shape != t.shape:
                raise ShapeError(
                    f"[{op}] {arg.name} must have the shape of {arg.like}, {other.shape}, "
                    f"but has shape {t.shape}"
                )
        if arg.expand:
            target = by_name[arg.expand]
            assert target is not None
            shape = (1,) * (target.ndim - t.ndim) + t.shape
            pairs = zip(shape, target.shape, strict=False)
            if len(shape) != target.ndim or any(n not in (1, m) for n, m in pairs):
                raise ShapeError(
                    f"[{op}] {arg.name} must broadcast to {target.shape} but has shape {t.shape}"
                )
        if arg.broadcast:
            target = by_name[arg.broadcast]
            assert target is not None
            if not repeats_to(t.shape, target.shape):
                raise ShapeError(
                    f"[{op}] {arg.name} must broadcast to {target.shape} but has shape {t.shape}"
                )


def repeats_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """numpy's broadcast, or ggml's: a leading axis may repeat if its size divides the target's."""
    if len(shape) > len(target):
        return False
    pairs = list(zip(shape, target[len(target) - len(shape) :], strict=True))
    if not pairs:
        return True
    n, m = pairs[-1]
    return n in (1, m) and all(a == b or (a > 0 and b % a == 0) for a, b in pairs[:-1])


def _views(
    kernel: Kernel, tensors: tuple[Tensor | None, ...], caps: Caps
) -> tuple[dict[str, View | None], list[str]]:
    """What the plan sees; and the inputs that live in an output's buffer."""
    align = caps.alignment
    origins: dict[int, int] = {}
    for arg, t in zip(kernel.args, tensors, strict=True):
        if arg.role == "out" and t is not None:
            origins.setdefault(id(t._block), t._offset // align * align)
    views: dict[str, View | None] = {}
    shared = []
    for slot, (arg, t) in enumerate(zip(kernel.args, tensors, strict=True)):
        if t is None:
            views[arg.name] = None
            continue
        origin = origins.get(id(t._block), t._offset // align * align)
        lay = t._layout
        views[arg.name] = View(
            slot, lay.dtype, lay.shape, lay.strides, t._offset - origin, t._padded
        )
        if arg.role == "in" and id(t._block) in origins and lay.size:
            shared.append(arg.name)
    return views, shared


def _lower(
    device: Device,
    kernel: Kernel,
    step: Step,
    mode: Mode,
    shared: set[str],
    bases: Sequence[int],
) -> Dispatch:
    """Binding windows, params and pipeline of one step.

    `bases` holds each tensor's first byte from its origin: a launch adds the tensor's offset.
    """
    caps = device._caps
    slots = {a.name: i for i, a in enumerate(kernel.args)}
    inside = {slots[name] for name in shared}
    writes = {b.view.slot for b in step.bound if b.role == "out" and b.view}
    outputs = {i for i, a in enumerate(kernel.args) if a.role == "out"}
    touches = any(b.view and b.view.slot in inside for b in step.bound if b.role == "in")
    if not (touches and writes & outputs):
        mode = "read"
    skip: Bound | None = None
    union: tuple[int, int] | None = None
    if mode == "merged":
        out = next(b for b in step.bound if b.role == "out" and b.alias)
        skip = next(b for b in step.bound if b.name == out.alias)
        (a0, a1), (b0, b1) = (_window(b, caps.alignment) for b in (skip, out))
        union = min(a0, b0), max(a1, b1)
    where: list[tuple[int, int, int]] = []
    offsets: list[int] = []
    nulls = 0
    for b in step.bound:
        if b.view is None:
            offsets.append(0)
            where.append((NULL, 256 * nulls, max(b.unit, 16)))
            nulls += 1
            continue
        start, end = _window(b, caps.alignment)
        if union is not None and (b is skip or b.role == "out"):
            start, end = union
        if end - start > caps.max_binding:
            raise LimitError(
                f"[{kernel.name}] {b.name} spans {end - start} bytes, but one binding of this "
                f"device holds {caps.max_binding}"
            )
        index = (b.view.offset - start) // b.elem
        if (end - start) // b.elem > MAX_INDEX:
            raise LimitError(f"[{kernel.name}] {b.name} has offsets beyond 2^31 elements")
        offsets.append(index)
        if b is not skip:
            delta = start if b.view.slot < 0 else start - bases[b.view.slot]
            where.append((b.view.slot, delta, end - start))
    return _dispatch(device, kernel, step, mode, where, offsets)


def _window(b: Bound, alignment: int) -> tuple[int, int]:
    """First and last byte of a binding, in whole elements of the bound array and whole words."""
    assert b.view is not None
    lo, hi = b.view.window
    start = lo // alignment * alignment
    end = start + max(-(-(hi - start) // b.unit), 1) * b.unit
    return start, -(-end // 4) * 4


def _dispatch(
    device: Device,
    kernel: Kernel,
    step: Step,
    mode: Mode,
    where: list[tuple[int, int, int]],
    offsets: list[int],
) -> Dispatch:
    caps = device._caps
    key = step.body.key(step.axes, mode)
    writable = tuple(
        b.role == "out" or (mode == "rw" and not b.readonly)
        for b in step.bound
        if not (mode == "merged" and b.role == "in" and _aliased(step, b))
    )
    nbytes = sum(size for _, _, size in where)
    prefix, scalars = step.prefix(offsets), "<" + step.body.args_format
    if step.body.faults:
        where = [*where, (FAULTS, 0, PAGE_BYTES)]
        writable = (*writable, True)
        if step.watch is None:
            prefix += bytes(4)
        else:
            scalars = "<I" + step.body.args_format
    pipeline, layout = device._pipelines.get(step.body.name, key, writable)
    ffi = device._engine.ffi
    entries = ffi.new("WGPUBindGroupEntry[]", len(where) + 1)
    refs = []
    for i, (slot, delta, size) in enumerate(where):
        entries[i].binding = i
        if slot < 0:  # nobody else sets it
            entries[i].offset = delta
        entries[i].size = size
        if slot == NULL:
            entries[i].buffer = device._null.handle
        elif slot == FAULTS:
            pass  # each recorder has a page of its own
        else:
            refs.append((entries + i, slot, delta))
    uniform = entries + len(where)
    uniform.binding = len(where)
    uniform.size = SLOT_BYTES
    descriptor = ffi.new("WGPUBindGroupDescriptor *")
    descriptor.layout = layout._internal
    descriptor.entryCount = len(where) + 1
    descriptor.entries = entries
    grid_x, grid_y = fold(kernel.name, step.groups, caps.max_groups)
    names = list(kernel.scalars)
    unknown = set(step.body.args) - set(names)
    if unknown:
        raise PyKernelsError(f"[{kernel.name}] body {step.body.name} wants scalars {unknown}")
    picked = tuple(names.index(n) for n in step.body.args)
    return Dispatch(
        label=f"{step.body.name} {key}",
        refs=tuple(refs),
        uniform_entry=uniform,
        descriptor=descriptor,
        keep=(pipeline, layout, entries),
        pipeline_raw=pipeline._internal,
        grid_x=grid_x,
        grid_y=grid_y,
        prefix=prefix,
        nbytes=nbytes,
        pack_into=struct.Struct(scalars).pack_into,
        pick=None if picked == tuple(range(len(names))) else picked,
        op=kernel.name,
        watch=step.watch,
        page_entry=entries + (len(where) - 1) if step.body.faults else None,
    )


def _aliased(step: Step, b: Bound) -> bool:
    return any(o.role == "out" and o.alias == b.name for o in step.bound)


def fold(op: str, groups: int, limit: int) -> tuple[int, int]:
    """A linear number of workgroups as a grid: x in full, or rows of 32768 (`group_id`)."""
    if groups <= limit:
        return groups, 1
    rows = -(-groups // 32768)
    if rows > 65535:
        raise LimitError(f"[{op}] {groups} workgroups are more than a grid of 32768 x 65535")
    return 32768, rows
