"""Checks and plans calls without running them: a capture that keeps nothing.

Tensors that are made inside have no memory. Nothing is compiled, uploaded or read: a call that
needs a value ends the trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pykernels.contract import PARAMS_BYTES
from pykernels.errors import BufferStateError

from .blocks import Arena, Block, Storage
from .bound import MAX_LAUNCHES, Call, Params
from .context import Context
from .dispatch import Prepared
from .faults import Page
from .handle import Handle
from .owners import Check
from .program import Program, Recording
from .scopes import Scope

__all__ = ["NeedsValues", "Trial", "trying"]


class NeedsValues(BufferStateError):
    """A call inside of a trial that needs values, or memory of its own."""


class _Packed(Params):
    """Params without a buffer. Packing them raises an error for numbers that do not fit."""

    def __init__(self, context: Context) -> None:
        self.slots, self.used = MAX_LAUNCHES, 0
        self._data = bytearray(PARAMS_BYTES * self.slots)
        self._prefixes = [b""] * self.slots
        self._offsets = [None] * self.slots


class Trial:
    """Takes a recorder's place in a block, and forgets the launches that it gets."""

    refusal = NeedsValues

    def __init__(self, context: Context) -> None:
        recording = Recording(context, {})
        self._context = context
        self._recording, self.program_of = recording, Program(recording)
        self.arena: Arena | None = self.program_of._arena
        self.params = _Packed(context)
        self._scratch: list[Storage] = []

    def program(self) -> Program:
        """The program of a capture that never ends."""
        return self.program_of

    def storage(self, nbytes: int) -> Storage:
        """A storage without memory."""
        return self._context.pool.take(nbytes, arena=self.arena)

    def room(
        self, prepared: Prepared, tensors: Sequence[Handle | None]
    ) -> tuple[Sequence[Block], Page | None]:
        """Scratch for a call, without memory."""
        self._scratch = [self.storage(n) for n in prepared.scratch]
        return [s.block for s in self._scratch], None

    def record(self, call: Call, scalars: Sequence[float], check: Check | None = None) -> bool:
        """Check that the numbers of a call fit."""
        self.params.pack(call, scalars, slot=0)
        return True

    def end(self) -> None:
        """End the trial: nothing that was made inside can be used."""
        self._recording.fail()
        self.arena = None


@contextmanager
def trying(context: Context) -> Iterator[Trial]:
    """Take the launches of this thread or task inside the block, and run none of them."""
    context.check()
    context.refuse("supports", "inside a capture or a recorded pass")
    trial = Trial(context)
    scope = Scope("capture", trial, context)
    try:
        context.enter(scope)
        yield trial
    finally:
        scope.open = False
        scope.value = None
        context.leave(scope)
        trial.end()
