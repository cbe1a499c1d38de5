"""Which cases run in the short mode: by hash and committed costs, never by the clock.

Every kernel has SECONDS a column for each of its bodies. A case marked `sample` pays for itself,
and for each variant that no case of this kernel has used before, by the milliseconds that
`tests/costs.toml` has for the body and the column; one that cannot pay is skipped. Cases come in
the order of their hashes, those of each test in turn, so that columns differ and every test of a
kernel gets some. A case of variants that are there already costs little, so most of those run.
"""

from __future__ import annotations

import json
import tomllib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["CASE", "COSTS", "SECONDS", "VARIANT", "Budget", "kernel_of", "read_costs", "turns"]

SECONDS = 3.0
# Milliseconds where nothing was measured: of a case without new variants, and of a variant.
CASE, VARIANT = 20.0, 250.0
COSTS = Path(__file__).with_name("costs.toml")
_MANIFEST = Path(__file__).parents[1] / "pykernels" / "_generated" / "manifest.json"


def read_costs(column: str, path: Path = COSTS) -> dict[str, dict[str, float]]:
    """Milliseconds of a column: `variants` by body, and `cases` by file and test."""
    with path.open("rb") as file:
        found = tomllib.load(file).get(column, {})
    return {"variants": {}, "cases": {}} | found


def kernel_of(path: Path, kernels: Iterable[str]) -> str:
    """The kernel that a test file is about: the longest name that its name begins with."""
    name = path.stem.removeprefix("test_")
    return max((k for k in kernels if f"{name}_".startswith(f"{k}_")), key=len, default=name)


def turns(names: Sequence[str], column: str) -> list[str]:
    """Names of cases in the order in which they may run: a case of each test in turn."""
    place: dict[str, int] = defaultdict(int)
    order = []
    for name in sorted(names, key=lambda n: zlib.crc32(f"{column}:{n}".encode())):
        test = name.partition("[")[0]
        order.append((place[test], len(order), name))
        place[test] += 1
    return [name for _, _, name in sorted(order)]


class Budget:
    """What the cases of one column may still cost, by kernel."""

    def __init__(self, costs: dict[str, dict[str, float]], bodies: dict[str, int]) -> None:
        self._variants, self._cases = costs["variants"], costs["cases"]
        self.kernels = bodies
        self._left: dict[str, float] = {}
        self._seen: dict[str, set[str]] = defaultdict(set)

    @classmethod
    def of_column(cls, column: str) -> Budget:
        kernels: dict[str, Any] = json.loads(_MANIFEST.read_text(encoding="utf-8"))["kernels"]
        return cls(read_costs(column), {name: len(k["bodies"]) for name, k in kernels.items()})

    def start(self, kernel: str, test: str) -> bool:
        """May a case of this test run? It pays for itself."""
        return self._pay(kernel, self._cases.get(test, CASE))

    def use(self, kernel: str, body: str, key: str, sampled: bool) -> bool:
        """May it use this variant? Only a sampled case pays for one that is new to the kernel."""
        seen = self._seen[kernel]
        variant = f"{body} {key}"
        if variant not in seen:
            if sampled and not self._pay(kernel, self._variants.get(body, VARIANT)):
                return False
            seen.add(variant)
        return True

    def _pay(self, kernel: str, cost: float) -> bool:
        left = self._left.setdefault(kernel, 1e3 * SECONDS * self.kernels.get(kernel, 1))
        if cost > left:
            return False
        self._left[kernel] = left - cost
        return True
