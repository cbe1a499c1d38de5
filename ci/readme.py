"""Writes README's tables: of kernels, from the build's manifest; of times, from bench/results.
`--check` only compares.

python ci/readme.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from pykernels import texts

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "bench/results/nvidia-h200"


def kernels() -> str:
    """One row a kernel: what it computes, dtypes, bodies, variants."""
    manifest = texts.read_manifest()
    lines = ["| kernel | what it does | dtypes | bodies | variants |", "|---|---|---|---|---|"]
    for name, k in sorted(manifest["kernels"].items()):
        kinds = max((t["dtypes"] for t in k["tensors"] if t["role"] == "out"), key=len)
        dtypes = "any" if len(kinds) > 8 else ", ".join(kinds)
        bodies = ", ".join(f"`{b}`" for b in k["bodies"])
        count = sum(texts.belongs(k, v) for v in manifest["variants"].values())
        lines.append(f"| `{name}` | {k['doc'].splitlines()[0]} | {dtypes} | {bodies} | {count} |")
    return "\n".join(lines)


def times() -> str:
    """The cases that have peers; the rest is in the file beside the readings."""
    from pykernels.bench.run import Report
    from pykernels.bench.table import markdown

    if not (ROOT / RESULTS / "results.json").is_file():
        return ""
    report = Report.load(ROOT / RESULTS / "results.json")
    report.results = [r for r in report.results if r.peers]
    lines = [line for line in markdown(report) if not line.startswith("- ort skipped")]
    return "\n".join([
        *lines, "",
        f"All cases: [results.md]({RESULTS}/results.md); all readings: "
        f"[results.json]({RESULTS}/results.json).", "",
        f"![Roofline and throughput over size]({RESULTS}/results.svg)",
    ])  # fmt: skip


SECTIONS = (
    ("<!-- kernels: written by ci/readme.py -->", "<!-- end -->", kernels),
    ("<!-- bench: written by ci/readme.py -->", "<!-- end of bench -->", times),
)


def main() -> int:
    path = ROOT / "README.md"
    text = new = path.read_text(encoding="utf-8")
    for begin, end, write in SECTIONS:
        before, _, rest = new.partition(begin)
        new = f"{before}{begin}\n{write()}\n{end}{rest.partition(end)[2]}"
    if new == text:
        return 0
    if "--check" in sys.argv:
        print("README's tables are out of date: run python ci/readme.py", file=sys.stderr)
        return 1
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
