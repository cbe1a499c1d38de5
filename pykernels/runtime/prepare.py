"""Checks a new call completely, plans it, and lowers it to dispatches.

If the device cannot use an argument directly, a temporary replaces it. It is float32 for a bf16
argument, and for an f16 argument on a device without f16; in other cases it is a copy of the
elements in separate memory. The context's kernel `copy` plans the copies like any other call, and
they become part of the prepared call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pykernels.dtypes import DTypeName
from pykernels.errors import LimitError
from pykernels.steps import Kernel, Mode, Scratch, Step
from pykernels.tensors.layout import View, extent

from .checks import check_arguments
from .context import Context
from .dispatch import Dispatch, Prepared
from .handle import Handle
from .lower import lower
from .observe import outputs
from .overlap import decide, overlaps_itself, rounded, share_elements

__all__ = ["prepare"]


@dataclass(frozen=True, slots=True)
class _Operand:
    """A tensor of the call, or the temporary that replaces it.

    The view's slot identifies it. Its offset counts from the start of the memory; operands with the
    same object `memory` share their memory.
    """

    view: View
    memory: object


def prepare(
    context: Context,
    kernel: Kernel,
    tensors: Sequence[Handle | None],
    options: tuple[Any, ...],
) -> Prepared:
    """The dispatches of a call. Raises the errors of the call's arguments."""
    check_arguments(kernel, tensors)
    call = _Call(context, kernel, tensors)
    mode = call.replace_arguments(options)
    own = call.plan(kernel, call.operands, options, mode)
    if own:
        views = call.frame(kernel, call.operands).views
        named = dict(zip(kernel.options, options, strict=True))
        operations = kernel.operations(*views.values(), **named)
        own[-1] = replace(own[-1], operations=operations)
    dispatches = (*call.copies(call.before), *own, *call.copies(call.after))
    scratch = tuple(call.scratch.sizes)
    keeps = any(arg.keeps for arg in kernel.args)
    return Prepared(dispatches, scratch, len(kernel.scalars), outputs(kernel), keeps)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The views that a plan gets; their offsets count from one origin for each memory.

    The origin is the offset of the first output in that memory or, if no output lies there, the
    offset of the tensor itself; it is rounded down to the alignment. `bases` holds for each slot
    the byte of its view from which a launch counts: the first element of a tensor, or the start of
    a temporary. `shared` are inputs in an output's memory.
    """

    views: dict[str, View | None]
    bases: dict[int, int]
    outputs: list[str]
    shared: list[str]


class _Call:
    """One call while it is prepared: its operands, and the copies before and after it."""

    def __init__(self, context: Context, kernel: Kernel, tensors: Sequence[Handle | None]) -> None:
        self.context = context
        self.kernel = kernel
        self.scratch = Scratch()
        self.operands = [_operand(slot, t) for slot, t in enumerate(tensors)]
        self.before: list[tuple[_Operand, _Operand]] = []  # source, target
        self.after: list[tuple[_Operand, _Operand]] = []
        # True if the union of windows is too large, so that each step has its own mode
        self.by_step = False

    # -- arguments that the device cannot use
    # ------------------------------------------------------------

    def replace_arguments(self, options: tuple[Any, ...]) -> Mode:
        """Replace arguments that the device cannot use. Returns the binding mode for the other
        arguments."""
        kernel, caps = self.kernel, self.context.caps
        for i in range(len(kernel.args)):
            if self._is_computed_in_f32(i):
                self._replace(i, "float32")
        touching = self._outputs_overlap()
        for i in () if touching and self._written_apart(options) else touching:
            self._replace(i)
        while True:
            frame = self.frame(kernel, self.operands)
            views = {name: v for name, v in frame.views.items() if v is not None}
            given = kernel.args, views, frame.shared, caps.alignment
            mode, names = decide(*given)
            if mode == "merged" and not names and decide(*given, caps.max_binding)[1]:
                self.by_step = True
                names = self._unbindable(frame, options)
            elif mode == "rw" and not names:
                names = self._readonly(frame, options)
            if not names:
                return mode
            for i, arg in enumerate(kernel.args):
                if arg.name in names:
                    self._replace(i)

    def _is_computed_in_f32(self, index: int) -> bool:
        """True if an argument has 16-bit floats that no shader for this device reads or writes."""
        operand, arg = self.operands[index], self.kernel.args[index]
        dtype = "" if operand is None else operand.view.dtype.name
        if dtype == "float16":
            lacks = not self.context.caps.f16 and not self.kernel.moves_bytes
            return lacks and "float32" in arg.dtypes
        return dtype == "bfloat16" and dtype not in arg.dtypes

    def _unbindable(self, frame: _Frame, options: tuple[Any, ...]) -> list[str]:
        """The inputs to copy if a step of the plan cannot bind its tensors without copies."""
        steps = self._steps(self.kernel, Scratch(), frame, options)
        return frame.shared if any(self._decide_step(s, frame)[1] for s in steps) else []

    def _readonly(self, frame: _Frame, options: tuple[Any, ...]) -> list[str]:
        """The inputs in an output's memory that a body of the plan can only bind as read-only."""
        steps = self._steps(self.kernel, Scratch(), frame, options)
        slots = {
            b.view.slot for s in steps for b in s.bound if b.readonly and b.role == "in" and b.view
        }
        return [name for name in frame.shared if (v := frame.views[name]) and v.slot in slots]

    def _outputs_overlap(self) -> list[int]:
        """Outputs whose windows touch the window of a later output: they cannot both be bound
        writable."""
        align = self.context.caps.alignment
        outputs = [
            (i, o.memory, rounded(o.view, align))
            for i, (arg, o) in enumerate(zip(self.kernel.args, self.operands, strict=True))
            if arg.role == "out" and o is not None and o.view.size
        ]
        return [
            i
            for n, (i, memory, window) in enumerate(outputs)
            if any(memory is m and window.overlaps(w) for _, m, w in outputs[n + 1 :])
        ]

    def _written_apart(self, options: tuple[Any, ...]) -> bool:
        """True if outputs share no element and no dispatch writes two of them, as for interleaved
        windows of one tensor: then each dispatch binds another output."""
        args = zip(self.kernel.args, self.operands, strict=True)
        outputs = [o for arg, o in args if arg.role == "out" and o is not None and o.view.size]
        for n, o in enumerate(outputs):
            later = [p for p in outputs[n + 1 :] if p.memory is o.memory]
            if any(share_elements(o.view, p.view) for p in later):
                return False
        slots = {o.view.slot for o in outputs if o.view.slot >= 0}
        frame = self.frame(self.kernel, self.operands)
        for step in self._steps(self.kernel, Scratch(), frame, options):
            written = [b for b in step.bound if b.role == "out" and b.view is not None]
            if sum(b.view.slot in slots for b in written if b.view is not None) > 1:
                return False
        return True

    def _replace(self, index: int, dtype: DTypeName | None = None) -> None:
        """Replace an argument by a temporary (of `dtype`, if given), and add the copies it
        needs."""
        operand, arg = self.operands[index], self.kernel.args[index]
        assert operand is not None
        stand_in = self._alike(operand) if dtype is None else None
        if stand_in is not None:
            self.before.append((_once(operand), _once(stand_in)))
        else:
            view = self._dense(operand.view, dtype or operand.view.dtype.name)
            stand_in = _Operand(view, view)
            has_old = arg.in_place or arg.keeps or arg.skips
            if dtype is None or arg.role == "in" or has_old:
                self.before.append((_once(operand), _once(stand_in)))
        if arg.role == "out":
            self.after.insert(0, (stand_in, operand))
        self.operands[index] = stand_in

    def _alike(self, operand: _Operand) -> _Operand | None:
        """A temporary with the same strides and the same offset within the alignment, so that the
        same variant runs and the result has the same bits as without a shared buffer. None if the
        temporary would be too large."""
        view, single = operand.view, _once(operand).view
        lo, hi = extent(view.shape, view.strides, view.dtype.itemsize)
        if hi - lo > 4 * single.nbytes + 4096 or overlaps_itself(single):
            return None
        align = self.context.caps.alignment
        slot = self.scratch.reserve(hi - lo + align + 16)
        alike = replace(view, slot=slot, offset=(view.offset + lo) % align - lo, padded=True)
        return _Operand(alike, alike)

    def _dense(self, view: View, dtype: DTypeName) -> View:
        """A temporary for the elements of a view, without gaps; its axes lie in memory in the same
        order as the view's axes, and a broadcast axis stays broadcast, so the copy reads memory in
        order."""
        order = sorted(range(view.ndim), key=lambda axis: -abs(view.strides[axis]))
        shape = [view.shape[a] if view.strides[a] or not view.shape[a] else 1 for a in order]
        found = self.scratch.empty(shape, dtype)
        steps = dict(zip(order, found.strides, strict=True))
        strides = [steps[a] if view.strides[a] else 0 for a in range(view.ndim)]
        return found.with_layout(view.shape, strides)

    # -- plans ------------------------------------------------------------------------------------

    def copies(self, pairs: Sequence[tuple[_Operand, _Operand]]) -> Iterator[Dispatch]:
        """The dispatches that copy the source of each pair to its target."""
        for pair in pairs:
            yield from self.plan(self.context.copy, pair, (), "read")

    def plan(
        self,
        kernel: Kernel,
        operands: Sequence[_Operand | None],
        options: tuple[Any, ...],
        mode: Mode,
    ) -> list[Dispatch]:
        """The dispatches of a kernel on operands."""
        frame = self.frame(kernel, operands)
        return [
            lower(
                self.context, kernel, s, self._mode_of(s, mode, frame), frame.bases,
                self.kernel.scalars,
            )
            for s in self._steps(kernel, self.scratch, frame, options)
        ]  # fmt: skip

    def _steps(
        self, kernel: Kernel, scratch: Scratch, frame: _Frame, options: tuple[Any, ...]
    ) -> list[Step]:
        """The steps that a kernel's plan returns for a frame."""
        try:
            steps = kernel.plan(self.context.caps, scratch, *frame.views.values(), *options)
        except LimitError as e:
            raise LimitError(f"[{kernel.name}] {e}") from None
        return [s for s in steps if s.groups > 0]

    def _mode_of(self, step: Step, mode: Mode, frame: _Frame) -> Mode:
        """The binding mode of one step, from the mode of its call."""
        if self.by_step:
            return self._decide_step(step, frame)[0]
        return mode if _shared(step, frame) else "read"

    def _decide_step(self, step: Step, frame: _Frame) -> tuple[Mode, list[str]]:
        """The result of `decide` for one step alone."""
        caps = self.context.caps
        views = {b.name: b.view for b in step.bound if b.view}
        return decide(step.bound, views, _shared(step, frame), caps.alignment, caps.max_binding)

    def frame(self, kernel: Kernel, operands: Sequence[_Operand | None]) -> _Frame:
        """The operands as the plan of a kernel sees them."""
        align = self.context.caps.alignment
        pairs = list(zip(kernel.args, operands, strict=True))
        origins: dict[int, int] = {}
        for arg, o in pairs:
            if arg.role == "out" and o is not None:
                origins.setdefault(id(o.memory), o.view.offset // align * align)
        frame = _Frame({}, {}, [a.name for a in kernel.args if a.role == "out"], [])
        for arg, o in pairs:
            if o is None:
                frame.views[arg.name] = None
                continue
            origin = origins.get(id(o.memory), o.view.offset // align * align)
            view = replace(o.view, offset=o.view.offset - origin)
            frame.views[arg.name] = view
            frame.bases[view.slot] = view.offset if view.slot >= 0 else -origin
            if arg.role == "in" and id(o.memory) in origins and view.size:
                frame.shared.append(arg.name)
        return frame


def _operand(slot: int, t: Handle | None) -> _Operand | None:
    if t is None:
        return None
    lay = t._layout
    return _Operand(View(slot, lay.dtype, lay.shape, lay.strides, t._offset, t._padded), t._block)


def _once(operand: _Operand) -> _Operand:
    """A view that has each element once, because broadcast axes would overlap in an output."""
    view = operand.view
    pairs = zip(view.shape, view.strides, strict=True)
    shape = tuple(min(n, 1) if step == 0 else n for n, step in pairs)
    return _Operand(view.with_layout(shape, view.strides), operand.memory)


def _shared(step: Step, frame: _Frame) -> list[str]:
    """The inputs that a step may overwrite in place; none if the step writes no output."""
    outputs = {v.slot for name in frame.outputs if (v := frame.views[name])}
    shared = {v.slot for name in frame.shared if (v := frame.views[name])}
    if not any(b.role == "out" and b.view and b.view.slot in outputs for b in step.bound):
        return []
    return [b.name for b in step.bound if b.role == "in" and b.view and b.view.slot in shared]
