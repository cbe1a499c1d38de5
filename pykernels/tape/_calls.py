"""Functions whose call is one entry of a tape: functions with their own gradient rule, and
functions that are computed again for gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pykernels.call.autocast import casting, restored
from pykernels.call.drawing import states
from pykernels.device import Device, Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, TapeError
from pykernels.runtime.observe import Record, next_serial, recording_tapes
from pykernels.runtime.scopes import Scope, entered, leave
from pykernels.steps import Arg, Kernel
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import contiguous_layout

from ._backward import Taped
from ._entry import Bytes, Entry, Place, Written, place_of
from ._tape import Tape
from ._tree import leaves, rebuilt

__all__ = ["checkpoint", "custom_gradient"]

WITHIN = (
    "the loss depends on a source through a value inside of {}, which no tape recorded: compute it "
    "again from the arguments"
)


@dataclass(frozen=True)
class _Seen:
    """A call of a function: its results, the memory that existed before the call and that it read,
    and the memory that it wrote besides its results."""

    result: Any
    reads: list[list[Place]]  # the places of each allocation
    inside: list[Bytes]

    def form(self) -> Callable[[Taped], Any]:
        """Returns a function that builds the tree of the results' gradients, with zeros for results
        without a gradient. The returned function keeps no reference to the results."""
        like: list[tuple[Device, tuple[int, ...], DTypeName]]
        like = [(t.device, t.shape, t.dtype) for t in _tensors(self.result)]
        tree = rebuilt(self.result, iter(range(len(like))))

        def given(taped: Taped) -> Any:
            dys = [taped.dy(f"y{i}") for i in range(len(like))]
            pairs = zip(dys, like, strict=True)
            found = [of[0].zeros(of[1], of[2]) if dy is None else dy for dy, of in pairs]
            return rebuilt(tree, iter(found))

        return given


def custom_gradient(f: Callable[..., tuple[Any, Callable[..., Any]]]) -> Callable[..., Any]:
    """A function with its own gradient rule, like jax.custom_vjp, except that the function returns
    its rule.

        @pk.custom_gradient
        def clipped(x):
            def rule(dy):
                return (pk.clamp(dy, -1.0, 1.0),)
            return x * 2, rule

    No tape records the calls of f. Outer tapes record the calls of the rule, so gradients of
    gradients go through the rule; they do not go through values that f computed.

    Args:
        f: A function of any arguments. It returns a pair: its result (a Tensor or a tree of
            Tensors) and a rule. The rule takes the gradient of the result, a tree of the same
            shape. It returns a tuple with the gradient of each argument of f: a Tensor, a tree for
            a tree, or None.

    Returns:
        A function of the same positional arguments that returns the result alone.

    Raises:
        ArgumentError: f does not return such a pair, or the rule returns another number of
            gradients.
        TapeError: f reads a tensor that is not an argument and that depends on a source.
    """
    _check_function(f, "custom_gradient")

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        rules: list[Callable[..., Any]] = []

        def first() -> Any:
            found = f(*args)
            if not (isinstance(found, tuple) and len(found) == 2 and callable(found[1])):
                raise ArgumentError("[custom_gradient] f must give a pair (result, rule)")
            rules.append(found[1])
            return found[0]

        if not recording_tapes():
            return first()
        seen = _seen(first)
        [rule] = rules
        given = [t for _, t in leaves(list(args), "args", "custom_gradient")]
        places = [place_of(t, False) if isinstance(t, Tensor) else None for t in given]
        own = [p for p in places if p is not None]
        besides = [p for places in seen.reads for p in places if not _covered(p, own)]
        rest = [*{p.bytes: p for p in besides}.values()]
        form, called = seen.form(), _name(f)

        def back(taped: Taped) -> None:
            for i in range(len(rest)):
                if taped.wants(f"c{i}"):
                    raise TapeError(
                        f"[tape] {called} reads a tensor that depends on a source but is no "
                        "argument: make it an argument"
                    )
            grads = rule(form(taped))
            if not isinstance(grads, tuple) or len(grads) != len(args):
                raise ArgumentError(
                    f"[custom_gradient] the rule must give a tuple of {len(args)} gradients but "
                    f"gave {type_name(grads)}"
                )
            for i, grad in enumerate(_aligned(args, grads)):
                if places[i] is not None:
                    taped.give(f"a{i}", grad)

        inputs = {f"a{i}": p for i, p in enumerate(places) if p is not None}
        inputs |= {f"c{i}": p for i, p in enumerate(rest)}
        _keep(_name(f), back, inputs, seen)
        return seen.result

    return call


def checkpoint(f: Callable[..., Any], *args: Any) -> Any:
    """Call f, and compute it again for gradients instead of keeping its intermediate results.

    A tape keeps the arguments and none of the tensors that f computes. When the gradient is
    computed, f is called once more. Tensors that f reads without getting them as arguments also get
    gradients. Random numbers are the same in both calls: the second call draws from a copy of the
    device's state.

    Args:
        f: A function of any arguments that returns a Tensor or a tree of Tensors.
        args: Its arguments.

    Returns:
        The result of f.

    Raises:
        ArgumentError: f is not a function.
        TapeError: raised by `gradient` if a tensor that f reads was written after the call.
    """
    _check_function(f, "checkpoint")
    if not recording_tapes():
        return f(*args)
    kept: dict[Device, Tensor] = {}
    cast = casting()

    def noted(device: Device, own: Tensor) -> Tensor:
        if device not in kept:
            kept[device] = own.copy()
        return own

    with _drawing(noted):
        seen = _seen(lambda: f(*args))
    serial, reads = next_serial(), [_whole(places) for places in seen.reads]

    def back(taped: Taped) -> None:
        for place in reads:
            if place.record.written_since(serial, *place.window):
                raise TapeError(
                    f"[tape] {_name(f)} is computed again, but a tensor that it reads was written "
                    "since: work on a copy, or ask for the gradient before"
                )
        copies = {device: state.copy() for device, state in kept.items()}
        draws = _drawing(lambda device, own: copies.get(device, own))
        with restored(cast), draws, Tape() as tape:
            again = _tensors(f(*args))
        dys = [taped.dy(f"y{i}") for i in range(len(again))]
        losses = [
            (place_of(t, False), dy) for t, dy in zip(again, dys, strict=True) if dy is not None
        ]
        wanted = [i for i in range(len(reads)) if taped.wants(f"a{i}")]
        found = tape._through(losses, [reads[i] for i in wanted])
        for i, grad in zip(wanted, found, strict=True):
            taped.give(f"a{i}", grad)

    _keep(_name(f), back, {f"a{i}": p for i, p in enumerate(reads)}, seen)
    return seen.result


def _check_function(f: object, op: str) -> None:
    if not callable(f):
        raise ArgumentError(f"[{op}] f must be a function but is {type_name(f)}")


def _name(f: object) -> str:
    return str(getattr(f, "__name__", "the function"))


def _tensors(tree: Any) -> list[Tensor]:
    """The Tensors of a tree of results."""
    found = [t for _, t in leaves(tree, "result", "f")]
    for t in found:
        if not isinstance(t, Tensor):
            raise ArgumentError(f"[f] the result must be made of Tensors but has {type_name(t)}")
    return found


@contextmanager
def _drawing(source: Callable[[Device, Tensor], Tensor]) -> Iterator[None]:
    """A block in which calls draw random numbers from copies of the random states."""
    token = states.set(source)
    try:
        yield
    finally:
        states.reset(token)


def _seen(f: Callable[[], Any]) -> _Seen:
    """Call a function without recording its calls, and note the memory that it reads and writes."""
    scope = Scope("gradient", frozenset())
    try:
        entered.set(scope)
        with Tape() as tape:
            result = f()
            made, before = _made_and_read(tape)
            taken: list[Place] = []
            own = []
            # copied: a result that the call did not write, or that overlaps another result
            for t in _tensors(result):
                place = place_of(t, False)
                if place.record not in made or any(_overlap(place, p) for p in taken):
                    t = t.copy()
                taken.append(place_of(t, False))
                own.append(t)
            result = rebuilt(result, iter(own))
    finally:
        scope.open = False
        leave(scope)
    outputs = {p.record for p in taken}
    inside = [bytes_ for record, found in made.items() if record not in outputs for bytes_ in found]
    return _Seen(result, before, inside)


def _made_and_read(tape: Tape) -> tuple[dict[Record, list[Bytes]], list[list[Place]]]:
    """The bytes written in each allocation; and for each other allocation, the places read."""
    made: dict[Record, list[Bytes]] = {}
    read: dict[Record, list[Place]] = {}
    for entry in tape.entries:
        if not isinstance(entry, Entry):
            continue
        for place in entry.inputs:
            if place.flows and place.record not in made:
                read.setdefault(place.record, []).append(place)
        for place in entry.outputs:
            if place.record in read:
                raise TapeError(
                    f"[tape] {entry.kernel.name} writes to a tensor that existed before"
                    f"{entry.at}: a function that is recorded as one call must not"
                )
            if place.flows:
                made.setdefault(place.record, []).append(place.bytes)
    return made, [*read.values()]


def _whole(places: Sequence[Place]) -> Place:
    """One place with all bytes from the first to the last of several places of one allocation."""
    lo, hi = min(p.window[0] for p in places), max(p.window[1] for p in places)
    dtype = places[0].layout.dtype
    return Place(
        places[0].record, contiguous_layout(((hi - lo) // dtype.itemsize,), dtype), lo, None
    )


def _overlap(p: Place, q: Place) -> bool:
    return p.overlaps(q)


def _covered(p: Place, places: Sequence[Place]) -> bool:
    """True if the bytes of one of the places include all bytes of p."""
    start, end = p.window
    same = [q.window for q in places if q.record is p.record]
    return any(w.start <= start and end <= w.end for w in same)


def _keep(
    name: str, rule: Callable[[Taped], None], inputs: Mapping[str, Place], seen: _Seen
) -> None:
    """Add the call as one entry to each tape that records."""
    outputs = {f"y{i}": place_of(t, False) for i, t in enumerate(_tensors(seen.result))}
    args = [Arg(n, "in", (p.layout.dtype.name,)) for n, p in inputs.items()]
    args += [Arg(n, "out", (p.layout.dtype.name,)) for n, p in outputs.items()]
    kernel = Kernel(name, "", tuple(args), (), _no_plan, _nothing, _nothing)
    reads = [p.bytes for p in inputs.values()]
    serial = next_serial()
    for tape in recording_tapes():
        assert isinstance(tape, Tape)
        entry = Entry.of(kernel, rule, (*inputs.values(), *outputs.values()), serial)
        tape._keep(entry, Written(reads, seen.inside, WITHIN.format(name)))


def _no_plan(*_: Any) -> Any:
    raise AssertionError("no kernel of its own")


def _nothing(*_: Any, **__: Any) -> int:
    return 0


def _aligned(args: tuple[Any, ...], grads: tuple[Any, ...]) -> list[Any]:
    """The gradients in the order of the leaves of the arguments. If an argument has None in place
    of a tree of gradients, the gradients of all its leaves are None."""
    found: list[Any] = []
    for i, (arg, grad) in enumerate(zip(args, grads, strict=True)):
        own = leaves(arg, f"args[{i}]", "custom_gradient")
        given = leaves(grad, f"gradient {i}", "custom_gradient") if grad is not None else []
        if grad is not None and len(given) != len(own):
            raise ArgumentError(
                f"[custom_gradient] the rule must give a gradient for each of the {len(own)} "
                f"leaves of argument {i} but gave {len(given)}"
            )
        found += [g for _, g in given] if grad is not None else [None] * len(own)
    return found
