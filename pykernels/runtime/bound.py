"""Calls with their bind groups: everything that a launch needs, apart from its scalars."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

from pykernels.contract import PARAMS_BYTES

from .blocks import Block
from .dispatch import Prepared
from .engine import Engine
from .faults import Page
from .memory import Pool
from .pace import work

__all__ = ["MAX_LAUNCHES", "BatchParams", "Call", "Calls", "Command", "Params", "bind", "unbound"]

MAX_LAUNCHES = 1024  # most launches in one batch, each with its own params
MAX_FILLED = 64  # most slots of batches that a call remembers
UNIFORM = 0x40 | 0x08  # UNIFORM | COPY_DST

# One dispatch for an encoder: pipeline (compiled before the encoder reads it), bind group, offset
# of the params, grid.
Command: TypeAlias = tuple[Any, Any, Any, int, int, int]


class Call:
    """One call on certain buffers.

    Attributes:
        steps: for each dispatch the sources of its params, and the parts of its command.
        blocks: the buffers that the bind groups bind, of tensors and temporaries.
        reads, writes: the blocks of the tensors that it reads, and that it writes.
        inputs, outputs: the positions of these tensors among the arguments.
        named: the positions of the tensors whose old values the outputs may contain.
        keeps: True if an output keeps its old elements where an index is out of range.
        page: the page of faults that the bind groups bind, if a dispatch reports any.
        watched: the dispatches that take a slot of the page; `slots` is their number.
        size, work: the cost of the call, in units of `pace`.
        pack: packs the scalars as bytes. `order` selects scalars; None selects all, in order.
        last: the scalars of the last launch.
        filled: for each slot of the device's batches at which params of this call begin, an entry:
            mark, first slot of the page of faults, scalars, commands. The entry is valid while its
            mark equals the mark of the slot.
        commands, kept: the commands that use the call's own slots, and the scalars there.
        serial: number of the last batch that uses these slots.
    """

    __slots__ = (
        "blocks", "commands", "count", "filled", "inputs", "keeps", "kept", "label", "last",
        "named", "order", "outputs", "pack", "page", "prepared", "reads", "serial", "size", "slots",
        "steps", "watched", "work", "writes",
    )  # fmt: skip

    def __init__(
        self, prepared: Prepared, groups: Sequence[Any], blocks: tuple[Block, ...],
        tensors: Sequence[Any], page: Page | None,
    ) -> None:  # fmt: skip
        self.prepared = prepared
        self.count = len(prepared.dispatches)
        self.label = prepared.dispatches[0].label if prepared.dispatches else ""
        self.work = work(prepared.nbytes, prepared.operations)
        self.size = self.count + self.work
        self.blocks = blocks
        given = [i for i, t in enumerate(tensors) if t is not None]
        self.inputs = tuple([i for i in given if i not in prepared.written])
        self.outputs = tuple([i for i in given if i in prepared.written])
        self.reads = tuple([tensors[i]._block for i in self.inputs])
        self.writes = tuple([tensors[i]._block for i in self.outputs])
        self.keeps = prepared.keeps
        self.named = self.inputs + self.outputs if self.keeps else self.inputs
        self.watched = prepared.watched
        self.slots = len(self.watched)
        self.page = page if prepared.reports else None
        self.steps = tuple(
            (
                d.prefix, len(d.prefix), d.pack_into, d.pick, d.watch is not None, d.pipeline,
                group, *d.grid,
            )
            for d, group in zip(prepared.dispatches, groups, strict=True)
        )  # fmt: skip
        taken = prepared.scalars
        indices = tuple(i for i, _ in taken)
        self.order = None if indices == tuple(range(prepared.arity)) else indices
        self.pack = struct.Struct("<" + "".join(f for _, f in taken)).pack
        self.last: bytes | None = None
        self.kept: bytes | None = None
        self.commands: list[Command] = []
        self.filled: dict[int, tuple[object, int, bytes, list[Command]]] = {}
        self.serial = -1

    def notes(self, host: float) -> list[tuple[str, int, float]]:
        """The facts about the dispatches that a profile needs."""
        return [(d.label, d.nbytes, host) for d in self.prepared.dispatches]


class Calls:
    """A cache of calls; the keys are the kernel, its options and the locations of all tensors.

    The cache holds only buffers of the pool, and forgets buffers before the pool destroys them. So
    it never keeps memory alive.

    Attributes:
        slots: the slots that forgotten calls kept in `BatchParams`. For each number of slots that a
            call takes, a list of pairs: the serial of the last batch that uses the slots, and the
            first slot.
    """

    LIMIT = 8192

    def __init__(self) -> None:
        self.entries: dict[Any, Call] = {}
        self.generation = 0  # how often the cache was cleared
        self.slots: dict[int, list[tuple[int, int]]] = {}

    def add(self, key: Any, call: Call) -> None:
        if len(self.entries) >= self.LIMIT:
            self.clear()
        self.entries[key] = call

    def clear(self) -> None:
        self.generation += 1
        self.entries.clear()
        self.slots.clear()

    def forget(self, blocks: set[Block]) -> None:
        """Forget the calls that bind one of these blocks."""
        gone = {k: c for k, c in self.entries.items() if not blocks.isdisjoint(c.blocks)}
        for key, call in gone.items():
            del self.entries[key]
            if call.commands:
                first = call.commands[0][2][0] // PARAMS_BYTES
                self.slots.setdefault(call.count, []).append((call.serial, first))
        if not self.entries:
            self.clear()


class Params:
    """A uniform buffer with a slot of params for each launch. One write fills all slots.

    `used` is the number of taken slots. The caller of `pack` updates it together with its own
    records.
    """

    def __init__(self, engine: Engine, device: Any, pool: Pool, slots: int = MAX_LAUNCHES) -> None:
        self._engine, self._device = engine, device
        self.slots = slots
        self.used = 0
        self.buffer: Any = pool.buffers.create(PARAMS_BYTES * slots, UNIFORM)
        self._data = bytearray(PARAMS_BYTES * slots)
        self._prefixes: list[bytes] = [b""] * slots  # the prefix that each slot contains already
        self._offsets = _offsets(engine, slots)

    def pack(
        self, call: Call, scalars: Sequence[float], number: int = 0, slot: int | None = None
    ) -> list[Command]:
        """Write a call's params to the next slots, and return its commands. `number` is its first
        slot of the page of faults. Raises struct.error or OverflowError for unusable scalars."""
        data, prefixes, offsets = self._data, self._prefixes, self._offsets
        if slot is None:
            slot = self.used
        commands: list[Command] = []
        at = slot * PARAMS_BYTES
        for prefix, size, pack_into, pick, watched, pipeline, group, x, y, z in call.steps:
            if prefixes[slot] is not prefix:
                data[at : at + size] = prefix
                prefixes[slot] = prefix
            given = scalars if pick is None else [scalars[i] for i in pick]
            if watched:
                pack_into(data, at + size, number, *given)
                number += Page.STEP
            else:
                pack_into(data, at + size, *given)
            commands += ((pipeline, group, offsets[slot], x, y, z),)
            slot += 1
            at += PARAMS_BYTES
        return commands

    def write(self) -> None:
        """Queue a write of the used slots."""
        if self.used:
            self.write_slots(0, self.used)

    def write_slots(self, first: int, count: int) -> None:
        """Queue a write of some slots."""
        start, end = first * PARAMS_BYTES, (first + count) * PARAMS_BYTES
        self._engine.write(self._device, self.buffer, start, memoryview(self._data)[start:end])


class BatchParams(Params):
    """The params of a device's batches. The slots of one batch come first, and then the slots that
    calls keep. A call that is repeated with the same scalars needs no new params.

    A slot is written only while no recorded launch uses it. `serial` is the number of the last
    batch with launches whose slots are kept.
    """

    KEPT = 3072

    # For each slot, a mark of the params that begin there. A loop that repeats its launches in each
    # batch finds their params still in the slots.
    filled: list[object | None]

    def __init__(self, engine: Engine, device: Any, pool: Pool, calls: Calls) -> None:
        super().__init__(engine, device, pool, MAX_LAUNCHES + self.KEPT)
        self._calls = calls
        self._next = MAX_LAUNCHES
        self._generation = calls.generation
        self.serial = -1
        self.filled = [None] * MAX_LAUNCHES

    def fill(
        self, call: Call, scalars: Sequence[float], number: int, packed: bytes
    ) -> list[Command]:
        """Like `pack`, and note that the next slots contain the params of this call. `packed` are
        the scalars as bytes."""
        slot, mark = self.used, object()
        self.filled[slot : slot + call.count] = [None] * call.count
        commands = self.pack(call, scalars, number)
        if commands:
            if len(call.filled) >= MAX_FILLED:
                call.filled.clear()
            self.filled[slot] = mark
            call.filled[slot] = (mark, number, packed, commands)
        return commands

    def keep(self, call: Call, scalars: Sequence[float], packed: bytes, serial: int) -> bool:
        """Give a call slots with these scalars, if that is possible now."""
        if call.watched or call.serial == serial:
            return False
        if self._generation != self._calls.generation:  # the calls that had slots are forgotten
            if self.serial == serial:
                return False
            self._generation = self._calls.generation
            self._next = MAX_LAUNCHES
        free = self._calls.slots.get(call.count)
        if call.commands:
            first = call.commands[0][2][0] // PARAMS_BYTES
        elif free and free[0][0] != serial:
            first = free[0][1]
            del free[0]
        elif self._next + call.count <= self.slots:
            first = self._next
            self._next = first + call.count
        else:
            return False
        call.kept = None
        commands = self.pack(call, scalars, slot=first)
        self.write_slots(first, call.count)
        call.commands = commands
        call.kept = packed
        return True


_known_offsets: dict[str, list[Any]] = {}


def _offsets(engine: Engine, slots: int) -> list[Any]:
    """The offset of each slot, in the form that set_bind_group takes."""
    found = _known_offsets.get(engine.name, [])
    # the old list stays as it is, because two threads may open devices at once
    if len(found) < slots:
        found = [engine.ffi.new("uint32_t[1]", [PARAMS_BYTES * i]) for i in range(slots)]
        _known_offsets[engine.name] = found
    return found


def bind(
    context: Any, prepared: Prepared, tensors: Sequence[Any], scratch: Sequence[Block],
    params: Params, page: Page | None, starts: Sequence[int] | None = None,
) -> Call:  # fmt: skip
    """A prepared call on these tensors and, for slots below 0, on these blocks of scratch. A block
    of scratch is used from its first byte, or from its byte in `starts`."""
    blocks: dict[Block, None] = {}
    groups = []
    for d in prepared.dispatches:
        for entry, slot, delta in d.refs:
            if slot >= 0:
                t = tensors[slot]
                block = t._block
                entry.offset = t._offset + delta
            else:
                block = scratch[~slot]
                entry.offset = delta if starts is None else starts[~slot] + delta
            entry.buffer = block.handle
            if block.exposed and block not in blocks:
                block.inspect(context.pool.buffers, d.label)
            blocks[block] = None
        blocks |= dict.fromkeys(d.textures)  # inspected by the caller of the launch
        d.uniform_entry.buffer = params.buffer._internal
        if d.page_entry is not None:
            assert page is not None
            d.page_entry.buffer = page.block.handle
        groups.append(context.engine.bind_group(context.raw, d.descriptor, d.label))
    return Call(prepared, groups, tuple(blocks), tensors, page)


def unbound(
    context: Any, prepared: Prepared, tensors: Sequence[Any], scratch: Sequence[Block],
    params: Params, page: Page | None,
) -> Call:  # fmt: skip
    """A prepared call without bind groups, because the place of its memory is not known yet."""
    blocks: dict[Block, None] = {}
    for d in prepared.dispatches:
        for _, slot, _ in d.refs:
            block = tensors[slot]._block if slot >= 0 else scratch[~slot]
            if block.exposed and block not in blocks:
                block.inspect(context.pool.buffers, d.label)
            blocks[block] = None
        blocks |= dict.fromkeys(d.textures)
    return Call(prepared, [None] * len(prepared.dispatches), tuple(blocks), tensors, page)
