"""Blocks that affect the calls of one thread or task: captures, recorded passes, tapes, pauses.

A context variable holds the innermost block. Tasks and threads that start inside inherit the
variable, which names the thread or task that entered. Their launches do not belong to the block and
raise while it is open. Signals may interrupt any call, so `open = False` ends a block, whatever the
variable holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

from pykernels.errors import ArgumentError, BufferStateError, PyKernelsError, TapeError

from .owners import current

__all__ = ["Block", "Scope", "entered", "innermost", "leave"]

F = TypeVar("F", bound=Callable[..., Any])
What = Literal["capture", "record", "tape", "pause", "gradient", "checked", "call", "trace"]


class Scope:
    """A block, which is entered by the thread or task that makes this object.

    Attributes:
        what: the kind of block.
        value: depends on the kind. For a capture or record, the recorder that takes the calls; for
            a tape, a reference to the tape; for a gradient, the blocks of the tapes that record the
            calls of `gradient`; for a checked block, the owner of the calls inside and in
            everything that is started inside; for a call, the launches that it holds on each
            device; for a trace, the trace of a call; for a pause, None.
        on: the context whose calls it takes, or the paused tape; None for any context or all tapes.
        open: False once the block has ended.
        outer: the block around it.
    """

    __slots__ = ("__weakref__", "on", "open", "outer", "owner", "value", "what")

    def __init__(self, what: What, value: Any, on: Any = None) -> None:
        self.what, self.value, self.on = what, value, on
        self.open = True
        self.owner = current()
        self.outer = innermost()

    @property
    def mine(self) -> bool:
        """True if the caller's thread or task is inside the block."""
        return self.owner is current()

    def check(self, call: str) -> None:
        """Raise if another thread or task, started inside the block, makes a call."""
        if not self.mine:
            kind = TapeError if self.what in ("tape", "gradient") else BufferStateError
            raise kind(
                f"[{self.what}] {call} is called by {current().name}, which was started inside the "
                f"block of {self.owner.name}: a block takes the calls of the thread and task that "
                "entered it. Call it there, or when the block has ended"
            )


entered: ContextVar[Scope | None] = ContextVar("pykernels_scope", default=None)


def innermost(*what: What, on: Any = None) -> Scope | None:
    """The innermost open block of these kinds with this `on`. Without kinds, the innermost open
    block of any kind.

    If the end of a tape was interrupted, its block ends when the last reference to the tape is
    deleted.
    """
    scope = entered.get()
    while scope is not None:
        if scope.open and (not what or (scope.what in what and scope.on is on)):
            if scope.what != "tape" or scope.value() is not None:
                return scope
        scope = scope.outer
    return None


def leave(scope: Scope) -> None:
    """Forget a block that has ended; copies of the context may still hold it."""
    if entered.get() is scope:
        entered.set(scope.outer)


class Block(ContextDecorator):
    """A block that can be entered again once it has ended, and that decorates functions.

    Attributes:
        _made_by: the expression by which a caller makes it.
        _open_error: the error if the block is entered inside of itself.
    """

    _made_by: str
    _open_error: type[PyKernelsError]

    def __init__(self) -> None:
        # If a signal interrupts the block's end, the block ends when its last reference is deleted.
        self._block: AbstractContextManager[None] | None = None

    def _begin(self) -> AbstractContextManager[None]:
        """The context manager that does the work."""
        raise NotImplementedError

    def __enter__(self) -> None:
        if self._block is not None:
            raise self._open_error(
                f"[{type(self).__name__}] this block is open already: make another with "
                f"{self._made_by}"
            )
        self._block = self._begin()
        self._block.__enter__()

    def __exit__(self, *exc: object) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)

    def __call__(self, func: F) -> F:
        for kind in ("generatorfunction", "coroutinefunction", "asyncgenfunction"):
            if getattr(inspect, f"is{kind}")(func):
                raise ArgumentError(
                    f"[{type(self).__name__}] func must be a function that runs when it is called "
                    f"but is a {kind.removesuffix('function')}: write "
                    f"with {self._made_by} inside it"
                )
        return super().__call__(func)
