"""Writes README's table of kernels from the build's manifest; `--check` only compares.

python ci/readme.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- kernels: written by ci/readme.py -->", "<!-- end -->"


def table() -> str:
    """One row a kernel: what it computes, dtypes, bodies, variants."""
    manifest = json.loads((ROOT / "pykernels" / "_generated" / "manifest.json").read_text())
    lines = ["| kernel | what it does | dtypes | bodies | variants |", "|---|---|---|---|---|"]
    for name, k in sorted(manifest["kernels"].items()):
        output = next(t for t in k["tensors"] if t["role"] == "out")
        dtypes = "any" if len(output["dtypes"]) > 8 else ", ".join(output["dtypes"])
        bodies = ", ".join(f"`{b}`" for b in k["bodies"])
        count = sum(v["body"] in k["bodies"] for v in manifest["variants"].values())
        lines.append(f"| `{name}` | {k['doc'].splitlines()[0]} | {dtypes} | {bodies} | {count} |")
    return "\n".join(lines)


def main() -> int:
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if new == text:
        return 0
    if "--check" in sys.argv:
        print("README's table of kernels is out of date: run python ci/readme.py", file=sys.stderr)
        return 1
    path.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
