"""Memory for the gradients of windows that together are one output.

An example is one product that computes queries, keys and values. A rule may write the gradient of
one window directly to its place among the other windows. When all windows are written, this memory
is the gradient of the output, without zeros, copies or sums.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from pykernels.device import Tensor
from pykernels.runtime.observe import Record
from pykernels.runtime.overlap import overlaps_itself, share_elements
from pykernels.tensors.layout import Layout, View, contiguous_layout

from ._entry import Place

__all__ = ["Room", "Rooms"]


class Room:
    """The memory for the gradient of an output, created when a rule asks for its last windows.

    Attributes:
        flat: all elements, in the order of memory.
        lent: the windows that rules write, each with True if its gradient was given.
    """

    __slots__ = ("_whole", "flat", "lent")

    def __init__(self, whole: Place, like: Tensor) -> None:
        self._whole = whole
        self.flat = like._fresh(contiguous_layout((whole.layout.size,), whole.layout.dtype))
        self.lent: dict[tuple[Layout, int], bool] = {}

    @property
    def place(self) -> Place:
        """The whole memory, as one axis."""
        return Place(self._whole.record, self.flat._layout, self._whole.window[0], None)

    def lend(self, lay: Layout, offset: int, given: bool = False) -> Tensor:
        """The memory of a window, which a rule will write."""
        self.lent[lay, offset] = given
        return self.window(lay, offset)

    def window(self, lay: Layout, offset: int, flat: Tensor | None = None) -> Tensor:
        """The memory of a window, as a view of `flat` or of another tensor of the same size."""
        of = self.flat if flat is None else flat
        return of._view(lay.shape, lay.strides, of._offset + offset - self._whole.window[0])

    def holds(self, place: Place, grad: Tensor) -> bool:
        """True if this is the gradient of a lent window, lies in the window's memory, and is given
        for the first time."""
        if self.lent.get((place.layout, place.offset)) is not False:
            return False
        shift = self.flat._offset - self._whole.window[0]
        in_memory = grad._storage is self.flat._storage and grad._offset == place.offset + shift
        return in_memory and grad._layout is place.layout


class Rooms:
    """The rooms of a backward pass. `wholes` are the outputs whose memory was written only once,
    and whose gradients the caller does not ask for."""

    def __init__(self, wholes: Mapping[Record, Place]) -> None:
        self._wholes = dict(wholes)
        self.open: dict[Record, Room] = {}

    def may(self, place: Place) -> bool:
        """True if this is a window of a larger output that may have a room and has none yet."""
        whole = self._wholes.get(place.record)
        if whole is None or place.record in self.open:
            return False
        return _fits(place.layout, whole.layout, place.offset - whole.offset)

    def make(self, windows: Sequence[tuple[Layout, int]], record: Record, like: Tensor) -> bool:
        """Open a room if these windows (each a layout and its first byte) cover each element of the
        output exactly once; return True if it was opened. Other windows would need zeros or sums,
        and memory at an earlier time."""
        whole = self._wholes[record]
        if sum(lay.size for lay, _ in windows) != whole.layout.size:
            return False
        for n, (lay, offset) in enumerate(windows):
            if not _fits(lay, whole.layout, offset - whole.offset):
                return False
            if any(_share(lay, other, offset - at) for other, at in windows[:n]):
                return False
        self.open[record] = Room(whole, like)
        return True

    def close(self, record: Record) -> None:
        """Close the room of an output."""
        self.open.pop(record, None)
        self._wholes.pop(record, None)


@functools.lru_cache(maxsize=4096)
def _fits(lay: Layout, whole: Layout, start: int) -> bool:
    """True if this is a smaller window of a contiguous tensor."""
    if lay.size >= whole.size or not lay.size or lay.dtype is not whole.dtype:
        return False
    if any(step <= 0 for n, step in zip(lay.shape, lay.strides, strict=True) if n > 1):
        return False
    dense = whole.hi - whole.lo == whole.nbytes and not overlaps_itself(whole)
    inside = whole.lo <= start + lay.lo and start + lay.hi <= whole.hi
    return dense and inside and not overlaps_itself(lay)


@functools.lru_cache(maxsize=4096)
def _share(a: Layout, b: Layout, start: int) -> bool:
    """True if two windows share an element. `start` is the distance from the first byte of b to the
    first byte of a."""
    one = View(0, a.dtype, a.shape, a.strides, start)
    return share_elements(one, View(1, b.dtype, b.shape, b.strides, 0))
