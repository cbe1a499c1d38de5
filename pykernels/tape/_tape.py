"""The tape that users hold."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn, Self, overload
from weakref import WeakKeyDictionary

from pykernels.call.autocast import restored
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, TapeError
from pykernels.runtime.handle import Handle
from pykernels.runtime.observe import (
    MAX_WINDOWS,
    Record,
    StorageWindow,
    live,
    outputs,
    paused,
    record_of,
    taping,
)
from pykernels.runtime.scopes import Scope, entered, leave
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel
from pykernels.tensors.layout import Window

from ._backward import gradients
from ._entry import (
    GRADIENT,
    PROGRAM,
    Bytes,
    Entry,
    Place,
    Written,
    bytes_of,
    line_of_caller,
    place_of,
)
from ._given import apart, as_source, check, seed_of, tree_of, window_of
from ._tree import leaves, rebuilt

__all__ = ["Tape"]


class Tape:
    """Records operations of the thread and task that enters it, and computes gradients of their
    results.

        with pk.Tape() as tape:
            loss = pk.mean(pk.square(x @ w - y))
        [dw] = tape.gradient(loss, [w])

    A tape records functions of both layers, operators, conversions and writes into tensors, on
    tensors of any device; views need no record. It keeps the tensors that its gradient rules will
    read until it is cleared or deleted.

    Tapes can be nested. Every tape that is open in this thread and task records a call. The calls
    that `gradient` makes are recorded by the tapes that were entered before its own tape. So an
    outer tape computes gradients of gradients:

        with pk.Tape() as outer:
            with pk.Tape() as inner:
                y = f(x)
            dy = inner.gradient(y, x)
            loss = pk.sum(dy * dy)
        dx = outer.gradient(loss, x)

    `len(tape)` is the number of recorded calls.

    Raises:
        TapeError: the tape already records, in this or another thread or task.
    """

    def __init__(self) -> None:
        self._entries: list[Entry | Written] = []
        self._known: set[Record] = set()  # the allocations that entries read or write
        # the watched tensors; None means that everything is recorded
        self._watched: set[Record] | None = None
        self._leaves: dict[Record, list[Tensor]] = {}
        # The windows that were read by calls that the tape did not keep, with the line of the last
        # such call.
        self._missed: WeakKeyDictionary[Record, dict[Window, str]]
        self._missed = WeakKeyDictionary()
        self._scope: Scope | None = None  # set while the tape records
        self._ref: weakref.ref[Tape] | None = None  # in `live` while it records or has entries
        # The blocks of the tapes that were open during all calls of this tape, and recorded them.
        self._around: frozenset[Scope] = frozenset()

    def __enter__(self) -> Self:
        if self._scope is not None:
            raise TapeError("[tape] this tape already records, in this or another thread or task")
        around = frozenset(taping())
        self._around = around & self._around if self._entries else around
        self._ref = weakref.ref(self, live.discard)
        live.add(self._ref)
        scope = Scope("tape", self._ref)
        entered.set(scope)
        self._scope = scope
        return self

    def __exit__(self, *exc: object) -> None:
        scope = self._scope
        if scope is not None:
            scope.open = False
            self._scope = None
            leave(scope)
        if not self._entries:
            live.discard(self._ref)

    def __len__(self) -> int:
        return sum(isinstance(entry, Entry) for entry in self._entries)

    def __repr__(self) -> str:
        state = "" if self._scope is None else ", recording"
        return f"<pykernels.Tape of {len(self)} calls{state}>"

    def __reduce__(self) -> NoReturn:
        raise TapeError(
            "[tape] a tape cannot be copied or pickled: it belongs to its memory and its calls. "
            "Record again with another one"
        )

    def watch(self, *tensors: Tensor) -> None:
        """From now on, record only calls that depend on watched tensors. Writing to a watched
        tensor raises an error.

        Raises:
            DTypeError: an argument is not a tensor of a float dtype.
        """
        for i, t in enumerate(tensors):
            check(t, f"tensors[{i}]", "watch")
        if self._watched is None:
            self._watched = set()
        for t in tensors:
            record = record_of(t._storage)
            self._watched.add(record)
            self._leaves.setdefault(record, []).append(t)
        # also watch the results of calls that were recorded before and that use a watched tensor
        for entry in self._entries:
            if isinstance(entry, Entry):
                if any(p is not None and p.record in self._watched for p in entry.places):
                    self._watched |= {p.record for p in entry.outputs if p.flows}
            elif any(record in self._watched for record, _, _ in entry.reads):
                self._watched |= {record for record, _, _ in entry.writes}

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Record nothing inside: `with tape.pause(): w -= 0.1 * dw`."""
        scope = Scope("pause", None, self)
        try:
            entered.set(scope)
            yield
        finally:
            scope.open = False
            scope.on = None
            leave(scope)

    def clear(self) -> None:
        """Forget all recorded calls; the tape still watches its watched tensors."""
        self._entries = []
        self._known = set()
        self._missed.clear()
        if self._watched is not None:
            self._watched = set(self._leaves)
        if self._scope is None:
            live.discard(self._ref)

    @overload
    def gradient(
        self, loss: Tensor, sources: Tensor, seed: Any = None, *,
        unused: Literal["error", "zeros"] = "error", release: bool = False,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def gradient(
        self, loss: Tensor, sources: list[Tensor], seed: Any = None, *,
        unused: Literal["error", "zeros"] = "error", release: bool = False,
    ) -> list[Tensor]: ...  # fmt: skip
    @overload
    def gradient(
        self, loss: Tensor, sources: tuple[Tensor, ...], seed: Any = None, *,
        unused: Literal["error", "zeros"] = "error", release: bool = False,
    ) -> tuple[Tensor, ...]: ...  # fmt: skip
    @overload
    def gradient(
        self, loss: Tensor, sources: Mapping[str, Tensor], seed: Any = None, *,
        unused: Literal["error", "zeros"] = "error", release: bool = False,
    ) -> dict[str, Tensor]: ...  # fmt: skip
    @overload
    def gradient(
        self, loss: Tensor, sources: Any, seed: Any = None, *,
        unused: Literal["error", "zeros", "none"] = "error", release: bool = False,
    ) -> Any: ...  # fmt: skip
    def gradient(
        self, loss: Tensor, sources: Any, seed: Any = None, *,
        unused: Literal["error", "zeros", "none"] = "error", release: bool = False,
    ) -> Any:  # fmt: skip
        """The gradients of a loss with respect to tensors, each of the tensor's shape and dtype.

        You may call it inside the `with` block or after it, any number of times, and inside
        `Device.capture`. The gradients of all uses of a tensor are added. The tapes that were
        entered before this tape and are still open record its calls. For all other tapes, including
        this tape, its results have no gradient.

        Args:
            loss: A tensor that was computed while the tape recorded, float32, float16 or bfloat16.
            sources: One tensor, or a tree of dicts, lists, tuples and dataclasses that contains
                tensors; another iterable counts as a list. The tensors may also be results of
                recorded calls. A gradient refers to the value that the tensor had when the
                recording ended.
            seed: The gradient of the loss, a Tensor, array or number that repeats to its shape;
                None means 1, for a loss of one element.
            unused: What to do for a source on which the loss does not depend: "error" raises an
                error, "zeros" gives zeros, "none" gives None.
            release: True forgets each call once its rule has run. Its memory is then free for the
                rest of the backward pass, so a step needs less memory. The tape is empty
                afterwards, even after an error. Under a byte budget, this call of `gradient` is
                not checked as a whole before it runs.

        Returns:
            A tensor for one tensor, else a tree of the same shape.

        Raises:
            TapeError: an operation between a source and the loss has no rule; a tensor that a rule
                needs was written since; a call that the tape did not keep (see `watch`) read a
                source; or the loss depends on a source through a result of `gradient`.
            ArgumentError: the loss does not depend on a source; a loss of several elements without
                seed.
            DTypeError: an argument is not a tensor of a float dtype.
        """
        if not (isinstance(unused, str) and unused in ("error", "zeros", "none")):
            raise ArgumentError(
                f"[gradient] unused must be 'error', 'zeros' or 'none' but is {unused!r}"
            )
        walk = _released if flag("gradient", "release", release) else _whole
        return walk(self, loss, sources, seed, unused, release)

    def _gradient(self, loss: Tensor, sources: Any, seed: Any, unused: str, release: bool) -> Any:
        check(loss, "loss", "gradient")
        tree = tree_of(sources)
        named = leaves(tree, "sources", "gradient")
        for name, t in named:
            check(t, name, "gradient")
            self._refuse_missed(name, t)
        given = [t for _, t in named]
        taped = taping()
        with self._backward():
            places = [place_of(t, False) for t in given if t.size]
            first = seed_of(loss, seed)
            losses = [(place_of(loss, False), first)]
            try:
                results, used = gradients(self._entries, losses, places, release)
            finally:
                known = self._known
                if release:
                    self.clear()
            found = iter(results)
            each = [next(found) if t.size else t for t in given]
            for (name, _), one in zip(named, each, strict=True):
                if one is None and unused == "error":
                    raise ArgumentError(
                        f"[tape] the loss does not depend on {name}: pass unused='zeros' or "
                        "unused='none' to get zeros or None"
                    )
            own = iter(apart([one for one in each if one is not None], first, known))
            final = [
                None if one is None else as_source(next(own), t)
                for one, t in zip(each, given, strict=True)
            ]
            if unused == "zeros":
                pairs = zip(final, given, strict=True)
                final = [t.device.zeros(t.shape, t.dtype) if g is None else g for g, t in pairs]
        for outer in taped:
            tape = None if outer in self._around else outer.value()
            if tape is not None:
                tape.derived(used, [window_of(g) for g in final if g is not None])
        return rebuilt(tree, iter(final))

    @contextmanager
    def _backward(self) -> Iterator[None]:
        """A block for the calls of a gradient. Only open tapes around this tape record these calls.
        Other tapes need not know of them, since rules write to new tensors. Rules compute in the
        dtypes of the recorded call, so `autocast` has no effect."""
        scope = Scope("gradient", self._around.intersection(taping()))
        try:
            entered.set(scope)
            with restored(None):
                yield
        finally:
            scope.open = False
            leave(scope)

    def _through(
        self, losses: Sequence[tuple[Place, Tensor]], sources: Sequence[Place]
    ) -> list[Tensor | None]:
        """The gradients of the sources from the gradients of several losses, for rules."""
        with self._backward():
            return gradients(self._entries, losses, sources)[0]

    @property
    def entries(self) -> Sequence[Entry | Written]:
        """The recorded calls."""
        return self._entries

    def _keep(self, entry: Entry, within: Written) -> None:
        """Add a call that was made without recording, as one entry. `within` is the memory that it
        wrote besides its outputs."""
        if paused(self):
            return
        watched = self._watched
        if watched is not None:
            if not any(p.record in watched for p in entry.inputs):
                return
            watched |= {p.record for p in entry.outputs}
        self._known |= {p.record for p in (*entry.inputs, *entry.outputs)}
        self._known |= {record for record, _, _ in within.writes}
        self._entries += [within, entry]

    def _refuse_missed(self, name: str, t: Tensor) -> None:
        """Raise if a call that this tape did not record has read the source `t`."""
        record = record_of(t._storage)
        window = t._window
        for missed, line in self._missed.get(record, {}).items():
            if missed.overlaps(window):
                raise TapeError(
                    f"[tape] {name} was read by a call that the tape did not record{line}, because "
                    "no argument was watched: watch the tensor earlier, or call watch for none"
                )

    # -- called by launches -----------------------------------------------------------------------

    def begin(
        self, kernel: Kernel, options: tuple[Any, ...], tensors: tuple[Handle | None, ...],
        scalars: tuple[float, ...], serial: int,
    ) -> Entry | None:  # fmt: skip
        """Add an entry for a call that is about to run; None if the tape does not record it."""
        records = [
            None if t is None else getattr(t._storage, "record", None) or record_of(t._storage)
            for t in tensors
        ]
        written = [(t, records[i]) for i in outputs(kernel) if (t := tensors[i]) is not None]
        if paused(self):
            self.written((), [window_of(t) for t, _ in written], False)
            return None
        watched = self._watched
        if watched is not None:
            for t, record in written:
                if record in self._leaves:
                    self._refuse_leaf(kernel, t)
            if watched.isdisjoint(records):
                self._miss(kernel, tensors)
                return None
            watched.update([r for t, r in written if r and t._layout.dtype.kind in "fc"])
        entry = Entry(kernel, options, tensors, scalars, serial, records)
        self._known.update([record for record in records if record])
        self._entries.append(entry)
        return entry

    def _miss(self, kernel: Kernel, tensors: tuple[Handle | None, ...]) -> None:
        """Remember the windows that are read by a call that the tape does not keep."""
        line = line_of_caller()
        at = f" ({line[0]}:{line[1]})" if line else ""
        for arg, t in zip(kernel.args, tensors, strict=True):
            if t is None or t._layout.dtype.kind not in "fc" or arg.role == "out":
                continue
            windows = self._missed.setdefault(record_of(t._storage), {})
            window = t._window
            if len(windows) >= MAX_WINDOWS and window not in windows:
                all_of_them = [window, *windows]
                first, last = min(w.start for w in all_of_them), max(w.end for w in all_of_them)
                window = Window(first, last)
                windows.clear()
            windows[window] = at

    def _refuse_leaf(self, kernel: Kernel, t: Handle) -> None:
        window = t._window
        for leaf in self._leaves.get(record_of(t._storage), ()):
            if leaf._window.overlaps(window):
                raise TapeError(
                    f"[tape] {kernel.name} writes to a watched tensor: do it inside tape.pause(), "
                    "after its gradient"
                )

    def done(self, entry: Entry) -> None:
        """Note that the call of this entry was not interrupted."""
        entry.done = True

    def interrupted(self, entry: Entry) -> None:
        """Note that the call was interrupted, and that it is not known whether it ran."""
        entry.done = False

    def drop(self, entry: Entry) -> None:
        """Remove the entry of a call that was refused."""
        if self._entries and self._entries[-1] is entry:
            del self._entries[-1]

    def needs(self, t: Handle) -> bool:
        """True if a gradient may go through the tensor, so that a copy on the host would lose the
        gradient."""
        if paused(self) or t._layout.dtype.kind not in "fc":
            return False
        return self._watched is None or record_of(t._storage) in self._watched

    def written(
        self, reads: Iterable[StorageWindow], writes: Iterable[StorageWindow], program: bool
    ) -> None:
        """Note that memory was written without a recorded call. Only a program, or memory that an
        entry uses, needs this note."""
        known = [w for w in map(bytes_of, writes) if program or w[0] in self._known]
        if known:
            refusal = PROGRAM if program and not paused(self) else ""
            self._entries.append(Written([*map(bytes_of, reads)], known, refusal))

    def derived(self, reads: Sequence[Bytes], writes: Iterable[StorageWindow]) -> None:
        """Note that `gradient` of another tape, whose calls this tape does not record, computed
        tensors from the memory `reads`."""
        if paused(self):
            return
        known = [*map(bytes_of, writes)]
        if self._watched is not None:
            self._watched |= {record for record, _, _ in known}
        self._known |= {record for record, _, _ in known}
        self._entries.append(Written([*reads], known, GRADIENT))


def _released(tape: Tape, *args: Any) -> Any:
    """Run `gradient` without holding its launches, because held launches would keep the memory that
    they read."""
    return tape._gradient(*args)


_whole = whole(_released)
