"""The data of a dispatch that does not depend on its buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pykernels.contract import GRID_MAX, GRID_ROW
from pykernels.errors import LimitError
from pykernels.wgsl.watch import Watch

from .pipelines import Pipeline
from .resources import TextureBlock

__all__ = ["Dispatch", "Prepared", "fold"]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One step, ready to be recorded: everything that does not depend on the buffers."""

    label: str
    refs: tuple[tuple[Any, int, int], ...]  # entry, slot, offset relative to the tensor's offset
    written: tuple[bool, ...]  # for each entry of `refs`: True if it is bound writable
    uniform_entry: Any
    descriptor: Any  # descriptor of the bind group; each launch fills in its entries
    keep: tuple[Any, ...]
    pipeline: Pipeline
    grid: tuple[int, int, int]  # workgroups along x, y and z
    prefix: bytes
    nbytes: int  # bytes that the storage bindings cover
    pack_into: Callable[..., None]  # writes the scalars of the call after `prefix`
    pick: tuple[int, ...] | None  # positions of the call's scalars that this step takes; None: all
    formats: str  # the struct formats of these scalars
    operations: int = 0  # operations of the whole call, given to the kernel's last step only
    op: str = ""  # the kernel
    watch: Watch | None = None  # if set, the launch takes a slot for indices out of range
    page_entry: Any = None
    textures: tuple[TextureBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call, planned and lowered: its dispatches in order and the sizes of its temporaries.

    If temporaries replace inputs or outputs, the copies are dispatches too: copies of inputs come
    before the dispatches of the kernel, copies of outputs after them.
    """

    dispatches: tuple[Dispatch, ...]
    scratch: tuple[int, ...]
    arity: int  # number of the call's scalars
    written: tuple[int, ...]  # positions of the tensors that the call writes
    keeps: bool  # True if an output keeps its old elements where an index is out of range

    def compile(self) -> None:
        """Compile the pipelines that are not compiled yet."""
        for d in self.dispatches:
            d.pipeline.compile()

    @property
    def watched(self) -> tuple[tuple[str, Watch], ...]:
        """The dispatches that report indices out of range."""
        return tuple((d.op, d.watch) for d in self.dispatches if d.watch is not None)

    @property
    def reports(self) -> bool:
        """True if a dispatch binds the page of faults."""
        return any(d.page_entry is not None for d in self.dispatches)

    @property
    def textures(self) -> bool:
        """True if a dispatch binds textures of the caller, which no cache may keep."""
        return any(d.textures for d in self.dispatches)

    @property
    def scalars(self) -> tuple[tuple[int, str], ...]:
        """The call's scalars that its dispatches use, each with its format."""
        found: dict[tuple[int, str], None] = {}
        for d in self.dispatches:
            taken = range(len(d.formats)) if d.pick is None else d.pick
            found |= dict.fromkeys(zip(taken, d.formats, strict=True))
        return tuple(found)

    @property
    def nbytes(self) -> int:
        return sum(d.nbytes for d in self.dispatches)

    @property
    def operations(self) -> int:
        return sum(d.operations for d in self.dispatches)


def fold(op: str, groups: int, limit: int) -> tuple[int, int]:
    """A number of workgroups as a grid (x, y): one row if they fit, else rows of GRID_ROW
    workgroups. In the texts, `group_id` computes the number of a workgroup from its place."""
    if groups <= limit:
        return groups, 1
    rows = -(-groups // GRID_ROW)
    if rows > GRID_MAX:
        raise LimitError(
            f"[{op}] {groups} workgroups are more than a grid of {GRID_ROW} x {GRID_MAX}"
        )
    return GRID_ROW, rows
