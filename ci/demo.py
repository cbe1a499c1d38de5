"""The demo: every kernel on an adapter of this machine, compared with its reference in numpy.

    python ci/demo.py [--all] [--adapter NAME] [--engine wgpu|dawn] [--edge N]

Prints the device, a table by family, the path of a picture that the device made, a worked example,
and commands to run next. `--all` prints the long table of `pykernels bench` instead.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pykernels as pk
from ci.demo_cases import NUMPY, TIMED
from ci.demo_picture import make_picture
from pykernels.bench.case import Case, load
from pykernels.bench.cases import FUNCTIONS, cases, is_main, peers, problem
from pykernels.bench.clock import Effort
from pykernels.bench.report import Result
from pykernels.bench.run import Runner
from pykernels.bench.table import digits, table
from pykernels.reference import family

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 48.0  # most seconds of checks and timings on a software driver; later cases are left out
# The effort on a software driver; a reading takes a hundredth of a second.
SHORT = Effort(warm=0.0, most=0.0, rounds=3, blocks=1, reading=1e-2, longest=0.2, loop=3)


@dataclass
class Row:
    """The results of one family. `share` is the largest error of an element, divided by the
    element's bound."""

    kernels: int = 0
    checked: int = 0
    right: int = 0
    share: float = 0.0
    timed: Result | None = None
    wrong: list[str] = field(default_factory=list)

    def add(self, share: float, wrong: str = "") -> None:
        self.checked += 1
        self.right += not wrong
        self.share = max(self.share, share)
        self.wrong += [wrong] if wrong else []


class Progress:
    """A line of progress that overwrites itself; it is shown only if stderr is a terminal."""

    def __init__(self) -> None:
        self.shown = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self.shown:
            print(f"\r\x1b[K{text[:78]}", end="", file=sys.stderr, flush=True)


def chosen(edge: int) -> Iterator[Case]:
    """The first case of each kernel; in full size also the main cases of all kernels."""
    seen = set()
    for case in cases(edge):
        if case.kernel not in seen or (not edge and is_main(case)):
            yield case
        seen.add(case.kernel)


def family_of(case: Case) -> str:
    return FUNCTIONS.get(case.kernel) or family(case.kernel)


# -- the table by family --------------------------------------------------------------------------


def by_family(dev: pk.Device, edge: int, say: Progress) -> dict[str, Row]:
    """Check the cases, and return the results by family. First comes one timed case of each family,
    then the other cases, taking families in turn."""
    slow = dev.info["type"] == "CPU"
    began = time.perf_counter()
    groups: dict[str, list[Case]] = {}
    for case in chosen(edge):
        groups.setdefault(family_of(case), []).append(case)
    rows = {name: Row(kernels=len(some)) for name, some in sorted(groups.items())}
    runner = Runner([dev], effort=SHORT if slow else None, rotate=0 if slow else None, say=say)
    for name, row in rows.items():
        kernel = TIMED[name][0] if name in TIMED else groups[name][0].kernel
        say(f"timing {kernel}")
        time_one(runner, row, kernel, TIMED[name][1 if slow else 2] if name in TIMED else ())
        groups[name] = [c for c in groups[name] if c.kernel != kernel]
    turns = itertools.zip_longest(*([(n, c) for c in some] for n, some in groups.items()))
    todo = [one for turn in turns for one in turn if one]
    for done, (name, case) in enumerate(todo):
        if slow and time.perf_counter() - began > SECONDS:
            break
        say(f"checking {done + 1} of {len(todo)}: {case.kernel}")
        rows[name].add(*check_one(dev, case))
    say("")
    return rows


def time_one(runner: Runner, row: Row, kernel: str, shape: tuple[int, ...]) -> None:
    """Check and time a case, and numpy beside it if numpy computes the same."""
    [dev] = runner.devices
    known = {**peers().get(kernel, {}), **NUMPY.get(kernel, {})}
    beside = {"numpy": known["numpy"]} if "numpy" in known else {}
    try:
        [row.timed] = runner.case(dev, problem(kernel, shape, "float32"), beside)
    except pk.PyKernelsError as e:
        row.add(0.0, f"{kernel}: {e}")
    else:
        row.add(row.timed.check.share)
    dev.trim()


def check_one(dev: pk.Device, case: Case) -> tuple[float, str]:
    """Run one case and compare every element with the reference. Returns the largest error divided
    by its bound, and a text about wrong elements."""
    try:
        return load(dev, case).check().share, ""
    except pk.PyKernelsError as e:
        return 0.0, f"{case.kernel} {case.id}: {e}"


def lines_of(rows: dict[str, Row]) -> Iterator[str]:
    """The table, and the failures."""
    head = ("family", "kernels", "right", "error", "timed case", "GPU us", "call us", "numpy us")
    cells = [head, *(cells_of(name, row) for name, row in rows.items())]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        parts = (
            text.ljust(width) if i in (0, 4) else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(parts).rstrip()
    wrong = [text for row in rows.values() for text in row.wrong]
    yield from (f"WRONG {text}" for text in wrong[:5])
    if len(wrong) > 5:
        yield f"and {len(wrong) - 5} more are wrong"


def cells_of(name: str, row: Row) -> tuple[str, ...]:
    share = f"{row.share:.2f}" if row.share else "exact" if row.right else ""
    found = row.timed
    times = ("", "", "", "")
    if found is not None:
        beside = found.peers.get("numpy")
        other = "" if beside is None or isinstance(beside, str) else digits(beside.per_call * 1e6)
        gpu, call = found.timing.gpu, found.timing.per_call
        times = (
            f"{found.kernel} {found.id}",
            *(digits(s * 1e6) if s else "" for s in (gpu, call)), other,
        )  # fmt: skip
    return name, str(row.kernels), f"{row.right} of {row.checked}", share, *times


def print_families(dev: pk.Device, edge: int, say: Progress) -> bool:
    """Print the short table. True if all results are right."""
    rows = by_family(dev, edge, say)
    print(*lines_of(rows), sep="\n")
    left = sum(row.kernels - row.checked for row in rows.values())
    note = "error: the largest difference to the float64 reference, 1 being all that is allowed"
    print(note + (f"; {left} kernels left out: --all" if left else ""))
    return not any(row.wrong for row in rows.values())


def print_all(dev: pk.Device, edge: int) -> bool:
    """Print the long table: every chosen case, with the device's ceilings. True if all results are
    right."""
    runner = Runner([dev], command="python ci/demo.py --all")
    runner.ceilings()
    report = runner.run(chosen(edge))
    print(*table(report), sep="\n")
    if dev.info["type"] != "CPU":
        print("share: of the device's own copy, fill or multiply-adds, measured in this run")
    return not report.failed


# -- the rest -------------------------------------------------------------------------------------


def worked_example(dev: pk.Device) -> None:
    """The worked example: a direct call on a view at an odd offset inside a larger buffer."""
    shared = dev.zeros(1000, "float16")
    x = dev.tensor(np.linspace(-4, 4, 21, dtype=np.float32).reshape(3, 7))
    view = shared[501:522].reshape(3, 7)  # this view starts in the middle of a 32-bit word
    pk.kernels.cpy(x, view)
    pk.kernels.softmax(view, view, scale=0.5)
    host = shared.numpy()
    e = np.exp(x.numpy().astype(np.float16).astype(np.float64) * 0.5)
    error = np.abs(host[501:522].reshape(3, 7) - e / e.sum(-1, keepdims=True)).max()
    untouched = not host[:501].any() and not host[522:].any()
    print(
        "Worked example: softmax in place on a float16 view at an odd offset of a shared buffer\n"
        "  view = shared[501:522].reshape(3, 7); pk.kernels.softmax(view, view, scale=0.5)"
    )
    print(f"  rows sum to {host[501:522].reshape(3, 7).astype(np.float32).sum(1)}, largest error "
          f"{error:.1e}, neighbours untouched: {untouched}")  # fmt: skip
    if not untouched or error > 1e-3:
        raise SystemExit("the worked example went wrong")


def print_device(dev: pk.Device) -> None:
    print(f"Device: {dev.info}")
    if dev.info["type"] == "CPU":
        print("This is a software driver: it shows that everything runs, and no speed.")
    print()


NEXT = """
Next:
  .venv/bin/pykernels list                        every kernel
  .venv/bin/pykernels show softmax                one kernel, as WGSL
  .venv/bin/pykernels bench softmax --peers all   its time, beside numpy and torch
  bash ci/demo.sh --all                           every case, in a long table
  docs/guide/quickstart.md                        from numpy to gradients in ten minutes"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="the long table of all cases")
    parser.add_argument("--adapter")
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--edge", type=int, help="cut sizes to this; 32 on a software driver")
    args = parser.parse_args()
    try:
        dev = pk.Device(args.adapter, engine=args.engine)
    except pk.NoAdapterError as e:
        raise SystemExit(f"demo: {e}") from None
    slow = dev.info["type"] == "CPU"
    print_device(dev)
    if args.all:
        edge = args.edge if args.edge is not None else 32 if slow else 0
        right = print_all(dev, edge)
    else:
        right = print_families(dev, args.edge or (32 if slow else 256), Progress())
    path = make_picture(dev, ROOT / "build" / "demo.png")
    print(
        f"\nPicture: {path.relative_to(ROOT)}: an image, its blur, its half and its sorted rows; "
        "numpy computes the same"
    )
    worked_example(dev)
    print(NEXT)
    if not right:
        raise SystemExit("demo: some results are wrong")


if __name__ == "__main__":
    main()
