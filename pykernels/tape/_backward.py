"""Computes the gradients of sources from the gradient of a loss: it applies the rules of the calls
between them, beginning with the last call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pykernels import functional as F
from pykernels.device import Tensor
from pykernels.errors import ShapeError, TapeError
from pykernels.runtime.observe import Record, outputs, recording
from pykernels.steps import Kernel
from pykernels.tensors.layout import Ints, Window, layout

from ._entry import GRADIENT, Bytes, Entry, Place, Written, positions
from ._rooms import Rooms
from ._sums import Sums

__all__ = ["Taped", "gradients"]


class Taped:
    """A recorded call, as its gradient rule sees it. Arguments, options and scalars have the names
    that they have in the kernel.

    The calls that a rule makes are recorded only by tapes that were entered before its own tape.
    """

    __slots__ = ("_at", "_dys", "_entry", "_sums", "_wanted", "_whole", "given")

    def __init__(
        self, entry: Entry, dys: Mapping[str, Tensor | None], wanted: frozenset[str], sums: Sums
    ) -> None:
        self._entry, self._dys, self._wanted, self._sums = entry, dys, wanted, sums
        self._at = positions(entry.kernel)
        self._whole: set[str] = set()
        # place and gradient; True if the gradient includes the earlier gradients of the place
        self.given: list[tuple[Place, Tensor, bool]] = []

    @property
    def kernel(self) -> Kernel:
        """The kernel that was called."""
        return self._entry.kernel

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its arguments."""
        return tuple(self._at)

    def dy(self, name: str = "dst") -> Any:
        """The gradient of an output, a Tensor; None if no gradient reached it (never for the only
        output)."""
        return self._dys.get(name)

    def wants(self, name: str) -> bool:
        """True if an argument depends on a source. For an output, this is about its content before
        the call."""
        return name in self._wanted

    def saved(self, name: str) -> Any:
        """The tensor of an argument, None if the call had none.

        Raises:
            TapeError: the tensor was written after the call.
        """
        place = self._place(name)
        if place is None:
            return None
        if place.tensor is None:
            raise TapeError(
                f"[tape] the gradient rule of {self.kernel.name} does not keep {name}"
                f"{self._entry.at}"
            )
        own = self._at[name] in outputs(self.kernel)
        if place.record.written_since(self._entry.serial + own, place.lo, place.hi):
            raise TapeError(
                f"[tape] the gradient of {self.kernel.name} needs its argument {name}, which was "
                "written since: work on a copy, or ask for the gradient before" + self._entry.at
            )
        return place.tensor

    def shape(self, name: str) -> Ints | None:
        """The shape of an argument, None if the call had none."""
        place = self._place(name)
        return None if place is None else place.layout.shape

    def is_complex(self, name: str) -> bool:
        """True for a complex argument, whose shape and gradient have pairs of real and imaginary
        parts."""
        place = self._place(name)
        return place is not None and place.pairs

    def option(self, name: str) -> Any:
        """A static option of the call."""
        return self._entry.options[self.kernel.options.index(name)]

    def scalar(self, name: str) -> float:
        """The number that the call passes as this argument."""
        scalars: tuple[float, ...] = self._entry.scalars
        return scalars[self.kernel.scalars.index(name)]

    def repeats(self, name: str) -> Ints:
        """The axes along which an argument repeats one element (stride 0)."""
        place = self._place(name)
        assert place is not None
        pairs = zip(place.layout.shape, place.layout.strides, strict=True)
        return tuple([a for a, (n, s) in enumerate(pairs) if not s and n > 1])

    def room(self, *names: str) -> tuple[Any, ...]:
        """Memory for the gradients of arguments that are windows of one larger tensor. For each
        argument this is a Tensor of its shape, which the rule writes and then passes to `give`;
        None if there is no such memory."""
        places = {name: p for name in names if (p := self._place(name)) and name in self._wanted}
        like = next(dy for dy in self._dys.values() if dy is not None)
        found = dict(zip(places, self._sums.lend([*places.values()], like), strict=True))
        return tuple([found.get(name) for name in names])

    def earlier(self, name: str) -> Any:
        """The gradient that other calls have given to an argument, as a float32 Tensor of the
        argument's shape. A rule may add it to its own gradient and give the sum. None if there is
        no such gradient, or if a tape records the calls of the rule."""
        place = self._place(name)
        if place is None or name not in self._wanted or recording():
            return None
        others = [p for p in self._entry.places if p is not None and p.record is place.record]
        found = self._sums.partial(place) if len(others) == 1 else None
        if found is not None:
            self._whole.add(name)
        return found

    def give(self, name: str, gradient: Any, *, summed: Collection[int] = ()) -> None:
        """Add the gradient of an argument.

        It may have any float dtype, and the shape to which the argument was repeated (it is then
        summed) or a shape that repeats to the argument's shape. A gradient of None, or a gradient
        that no source needs, is ignored. `summed`: the axes of `repeats` along which the gradient
        is already summed, so that their size is 1.
        """
        place = self._place(name)
        if gradient is None or place is None or name not in self._wanted:
            return
        if summed:
            lay = place.layout
            shape = tuple([1 if a in summed else n for a, n in enumerate(lay.shape)])
            place = Place(place.record, layout(shape, lay.strides, lay.dtype), place.offset, None)
        lay = place.layout
        if gradient._layout.shape != lay.shape:
            gradient = _summed_to(gradient, lay.shape, self.kernel.name, name)
        if gradient._layout.dtype is not lay.dtype:
            gradient = gradient.astype(lay.dtype.name)
        self.given.append((place, gradient, name in self._whole))

    def _place(self, name: str) -> Place | None:
        return self._entry.places[self._at[name]]


def _summed_to(grad: Tensor, shape: Ints, op: str, name: str) -> Tensor:
    """A gradient with the shape to which an argument was repeated, summed to the argument's own
    shape."""
    extra = grad.ndim - len(shape)
    if extra > 0:
        grad = F.sum(grad, axis=tuple(range(extra)))
    elif extra < 0:
        grad = grad.reshape((1,) * -extra + grad.shape)
    # the sizes, in which an axis that repeats by modulo becomes two axes
    split: list[int] = []
    axes = []
    for n, m in zip(shape, grad.shape, strict=True):
        if m != n and m % max(n, 1) == 0 and m > n:
            axes.append(len(split))
            split += [m // n, n]
        elif m in (n, 1):
            split.append(m)
        else:
            raise ShapeError(
                f"[tape] {op}: the gradient of {name} must have shape {shape} but has {grad.shape}"
            )
    if axes:
        grad = F.sum(grad.reshape(split), axis=tuple(axes))
    return grad.broadcast_to(shape)


class _Reach:
    """The bytes that depend on the sources."""

    def __init__(self) -> None:
        self._windows: dict[Record, set[tuple[int, int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._windows)

    def add(self, record: Record, lo: int, hi: int) -> None:
        windows = self._windows.get(record)
        if windows is None:
            self._windows[record] = {(lo, hi)}
        else:
            windows.add((lo, hi))

    def holds(self, place: Place) -> bool:
        """True if a place shares bytes with these windows."""
        return place.record in self._windows and self.hits(place.record, place.lo, place.hi)

    def hits(self, record: Record, lo: int, hi: int) -> bool:
        windows = self._windows.get(record, ())
        return (lo, hi) in windows or any([a < hi and lo < b for a, b in windows])


def gradients(
    entries: Sequence[Entry | Written], losses: Sequence[tuple[Place, Tensor]],
    sources: Sequence[Place], release: bool = False,
) -> tuple[list[Tensor | None], list[Bytes]]:  # fmt: skip
    """The gradients of the sources from the gradients of the losses, None for a source that no loss
    depends on; and the memory from which they were computed. With `release`, an entry drops its
    tensors once the backward pass has used it."""
    writers: dict[Record, Place | None] = {}
    wanted = _wanted(entries, sources, writers)
    sums = Sums(_rooms(writers, [*sources, *[loss for loss, _ in losses]]))
    for loss, seed in losses:
        sums.add(loss, seed)
    found: dict[int, Tensor | None] = {}
    used: dict[Bytes, None] = {loss.bytes: None for loss, _ in losses}
    pending = {place.record for place in sources}
    for entry, names in zip(reversed(entries), reversed(wanted), strict=True):
        if isinstance(entry, Written):
            _settle(found, sources, sums, entry.writes)
            for window in entry.writes:
                if names and sums.reached(*window):
                    raise TapeError(f"[tape] {entry.refusal}")
                sums.clear(*window)
            continue
        args, dys = entry.kernel.args, dict[str, Tensor | None]()
        for i in outputs(entry.kernel):
            place = entry.places[i]
            if place is not None:
                if place.record in pending:
                    _settle(found, sources, sums, [place.bytes])
                dys[args[i].name] = sums.pop(place)
        if names and any(dy is not None for dy in dys.values()):
            used.update([(p.bytes, None) for p in entry.inputs if p.flows])
            for place, grad, whole in _applied(entry, dys, names, sums):
                (sums.replace if whole else sums.add)(place, grad)
        if release:
            dys.clear()
            entry.release()
    results = [found[i] if i in found else sums.take(s) for i, s in enumerate(sources)]
    return results, [*used]


def _wanted(
    entries: Sequence[Entry | Written], sources: Sequence[Place],
    writers: dict[Record, Place | None],
) -> list[frozenset[str]]:  # fmt: skip
    """For each entry, the arguments that depend on the sources. `writers` gets, for each
    allocation, the output that wrote it, or None if it was written more than once.

    Results of `gradient` may also depend on the sources. But a tensor that was created outside of
    the tape and is updated in place, as in `w -= rate * dw`, does not depend on them, because its
    new elements count as a new value.
    """
    reach, derived, made = _Reach(), _Reach(), _Reach()
    for source in sources:
        reach.add(*source.bytes)
    wanted: list[frozenset[str]] = []
    for entry in entries:
        if isinstance(entry, Written):
            for record, _, _ in entry.writes:
                writers[record] = None
            reads = entry.reads if entry.refusal else ()
            depends = any(reach.hits(*window) or derived.hits(*window) for window in reads)
            wanted.append(frozenset({"reads"} if depends else ()))
            if depends:
                for window in entry.writes:
                    (derived if entry.refusal is GRADIENT else reach).add(*window)
            continue
        flows = [
            (name, p)
            for name, p in zip(positions(entry.kernel), entry.places, strict=True)
            if p is not None and p.flows
        ]
        written = entry.outputs
        names = frozenset([name for name, p in flows if reach.holds(p)])
        update = entry.in_place and not any([made.holds(p) for p in written])
        through: frozenset[str] = frozenset()
        if derived and not update:
            through = frozenset([name for name, p in flows if derived.holds(p)])
        wanted.append(names | through if through else names)
        for p in written:
            writers[p.record] = None if p.record in writers else p
            if not update:
                made.add(*p.bytes)
            if p.flows:
                if names:
                    reach.add(*p.bytes)
                if through:
                    derived.add(*p.bytes)
    return wanted


def _settle(
    found: dict[int, Tensor | None], sources: Sequence[Place], sums: Sums,
    windows: Sequence[tuple[Record, int, int]],
) -> None:  # fmt: skip
    """Take the gradients of the sources that this call writes, because before the call the sources
    had other values."""
    for i, source in enumerate(sources):
        own = [Window(a, b) for r, a, b in windows if r is source.record]
        if i not in found and any(w.overlaps(source.window) for w in own):
            found[i] = sums.take(source)


def _rooms(writers: Mapping[Record, Place | None], asked: Sequence[Place]) -> Rooms:
    """The rooms for this backward pass: an output may have a room if the caller does not ask for
    its gradient. There are no rooms while a tape records, because that tape would see the same
    memory written twice."""
    if recording():
        return Rooms({})
    whole = {record: place for record, place in writers.items() if place is not None}
    for place in asked:
        whole.pop(place.record, None)
    return Rooms(whole)


def _applied(
    entry: Entry, dys: Mapping[str, Tensor | None], names: frozenset[str], sums: Sums
) -> list[tuple[Place, Tensor, bool]]:
    """Run the rule of a call, which gives gradients."""
    kernel = entry.kernel
    if not entry.done:
        raise TapeError(
            f"[tape] the call of {kernel.name} was interrupted: its result is unknown{entry.at}"
        )
    if entry.rule is None:
        if not any(arg.role == "in" and arg.name in names for arg in kernel.args):
            return []
        raise TapeError(f"[tape] {kernel.name} has no gradient rule{entry.at}")
    if any(p is not None and p.pairs for p in entry.places) and not hasattr(entry.rule, "pairs"):
        raise TapeError(f"[tape] {kernel.name} has no gradient rule for complex64{entry.at}")
    taped = Taped(entry, dys, names, sums)
    entry.rule(taped)
    return taped.given
