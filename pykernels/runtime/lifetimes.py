"""The memory of a captured program: for each block, the first and the last call that use it, and
its place.

A tensor that exists when the capture ends keeps a buffer of its own. All other memory made inside
lives from its first call to its last call, and shares buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .blocks import Arena, Block
from .memory import Pool
from .placement import METHODS, Method, Placement, Value, live_bytes, place

__all__ = ["ProgramMemory", "planned"]

# above this many values only best fit is tried; placing this many by size takes about a second
MANY = 4096
# a placement is good enough if it needs at most this factor times the bytes that live at once
NEAR = 1.001


@dataclass(frozen=True)
class ProgramMemory:
    """The memory of a captured program, in bytes. Tensors made outside are not counted.

    Attributes:
        calls: The kernel of each call.
        live: The bytes in use at each call, tensors that are kept included.
        kept: The bytes of tensors made inside that existed at the end of the capture. Each has its
            own buffer.
        shared: The buffers that the other memory shares.
        bound: The largest of `live`; no placement can use less memory.
        methods: The bytes of `shared` for each placement method; the smallest was chosen.
    """

    calls: tuple[str, ...]
    live: tuple[int, ...]
    kept: int
    shared: tuple[int, ...]
    bound: int
    methods: Mapping[str, int]

    @property
    def nbytes(self) -> int:
        """The bytes of the program."""
        return self.kept + sum(self.shared)

    @property
    def ratio(self) -> float:
        """The bytes of the program, relative to `bound`."""
        return self.nbytes / self.bound if self.bound else 1.0

    def __str__(self) -> str:
        found = ", ".join(f"{n:,} by {name}" for name, n in self.methods.items())
        lines = [
            f"{self.nbytes:,} bytes: {self.kept:,} of tensors that are kept, "
            f"{sum(self.shared):,} in {len(self.shared)} shared buffers ({found})",
            f"{self.bound:,} bytes in use at once; {self.ratio:.2f} of them are taken",
            "",
            f"{'call':>6} {'bytes in use':>16}  kernel",
        ]
        rows = zip(self.live, self.calls, strict=True)
        return "\n".join([*lines, *(f"{i:6} {n:16,}  {name}" for i, (n, name) in enumerate(rows))])

    def plot(self, path: str | Path) -> None:
        """Draw the bytes in use over the calls, with matplotlib.

        Args:
            path: The file of the picture.
        """
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 3.4), layout="tight")
        axes: Any = figure.subplots()
        mib = [n / 2**20 for n in self.live]
        axes.fill_between(range(len(mib)), mib, step="mid", alpha=0.4, label="in use")
        axes.axhline(self.nbytes / 2**20, color="black", linestyle="dashed", label="taken")
        axes.axhline(self.kept / 2**20, color="0.5", linewidth=1, label="kept")
        axes.set(xlabel="call", ylabel="MiB", ylim=0)
        axes.legend()
        figure.savefig(path, dpi=100)


def planned(
    pool: Pool, arena: Arena, captured: Sequence[Any]
) -> tuple[dict[Block, tuple[Block, int]], ProgramMemory]:
    """Place the blocks that were made inside a capture and share buffers. Returns for each block
    its buffer and first byte, and the memory of the program."""
    pool.collect()
    uses: dict[Block, list[int]] = {}
    for i, c in enumerate(captured):
        for p in (*c.places, *c.scratch):
            if p is not None:
                uses.setdefault(p._block, []).append(i)
    blocks = [b for b in uses if b.arena is arena and b.promised and not pool.held(b)]
    values = [Value(b.size, uses[b][0], uses[b][-1]) for b in blocks]
    apart = _apart({b: i for i, b in enumerate(blocks)}, captured)
    least = max(live_bytes(values, len(captured)), default=0)
    found: dict[Method, Placement] = {}
    for m in METHODS if len(values) <= MANY else ("best fit",):
        if m != "drawn orders" or min(p.nbytes for p in found.values()) > NEAR * least:
            found[m] = place(values, apart, pool.buffers.largest, m)
    best = min(found.values(), key=lambda p: p.nbytes)
    shared = pool.settle_arena(arena, best.sizes)
    kept = arena.nbytes - sum(best.sizes)
    live = [kept + n for n in live_bytes(values, len(captured))]
    memory = ProgramMemory(
        tuple(_name(c) for c in captured), tuple(live), kept, best.sizes, max(live, default=kept),
        {m: p.nbytes for m, p in found.items()},
    )  # fmt: skip
    places = zip(blocks, best.places, strict=True)
    return {b: (shared[n], at) for b, (n, at) in places}, memory


def _apart(number: Mapping[Block, int], captured: Sequence[Any]) -> list[set[int]]:
    """For each block, the blocks that must be in another buffer: WebGPU refuses a buffer that one
    dispatch binds both read-only and writable."""
    apart: list[set[int]] = [set() for _ in number]
    for c in captured:
        for d in c.prepared.dispatches:
            bound: tuple[set[int], set[int]] = (set(), set())
            for (_, slot, _), written in zip(d.refs, d.written, strict=True):
                block = (c.places[slot] if slot >= 0 else c.scratch[~slot])._block
                if block in number:
                    bound[written].add(number[block])
            for i in bound[False]:
                apart[i] |= bound[True] - {i}
            for i in bound[True]:
                apart[i] |= bound[False] - {i}
    return apart


def _name(c: Any) -> str:
    dispatches = c.prepared.dispatches
    return dispatches[-1].op if dispatches else ""
