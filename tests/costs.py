"""What the cases of the suite cost, as `PYKERNELS_TEST_COSTS=FOLDER bash ci/test.sh` measured it.

python -m tests.costs FOLDER [KERNEL...]     seconds of each kernel (or test file) by column
python -m tests.costs FOLDER --write         the weights of tests/costs.toml, from the columns there
python -m tests.costs FOLDER BODY... --add   those that the file lacks, from a run of some tests: of
                                             these bodies, and of all cases
"""

from __future__ import annotations

import argparse
import json
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pykernels.wgsl.texts import read_manifest
from tests.budget import CASE, COSTS, kernel_of

LEAST = 100  # milliseconds of a test's case that are worth a line
HEAD = """\
# Milliseconds of all cores: of a variant by body, and of a test's case where it is more than 100.
# PYKERNELS_TEST_COSTS=costs bash ci/test.sh && python -m tests.costs costs --write
"""
Cases = dict[str, tuple[float, list[str]]]  # milliseconds and new variants by node
Weights = dict[str, dict[str, float]]


def weights(cases: Cases) -> Weights:
    """Medians: what a body's new variant adds to a case, and what a test's case costs without."""
    own = _of_tests({name: (cost, []) for name, (cost, new) in cases.items() if not new})
    added: dict[str, list[float]] = defaultdict(list)
    for name, (cost, new) in cases.items():
        for variant in new:
            added[variant.partition(" ")[0]].append(
                max(cost - own.get(_test(name), CASE), 0) / len(new)
            )
    variants = {body: statistics.median(found) for body, found in sorted(added.items())}
    rest = {
        name: (cost - sum(variants[v.partition(" ")[0]] for v in new), [])
        for name, (cost, new) in cases.items()
    }
    tests = {name: cost for name, cost in sorted(_of_tests(rest).items()) if cost >= LEAST}
    return {"variants": variants, "cases": tests}


def _of_tests(cases: Cases) -> dict[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for name, (cost, _) in cases.items():
        found[_test(name)].append(cost)
    return {test: statistics.median(costs) for test, costs in found.items()}


def _test(node: str) -> str:
    return Path(node.partition("[")[0]).name


def seconds(columns: dict[str, Cases]) -> dict[str, dict[str, float]]:
    """Seconds by kernel, or by test file where it is about none, and by column."""
    kernels = read_manifest()["kernels"]
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for column, cases in columns.items():
        for node, (cost, _) in cases.items():
            file = node.partition("::")[0]
            name = kernel_of(node, kernels) if file.startswith("tests/kernels/") else file
            found[name][column] += cost / 1e3
    return found


def added(known: Weights, found: Weights, bodies: Collection[str]) -> Weights:
    """The known weights, and what is found besides: of these bodies, and of all cases."""
    found = found | {"variants": {b: w for b, w in found["variants"].items() if b in bodies}}
    return {kind: dict(sorted((found[kind] | known.get(kind, {})).items())) for kind in found}


def _write(columns: dict[str, Cases], add: Collection[str]) -> None:
    known: dict[str, Any] = tomllib.loads(COSTS.read_text(encoding="utf-8"))
    for column, cases in columns.items():
        found = weights(cases)
        known[column] = added(known.get(column, {}), found, add) if add else found
    lines, bodies = [HEAD], read_manifest()["bodies"]
    for column, kinds in sorted(known.items()):
        made = kinds["variants"].keys() - bodies.keys()  # of expressions, while tests ran
        kinds["variants"] = {k: v for k, v in kinds["variants"].items() if k not in made}
        for kind, table in kinds.items():
            lines += [f"\n[{column}.{kind}]\n"]
            lines += [f"{json.dumps(name)} = {cost:.0f}\n" for name, cost in table.items()]
    COSTS.write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="KERNEL")
    parser.add_argument("--write", action="store_true", help="write tests/costs.toml")
    parser.add_argument("--add", action="store_true", help="add to tests/costs.toml what it lacks")
    args = parser.parse_args()
    read = {p.stem: json.loads(p.read_text()) for p in sorted(args.folder.glob("*.json"))}
    if args.write or args.add:
        named = {column: cases for column, cases in read.items() if "-" in column}
        _write(named, args.names if args.add else ())
        return
    found = seconds(read)
    for name in args.names or sorted(found, key=lambda n: -sum(found[n].values())):
        each = ", ".join(f"{column} {s:.1f}" for column, s in found[name].items())
        print(f"{sum(found[name].values()):8.1f} s  {name}: {each}")


if __name__ == "__main__":
    main()
