"""Which cases run in the short mode: by hash and committed costs, never by the clock.

A kernel has seconds in each column for each of its bodies: what a tenth of the body's texts cost
there, 10 to 40 of them (VARIANTS), but 2 to 20 seconds; a row of ops.toml has ROW. A case marked
`sample` pays for itself, and for each variant that no case of this kernel has used before, by the
milliseconds that `tests/costs.toml` has for the body and the column; one that cannot pay is
skipped, but for the first of its test, which runs whatever it costs. Cases come in the order of
their hashes, those of each test in turn, and the files of a kernel divide its seconds by their
tests, so that columns differ. A case of variants that are there already costs little.
"""

from __future__ import annotations

import json
import tomllib
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "CASE",
    "COSTS",
    "MANIFEST",
    "SECONDS",
    "VARIANT",
    "Budget",
    "kernel_of",
    "read_costs",
    "turns",
]

VARIANTS, SECONDS, ROW = (10, 40), (2.0, 20.0), 0.3
# Milliseconds where nothing was measured: of a case without new variants, and of a variant.
CASE, VARIANT = 20.0, 250.0
COSTS = Path(__file__).with_name("costs.toml")
MANIFEST = Path(__file__).parents[1] / "pykernels" / "_generated" / "manifest.json"


def read_costs(column: str, path: Path = COSTS) -> dict[str, dict[str, float]]:
    """Milliseconds of a column: `variants` by body, and `cases` by file and test. A price that it
    lacks is that of another column of its driver."""
    measured = path.read_text(encoding="utf-8") if path.is_file() else ""
    columns = tomllib.loads(measured)
    driver = column.partition("-")[2]
    near = [table for name, table in columns.items() if name.partition("-")[2] == driver]
    found: dict[str, dict[str, float]] = {"variants": {}, "cases": {}}
    for table in (*near, columns.get(column, {})):
        for kind, prices in table.items():
            found[kind] |= prices
    return found


def kernel_of(node: str, kernels: Collection[str]) -> str:
    """The kernel that a case is about: the longest name that the name of its file begins with, or
    in a file about many the first of its parameters; else, and elsewhere, the name of the file."""
    file, _, test = node.partition("::")
    name = Path(file).stem.removeprefix("test_")
    if not file.startswith("tests/kernels/"):
        return name
    first = test.partition("[")[2].removesuffix("]").partition("-")[0]
    found = [k for k in kernels if f"{name}_".startswith(f"{k}_")]
    return max(found, key=len) if found else first if first in kernels else name


def turns(names: Sequence[str], column: str) -> list[str]:
    """Names of cases in the order in which they may run: a case of each test in turn."""
    place: dict[str, int] = defaultdict(int)
    order = []
    for name in sorted(names, key=lambda n: zlib.crc32(f"{column}:{n}".encode())):
        test = name.partition("[")[0]
        order.append((place[test], len(order), name))
        place[test] += 1
    return [name for _, _, name in sorted(order)]


def share(price: float = VARIANT, texts: int = 1) -> float:
    """The seconds that a kernel gets for one of its bodies, by the price of a variant."""
    return _within(SECONDS, _within(VARIANTS, texts / 10) * price / 1e3)


def _within(limits: tuple[float, float], value: float) -> float:
    return min(max(value, limits[0]), limits[1])


class Budget:
    """What the cases of one column may still cost; `kernels` has the seconds of each."""

    def __init__(self, costs: dict[str, dict[str, float]], kernels: dict[str, float]) -> None:
        self._variants, self._cases = costs["variants"], costs["cases"]
        self.kernels = kernels
        self._left: dict[tuple[str, str], float] = {}
        self._parts: dict[tuple[str, str], float] = {}
        self._seen: dict[str, set[str]] = defaultdict(set)
        self._begun: set[str] = set()
        self._free = False  # is this the first case of its test?

    @classmethod
    def of_column(cls, column: str) -> Budget:
        manifest: dict[str, Any] = json.loads(MANIFEST.read_text(encoding="utf-8"))
        costs = read_costs(column)
        shares = {
            body: share(costs["variants"].get(body, VARIANT), len(texts))
            for body, texts in manifest["variants"].items()
        }
        seconds = {
            name: ROW if k["fixed_axes"] else sum(shares[body] for body in k["bodies"])
            for name, k in manifest["kernels"].items()
        }
        return cls(costs, seconds)

    def divide(self, tests: Iterable[tuple[str, str]]) -> None:
        """The files of a kernel share its seconds by their sampled tests, each (kernel, test)."""
        files = Counter((kernel, _file(test)) for kernel, test in set(tests))
        total: Counter[str] = Counter()
        for (kernel, _), count in files.items():
            total[kernel] += count
        self._parts = {place: count / total[place[0]] for place, count in files.items()}

    def start(self, kernel: str, test: str) -> bool:
        """May a case of this test run? It pays for itself, the first one with what is left."""
        self._free = test not in self._begun
        self._begun.add(test)
        return self._pay(kernel, test, self._cases.get(test, CASE))

    def use(self, kernel: str, test: str, body: str, key: str, sampled: bool) -> bool:
        """May it use this variant? Only a sampled case pays for one that is new to the kernel."""
        seen = self._seen[kernel]
        variant = f"{body} {key}"
        if variant not in seen:
            if sampled and not self._pay(kernel, test, self._variants.get(body, VARIANT)):
                return False
            seen.add(variant)
        return True

    def _pay(self, kernel: str, test: str, cost: float) -> bool:
        place = kernel, _file(test)
        seconds = self.kernels.get(kernel, share()) * self._parts.get(place, 1)
        left = self._left.setdefault(place, 1e3 * seconds)
        if cost > left and not self._free:
            return False
        self._left[place] = left - cost
        return True


def _file(test: str) -> str:
    return test.partition("::")[0]
