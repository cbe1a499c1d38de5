"""A captured program: its calls, its variants for other inputs, and the object that runs it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from pykernels.errors import ArgumentError, BufferStateError, DTypeError

from .blocks import Arena, Block, OfProgram, Storage
from .bound import Call, Command, Params, bind
from .context import Context
from .dispatch import Prepared
from .faults import Crowded, Page
from .handle import Handle
from .lifetimes import ProgramMemory, planned
from .observe import StorageWindow, live, replayed
from .owners import Owner, checks_of, inherited
from .protocols import Note

__all__ = ["Captured", "Place", "Program", "Recording"]

_Told = tuple[weakref.ref[Storage], int, int]
# for each block: the block that replaces it, and the distance of their bytes
_Moved = Mapping[Block, tuple[Block, int]]
MAX_VARIANTS = 16  # most sets of inputs for which a program keeps variants


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a captured call's tensor; stands for a handle in `bind`."""

    _block: Block
    _offset: int
    window: tuple[int, int]  # first byte, one past the last byte


@dataclass(frozen=True, slots=True)
class Captured:
    """One captured call, which can be bound to other inputs."""

    prepared: Prepared
    places: tuple[Place | None, ...]
    scratch: tuple[Place, ...]
    params: Params
    page: Page | None
    commands: int  # index of its first command

    def moved(self, moved: _Moved) -> Captured:
        """The same call with its blocks at other locations."""
        places = tuple(None if p is None else _shifted(p, moved) for p in self.places)
        return replace(self, places=places, scratch=tuple(_shifted(p, moved) for p in self.scratch))


class Variant:
    """A program with given inputs: the commands that a replay records.

    `encoded`: a raw command buffer with all commands, encoded in advance, or None. `times`: how
    often these inputs came. `mark` stands for these inputs in `faults.Mark`, and keeps nothing
    alive.
    """

    def __init__(self, recording: Recording, calls: Sequence[Call], commands: Sequence[Command]):
        self.calls, self.commands = calls, commands
        self.blocks = tuple(dict.fromkeys(b for call in calls for b in call.blocks))
        self.needs = _needs(calls)
        self.pending = recording.pending
        self.pieces = tuple((call.count, call.size, call.work) for call in calls)
        self.work = sum(call.work for call in calls)
        self.encoded: Any = None
        self.times = 0
        self.mark = object()
        self.pages = tuple(recording.pages)
        self.runs = recording.runs

    def notes(self, host: float) -> list[Note]:
        """The facts about the dispatches that a profile needs."""
        return [note for call in self.calls for note in call.notes(host)]


class Recording:
    """The state of a program, apart from the memory in its arena."""

    def __init__(self, context: Context, inputs: Mapping[str, Handle]) -> None:
        self.context = context
        self.inputs = dict(inputs)
        self.state = "is still captured"  # the reason that it cannot run; empty if it can
        self.captured: list[Captured] = []
        self.calls: list[Call] = []
        self.commands: list[Command] = []
        self.pages: list[Page] = []
        self.storages: list[Storage] = []  # storages of tensors from outside the capture
        # For each storage (a weak reference), the windows that the program's calls read and write.
        self.reads: dict[_Told, None] = {}
        self.writes: dict[_Told, None] = {}
        self.runs = [0]  # the number of runs, which pages share
        self.pending = OfProgram()  # until the first run, memory made inside has no values
        self.memory: ProgramMemory  # set when the program can run
        self.base: Variant  # the variant with the inputs of the capture
        self.variants: dict[tuple[Any, ...], Variant] = {}  # variants with other inputs

    def compile(self) -> None:
        """Compile the remaining pipelines while other threads compile too."""
        try:
            for c in self.captured:
                c.prepared.compile()
        except BaseException:
            self.fail()
            raise

    def finish(self, arena: Arena) -> None:
        """The capture has ended: place the memory that was made inside."""
        moved, self.memory = planned(self.context.pool, arena, self.captured)
        self.captured = [c.moved(moved) for c in self.captured]
        self.calls, self.commands = self._bound(lambda call: True)
        self.base = Variant(self, self.calls, self.commands)
        self.state = ""
        self.pending.why = "belongs to a program that has not run yet: call the program first"

    def fail(self) -> None:
        """The capture has ended with an exception."""
        self.state = "was not captured to its end"
        self.pending.why = f"belongs to a program that {self.state}"
        # These name blocks, and a block that its arena gave up names the arena, and so this object:
        # the cycle would keep the tensors of a capture that got no memory.
        self.inputs, self.captured, self.calls, self.storages = {}, [], [], []

    def variant(self, given: Mapping[str, Handle]) -> Variant:
        """The program with these inputs; for a missing input it uses the captured tensor."""
        unknown = [name for name in given if name not in self.inputs]
        if unknown:
            names = ", ".join(self.inputs) or "none"
            raise ArgumentError(f"[program] no input {unknown[0]!r}: it was captured with {names}")
        if not given:
            self.base.times += 1
            return self.base
        inputs = {**self.inputs, **given}
        try:
            key = tuple((t._block, t._offset) for t in inputs.values())
        except AttributeError:
            name, wrong = next((n, t) for n, t in given.items() if not isinstance(t, Handle))
            raise DTypeError(
                f"[program] {name} must be a pykernels.Tensor but is {type(wrong).__name__}"
            ) from None
        found = self.variants.get(key)
        if found is None:
            self._check(inputs)
            found = self._bind(inputs)
            if len(self.variants) >= MAX_VARIANTS:
                del self.variants[next(iter(self.variants))]
            self.variants[key] = found
        found.times += 1
        return found

    def forget(self, blocks: set[Block]) -> None:
        """Forget inputs that lie in one of these blocks, or in a caller's buffer."""
        self.variants = {
            key: v for key, v in self.variants.items()
            if blocks.isdisjoint(v.blocks) and not any(b.foreign for b in v.blocks)
        }  # fmt: skip

    def tell(self, given: Mapping[str, Handle]) -> None:
        """Tell the tapes which memory a replay with these inputs reads and writes."""
        moved = {self.inputs[name]._storage: t for name, t in given.items()}
        shift = {self.inputs[name]._storage: t._offset - self.inputs[name]._offset
                 for name, t in given.items()}  # fmt: skip

        def windows(found: Iterable[_Told]) -> list[StorageWindow]:
            known = [(storage(), lo, hi) for storage, lo, hi in found]
            return [
                (moved[s]._storage, lo + shift[s], hi + shift[s]) if s in moved else (s, lo, hi)
                for s, lo, hi in known
                if s is not None
            ]

        replayed(windows(self.reads), windows(self.writes))

    def name(self, given: Mapping[str, Handle], owner: Owner) -> None:
        """Let the written storages name the checked calls that their values come from."""
        moved = {self.inputs[name]._storage: t._storage for name, t in given.items()}

        def storages(found: Iterable[_Told]) -> list[Storage]:
            known = [ref() for ref in dict.fromkeys([ref for ref, _, _ in found])]
            return [moved.get(s, s) for s in known if s is not None]

        term = self.pages[0].term if self.pages else None
        check = None if term is None else term.check
        if check is not None:
            check.open = True
        found = [c for s in storages(self.reads) for c in checks_of(s)]
        named = inherited(found, owner, check)
        for storage in storages(self.writes):
            storage.checks = named

    def _check(self, inputs: Mapping[str, Handle]) -> None:
        """Raise for inputs for which the captured dispatches would be wrong."""
        others = [p for c in self.captured for p in c.places if p is not None]
        kept = {p._block for p in others} | {p._block for c in self.captured for p in c.scratch}
        kept -= {t._block for t in self.inputs.values()}
        for i, (name, t) in enumerate(inputs.items()):
            x = self.inputs[name]
            if t._context is not self.context:
                raise BufferStateError(f"[program] {name} belongs to another device")
            if t._key != x._key:
                raise ArgumentError(
                    f"[program] {name} must have the dtype, shape, strides and alignment of the "
                    f"captured tensor ({_told(x)}) but is {_told(t)}: copy it into the captured "
                    "tensor, or capture again"
                )
            if t._block is x._block and t._offset == x._offset:
                continue
            lo, hi = x._window
            alone = all(
                lo <= p.window[0] and p.window[1] <= hi for p in others if p._block is x._block
            )
            rest = [u for n, u in self.inputs.items() if n != name]
            shared = any(u._block is x._block for u in rest) or not alone
            taken = kept | {u._block for u in list(inputs.values())[:i]}
            taken |= {u._block for u in list(inputs.values())[i + 1 :]}
            if shared or t._block in taken:
                raise ArgumentError(
                    f"[program] {name} shares its buffer with another tensor of the program, or "
                    "the captured tensor does: copy it into the captured tensor"
                )

    def _bind(self, inputs: Mapping[str, Handle]) -> Variant:
        """The captured calls with inputs at other locations."""
        moved = {
            x._block: (inputs[name]._block, inputs[name]._offset - x._offset)
            for name, x in self.inputs.items()
        }
        calls, commands = self._bound(lambda call: any(b in moved for b in call.blocks), moved)
        return Variant(self, calls, commands)

    def _bound(
        self, wanted: Callable[[Call], bool], moved: _Moved | None = None
    ) -> tuple[list[Call], list[Command]]:
        """The captured calls and their commands; the calls for which `wanted` is true are bound
        again, at other locations."""
        calls: list[Call] = []
        commands: list[Command] = []
        for c, call in zip(self.captured, self.calls, strict=True):
            own = self.commands[c.commands : c.commands + call.count]
            if wanted(call):
                at = c if moved is None else c.moved(moved)
                scratch, starts = [p._block for p in at.scratch], [p._offset for p in at.scratch]
                call = bind(self.context, c.prepared, at.places, scratch, c.params, c.page, starts)
                groups = [step[6] for step in call.steps]
                own = [
                    (pipeline, group, offset, x, y, z)
                    for (pipeline, _, offset, x, y, z), group in zip(own, groups, strict=True)
                ]
            calls.append(call)
            commands += own
        return calls, commands


def _needs(calls: Sequence[Call]) -> frozenset[Block]:
    """The blocks that a call reads before any of the calls has written them."""
    needs: set[Block] = set()
    written: set[Block] = set()
    for call in calls:
        needs |= set(call.reads) - written
        written |= set(call.writes)
    return frozenset(needs)


def _shifted(place: Place, moved: _Moved) -> Place:
    if place._block not in moved:
        return place
    block, distance = moved[place._block]
    return Place(block, place._offset + distance, place.window)


def _told(t: Handle) -> str:
    lay = t._layout
    return f"{lay.dtype.name} {lay.shape}, strides {lay.strides}, at byte {t._offset}"


class Program:
    """A captured chain of calls, made by `Device.capture`. Calling it runs the chain.

    The program keeps the tensors that it uses, and the tensors made during the capture, until it is
    deleted.
    """

    __slots__ = ("__weakref__", "_arena", "_recording")

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._arena = recording.context.pool.arena(self, recording, recording.pending)

    def __call__(self, **inputs: Any) -> None:
        """Run the captured calls on the current contents of their tensors.

        The calls are recorded into the current batch, and submitted by the same rules as other
        calls. If the device is idle, they are submitted at once, from the second run on.

        Args:
            inputs: tensors that replace the declared inputs of the capture, by name. Each must have
                the same dtype, shape, strides and alignment as the captured one, and a buffer that
                other tensors of the program do not use.

        Raises:
            ArgumentError: the input does not exist, or does not fit.
            BufferStateError: the capture has failed or has not ended; a buffer of the caller's
                was destroyed; inside a capture or a recorded pass.
            DeviceLostError: the device is closed or lost.
        """
        recording = self._recording
        context = recording.context
        context.check()
        try:
            with context.lock:
                context.refuse("program", "inside a capture or a recorded pass")
                if recording.state:
                    raise BufferStateError(f"[program] the program {recording.state}")
                variant = recording.variant(inputs)
                if live:
                    recording.tell(inputs)
                context.recorder.replay(variant, context.caller() if variant.pages else None)
                if context.faults.open:
                    context.noted = True
                    recording.name(inputs, context.caller())
                if context.debug:
                    context.recorder.flush()
        except Crowded:
            context.transfers.poll()  # the lock is not held during this wait
            self(**inputs)

    def __reduce__(self) -> NoReturn:
        raise DTypeError(
            "[pickle] a program belongs to its device and cannot be pickled: capture it in each "
            "process"
        )

    def memory(self) -> ProgramMemory:
        """The bytes in use at each call, the bytes of the buffers, and the smallest possible size
        of the buffers.

            print(program.memory())
            program.memory().plot("memory.png")

        Raises:
            BufferStateError: the capture has failed or has not ended.
        """
        if self._recording.state:
            raise BufferStateError(f"[program] the program {self._recording.state}")
        return self._recording.memory

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that belong to the program: tensors made during the capture, and
        temporaries of its calls. The budget counts them."""
        return self._arena.nbytes

    def __len__(self) -> int:
        """Number of dispatches."""
        return len(self._recording.commands)

    def __repr__(self) -> str:
        state = f", {self._recording.state}" if self._recording.state else ""
        return f"<pykernels.Program of {len(self)} dispatches{state}>"
