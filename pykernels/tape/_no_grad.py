"""A block in which no tape records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from typing import Any, TypeVar

from pykernels.errors import ArgumentError, TapeError
from pykernels.runtime.scopes import Scope, entered, leave

__all__ = ["no_grad"]

F = TypeVar("F", bound=Callable[..., Any])


class no_grad(ContextDecorator):
    """Calls of this thread and task inside are recorded by no tape (torch).

        with pk.no_grad():
            w -= 0.1 * dw

        @pk.no_grad()
        def accuracy(x, labels): ...

    It is `Tape.pause` for every tape, also one that is entered inside. Values that are computed
    inside are constants: no gradient goes back through them. Blocks may be nested, each of its own
    `pk.no_grad()`; a decorated function makes one for each call.

    Raises:
        TapeError: this block is open already.
        ArgumentError: it decorates a generator or a coroutine function, whose body would run
            outside of the block: say `with pk.no_grad():` in there.
    """

    def __init__(self) -> None:
        self._block: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        if self._block is not None:
            raise TapeError("[no_grad] this block is open already: make another by pk.no_grad()")
        self._block = _paused()  # its end comes with its last reference, where a signal interrupts
        self._block.__enter__()

    def __exit__(self, *exc: object) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)

    def __call__(self, func: F) -> F:
        for kind in ("generatorfunction", "coroutinefunction", "asyncgenfunction"):
            if getattr(inspect, f"is{kind}")(func):
                raise ArgumentError(
                    "[no_grad] func must be a function that runs when it is called but is a "
                    f"{kind.removesuffix('function')}: say with pk.no_grad() inside"
                )
        return super().__call__(func)

    def _recreate_cm(self) -> no_grad:
        return no_grad()


@contextmanager
def _paused() -> Iterator[None]:
    scope = Scope("pause", None)
    try:
        entered.set(scope)
        yield
    finally:
        scope.open = False
        leave(scope)
