"""A block in which no tape records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from pykernels.errors import TapeError
from pykernels.runtime.scopes import Block, Scope, entered, leave

__all__ = ["no_grad"]


class no_grad(Block):
    """Inside the block, no tape records the calls of this thread and task, as in torch.

        with pk.no_grad():
            w -= 0.1 * dw

        @pk.no_grad()
        def accuracy(x, labels): ...

    It works like `Tape.pause` for every tape, even for a tape that is entered inside. Values that
    are computed inside are constants, and no gradient goes back through them. Blocks can be nested,
    each with its own `pk.no_grad()`; a decorated function creates one for each call.

    Raises:
        TapeError: this block is open already.
        ArgumentError: it decorates a generator or a coroutine function, whose body would run
            outside of the block. Write `with pk.no_grad():` in the body instead.
    """

    _made_by = "pk.no_grad()"
    _open_error = TapeError

    def _begin(self) -> AbstractContextManager[None]:
        return _paused()

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
