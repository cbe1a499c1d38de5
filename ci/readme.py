"""Writes facts of the build and results of benchmarks into README and docs; `--check` only
compares.

    python ci/readme.py [--check]

Pages: README.md and docs/**/*.md, except docs/records, whose figures come from single runs.

Blocks. The script writes the lines between a first mark and the mark `end`:

    <!-- kernels -->                     the table of kernels, from the build's manifest
    <!-- bench: main -->                 cases with peers, machine, ceilings, plot
    <!-- bench: table mul_mat softmax --> every measured case of these kernels
    <!-- bench: networks -->             whole networks, from bench/results/networks/
    <!-- bench: sweep -->                the heat map of a sweep, from bench/results/sweeps/
    <!-- end -->

Figures. A mark directly after a number: the script writes the number, the author writes the unit:

    takes 37.1<!-- bench: softmax f32-4096x4096 us --> us

A mark names a kernel, a case (see `pykernels bench --list` and results.json), and a quantity:

    us, ms                       GPU time of a call
    call us, call ms             wall clock of a call: a loop of calls, then one sync
    GB/s, TB/s, TFLOP/s          rates by GPU time
    ± %                          half of the 95 % interval of the decisive time
    share, share %               the share of the roofline by the measured ceilings
    error                        the largest difference to the reference
    torch us, torch call us      a peer's time (torch, ort, numpy, naive, dawn)
    x torch, call x torch        the peer's time divided by ours

or a ceiling of the device: `bench: ceiling copy GB/s` (or TB/s; also fill), `bench: ceiling fma32`
(TFLOP/s; also fma16), `bench: ceiling launch_gpu` (us; also launch_host).

In README.md, docs/README.md, docs/guide, docs/design and docs/reference a number with one of these
units, or with "times faster", is an error unless it is in code, in a block or marked: a figure must
come from bench/results, or be in a record. A number that nobody measured ("a loop of 20 ms") is
marked 20<!-- set --> ms.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pykernels.wgsl import texts

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "bench/results/nvidia-h200"
NETWORKS = "bench/results/networks/nvidia-h200.json"
# the name of a .json file, and of the .svg that is drawn from it
SWEEP = "bench/results/sweeps/nvidia-h200"
STRICT = ("README.md", "docs/README.md", "docs/guide/", "docs/design/", "docs/reference/")

BLOCK = re.compile(
    r"(<!-- (kernels|bench: (?:main|networks|sweep|table [\w ]+)) -->\n).*?(<!-- end -->)", re.S
)
MARK = re.compile(r"(\d[\d.,]*|\?)(<!-- bench: (?!main|networks|sweep|table)([^>]+?) -->)")
FREE = re.compile(
    r"\d[\d.,]*\s?(?:us|µs|ms|[GT]B/s|[GT]FLOP/s)(?![\w/])"
    r"|\d[\d.,]*\s(?:times|x)\s(?:as\s)?(?:fast|slow|torch|ort\b|numpy)"
)
CODE = re.compile(r"```.*?```|`[^`\n]+`|^(?: {4}|\t).*?$", re.S | re.M)

COMMENT = re.compile(r"<!--.*?-->", re.S)


class Unknown(Exception):
    """The results lack the figure of a mark."""


@cache
def report() -> Any:
    """The committed results."""
    from pykernels.bench.report import Report

    return Report.load(ROOT / RESULTS / "results.json")


# -- blocks ---------------------------------------------------------------------------------------


def block(what: str, up: str = "") -> str:
    """The content of a block; `up` is the relative path from the page to the root."""
    kind, _, names = what.removeprefix("bench: ").partition(" ")
    if kind == "kernels":
        return kernels()
    if kind == "networks":
        return networks()
    if kind == "sweep":
        return sweep(up)
    if not (ROOT / RESULTS / "results.json").is_file():
        return ""
    return main_cases(up) if kind == "main" else table(names.split())


def kernels() -> str:
    """The table of kernels, with a row for each: its summary, dtypes, bodies and variants."""
    manifest = texts.read_manifest()
    lines = ["| kernel | what it does | dtypes | bodies | variants |", "|---|---|---|---|---|"]
    for name, k in sorted(manifest["kernels"].items()):
        dtypes = texts.output_dtypes(k)
        bodies = ", ".join(f"`{b}`" for b in k["bodies"])
        count = sum(texts.belongs(k, v) for v in manifest["variants"].values())
        lines.append(f"| `{name}` | {k['doc'].splitlines()[0]} | {dtypes} | {bodies} | {count} |")
    return "\n".join(lines)


def networks() -> str:
    """The table of networks, with a row for each: the captured time and the times of peers. It is
    empty before the first run. Networks of bench.onnx_files are in a second table, because their
    peer is onnxruntime."""
    if not (ROOT / NETWORKS).is_file():
        return ""
    rows = json.loads((ROOT / NETWORKS).read_text(encoding="utf-8"))["rows"]
    files = {name: row for name, row in rows.items() if "ORT CPU" in row["times"]}
    tables = (
        (
            "| network | ms | torch eager, ms | torch, CUDA graph, ms | times as fast as eager |",
            {name: row for name, row in rows.items() if name not in files},
            ("torch", "CUDA graph"),
        ),
        (
            "| network from a file, arrays in and out | ms | ONNX Runtime WebGPU, ms "
            "| onnxruntime on the CPU, ms | times as fast as its WebGPU |",
            files,
            ("ORT WebGPU", "ORT CPU"),
        ),
    )
    return "\n\n".join(network_table(*table) for table in tables if table[1])


def sweep(up: str) -> str:
    """The heat map and a line about it; empty if no run is committed yet."""
    file = ROOT / f"{SWEEP}.json"
    if not file.is_file():
        return ""
    from pykernels.bench.report import Report
    from pykernels.bench.sweep import beside
    from pykernels.bench.sweep.summary import mean, ratio

    report = Report.load(file)
    peer = next((p for p in ("torch", *beside(report)) if p in beside(report)), "")
    if not peer or not file.with_suffix(".svg").is_file():
        raise Unknown(
            f"{SWEEP}.json has no figure: pykernels bench --from {SWEEP}.json --plot {SWEEP}.svg"
        )
    ratios = [x for r in report.results if r.dtype.startswith("f32") and (x := ratio(r, peer))]
    adapter, date = report.meta["adapter"], report.meta["date"][:10]
    text = f"The functions at many sizes beside {peer}, on one {adapter} ({date})"
    return (
        f"![{text}: a cell for each call]({up}{SWEEP}.svg)\n\n{text}: a cell for each call, blue "
        f"where ours takes less time. Geometric mean of the {len(ratios)} calls in float32: "
        f"{mean(ratios):.2f}."
    )


def network_table(head: str, rows: dict[str, Any], peers: tuple[str, str]) -> str:
    """A table with a row for each network: the time of our captured calls, the times of two peers,
    and the first peer's time divided by our time."""
    lines = [head, "|---|--:|--:|--:|--:|"]
    for name, row in rows.items():
        ours, first, second = (
            statistics.median(row["times"].get(c) or [math.nan]) for c in ("captured", *peers)
        )
        cells = [f"{t:.2f}" if t == t else "" for t in (ours, first, second, first / ours)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def some(chosen: Callable[[Any], bool]) -> Any:
    """A copy of the report that has only these results."""
    from pykernels.bench.report import Report

    all_ = report()
    return Report(all_.meta, all_.ceilings, [r for r in all_.results if chosen(r)], {})


def main_cases(up: str) -> str:
    """The cases that have peers, with a link to the file of all cases."""
    from pykernels.bench.table import markdown

    found = markdown(some(lambda r: bool(r.peers)))
    lines = [line for line in found if not line.startswith("- ort skipped")]
    return "\n".join([
        *lines, "",
        f"All cases: [results.md]({up}{RESULTS}/results.md); all readings: "
        f"[results.json]({up}{RESULTS}/results.json).", "",
        f"![Roofline and throughput over size]({up}{RESULTS}/results.svg)",
    ])  # fmt: skip


def table(names: list[str]) -> str:
    """The rows of these kernels in the table of results."""
    from pykernels.bench.table import markdown

    unknown = set(names) - {r.kernel for r in report().results}
    if unknown:
        raise Unknown(f"no case of {', '.join(sorted(unknown))} in {RESULTS}/results.json")
    return "\n".join(
        line for line in markdown(some(lambda r: r.kernel in names)) if line.startswith("|")
    )


# -- figures --------------------------------------------------------------------------------------

SCALES = {"us": 1e6, "ms": 1e3, "GB/s": 1e-9, "TB/s": 1e-12, "TFLOP/s": 1e-12}


def figure(mark: str) -> str:
    """The number that belongs to a mark."""
    kernel, case, *words = mark.split()
    if kernel == "ceiling":
        return ceiling(case, words)
    for r in report().results:
        if (r.kernel, r.id, r.cache) == (kernel, case, "cold"):
            found = quantity(r, words)
            if found is not None:
                return found
            raise Unknown(f"{' '.join(words)!r} of {kernel} {case} is not known")
    raise Unknown(f"{kernel} {case} is not in {RESULTS}/results.json")


def quantity(r: Any, words: list[str]) -> str | None:
    """One number of a result; None if the result has no number of that name."""
    from pykernels.bench.table import digits

    match words:
        case [("us" | "ms") as unit] if r.timing.gpu:
            return digits(r.timing.gpu * SCALES[unit])
        case ["call", ("us" | "ms") as unit] if r.timing.per_call:
            return digits(r.timing.per_call * SCALES[unit])
        case ["GB/s" | "TB/s" as unit]:
            return digits(r.rate * SCALES[unit])
        case ["TFLOP/s"]:
            return digits(r.speed * 1e-12)
        case ["share"]:
            return f"{r.share:.2f}"
        case ["share", "%"]:
            return f"{100 * r.share:.0f}"
        case ["±", "%"] if r.noise:
            return f"{100 * r.noise:.2f}"
        case ["error"]:
            return f"{r.check.error:.0e}"
        case ["x", peer] if r.ratio(peer):
            return f"{r.ratio(peer):.2f}"
        case ["call", "x", peer] if r.ratio(peer, "call"):
            return f"{r.ratio(peer, 'call'):.2f}"
        case [peer, ("us" | "ms") as unit] if r.ratio(peer):
            return digits(r.peers[peer].seconds * SCALES[unit])
        case [peer, "call", ("us" | "ms") as unit] if r.ratio(peer) and r.peers[peer].per_call:
            return digits(r.peers[peer].per_call * SCALES[unit])
    return None


def ceiling(name: str, words: list[str]) -> str:
    """A ceiling of the device, as a number in the unit that `words` names."""
    from pykernels.bench.table import digits

    found = next(iter(report().ceilings.values()))
    units = {"fma32": "TFLOP/s", "fma16": "TFLOP/s", "launch_gpu": "us", "launch_host": "us"}
    unit = words[0] if words else units.get(name, "GB/s")
    if not hasattr(found, name) or unit not in SCALES:
        raise Unknown(f"there is no ceiling {name} in {unit}")
    return digits(getattr(found, name) * SCALES[unit])


# -- pages ----------------------------------------------------------------------------------------


def pages() -> Iterator[Path]:
    """The pages that the script updates."""
    yield ROOT / "README.md"
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if not path.is_relative_to(ROOT / "docs" / "records"):
            yield path


def written(text: str, up: str = "") -> str:
    """A page with its correct blocks and figures; raises Unknown."""
    text = BLOCK.sub(lambda m: f"{m[1]}{block(m[2], up)}\n{m[3]}", text)
    return outside_code(text, lambda part: MARK.sub(lambda m: figure(m[3]) + m[2], part))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text after `change` was applied to everything outside of code and blocks."""
    out, at = [], 0
    kept = sorted([*CODE.finditer(text), *BLOCK.finditer(text)], key=lambda m: m.start())
    for m in kept:
        if m.start() >= at:
            out += [change(text[at : m.start()]), m[0]]
            at = m.end()
    return "".join([*out, change(text[at:])])


def unmarked(text: str) -> list[str]:
    """The figures that have no mark, outside of code and blocks."""
    found: list[str] = []

    def look(part: str) -> str:
        found.extend(m[0] for m in FREE.finditer(COMMENT.sub("\0", part)))
        return part

    outside_code(text, look)
    return found


def main() -> int:
    """The exit code: 0, or 1 if a page is wrong."""
    wrong = []
    for path in pages():
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        try:
            new = written(text, "../" * name.count("/"))
        except Unknown as e:
            wrong.append(f"{name}: {e}")
            continue
        if new != text and "--check" in sys.argv:
            wrong.append(f"{name}: tables or figures are out of date: run python ci/readme.py")
        elif new != text:
            path.write_text(new, encoding="utf-8")
        if name.startswith(STRICT):
            wrong += [f"{name}: {f} has no mark (see ci/readme.py)" for f in unmarked(new)]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
