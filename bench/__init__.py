"""Benchmarks that need the checkout: one file per kernel, named shapes, peers.

The core (clock, ceilings, tables) is `pykernels.bench`. A file `bench_NAME.py` has `cases(edge)`,
`PEERS`, and a pytest function made by `bench.form`. `pykernels bench` finds them here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from bench import shapes
from pykernels.bench.case import Case, Loaded
from pykernels.bench.clock import GpuSample, Sample
from pykernels.bench.run import Peer

__all__ = ["cases", "config_peer", "files", "is_main", "peers"]


def files() -> list[ModuleType]:
    """The modules bench_*.py."""
    names = sorted(p.stem for p in Path(__file__).parent.glob("bench_*.py"))
    return [importlib.import_module(f"bench.{name}") for name in names]


def cases(edge: int = 0) -> Iterator[Case]:
    """All cases of all files, their sizes cut to `edge` where it is given."""
    for module in files():
        yield from module.cases(edge)


def is_main(case: Case) -> bool:
    """Is it one of the cases that stand for their kernel? All that are cut are."""
    return case.id in shapes.MAIN[case.kernel] or case.id not in _ids()


@cache
def _ids() -> frozenset[str]:
    return frozenset(case.id for case in cases())


def config_peer(kernel: str, config: str) -> Peer:
    """The kernel itself with another choice of its plan, named as its bench file says.

    Raises ValueError where the file has no `chosen`.
    """
    modules = [m for m in files() if any(c.kernel == kernel for c in m.cases(32))]
    chosen = getattr(modules[0], "chosen", None) if modules else None
    if chosen is None:
        raise ValueError(f"the bench of {kernel} knows no configurations")

    def start(loaded: Loaded) -> tuple[Sample, str]:
        dev, plain = loaded.dev, GpuSample(loaded.dev, loaded)

        def sample(n: int) -> float:
            with chosen(dev, config):
                return plain(n)

        with chosen(dev, config):
            loaded.check()
        return sample, plain.clock

    return start


def peers() -> dict[str, dict[str, Peer]]:
    """The peers by kernel and name."""
    found: dict[str, dict[str, Peer]] = {}
    for module in files():
        for case in module.cases(32):
            found.setdefault(case.kernel, dict(module.PEERS))
    return found
