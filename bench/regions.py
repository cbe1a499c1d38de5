"""Draws the picture in docs/design/matmul.md: the body of each product, by rows, columns and K.

    python -m bench.regions [--table NAME] [--write]

It computes the plan's choice for float32 with the tuning table NAME, without a GPU. --write puts
the picture for the H200's table into the page.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from pykernels.plans.matmul.select import NARROW, GemmShape, choose, few_columns
from pykernels.steps import Caps
from pykernels.tuning import named

TABLE = "nvidia-h200"
PAGE = Path(__file__).parents[1] / "docs" / "design" / "matmul.md"
START, END = "<!-- regions -->\n", "<!-- end of regions -->"
SIDES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
DEPTHS = (16, 256, 4096)
LETTERS = {
    "gemv": "v", "mul_mat/16x64": "a", "mul_mat/32x128": "b", "mul_mat/32": "s",
    "mul_mat/64": "m", "gemm_tile": "G",
}  # fmt: skip


def body(caps: Caps, rows: int, cols: int, depth: int) -> str:
    """The letter of the body that the plan chooses; if there are few columns, the plan exchanges
    the operands."""
    s = GemmShape(1, rows, cols, depth)
    if (min(rows, cols) <= NARROW and rows > cols) or few_columns(caps, s):
        s = s._replace(rows=cols, cols=rows)
    return LETTERS[choose(caps, s).body]


def picture(table: str) -> Iterator[str]:
    """A map for each K, with rows downwards and columns to the right."""
    caps = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535, named(table))
    yield "```text"
    yield "   ".join(f"K = {depth:<{2 * len(SIDES) + 3}}" for depth in DEPTHS).rstrip()
    for rows in SIDES:
        maps = (" ".join(body(caps, rows, n, depth) for n in SIDES) for depth in DEPTHS)
        yield "    ".join(f"{rows:>5} {line}" for line in maps)
    yield f"columns: {', '.join(map(str, SIDES))}; rows down"
    yield ", ".join(f"{letter} {name}" for name, letter in LETTERS.items())
    yield "```"


def text(table: str = TABLE) -> str:
    return "\n".join(picture(table)) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", default=TABLE)
    parser.add_argument("--write", action="store_true", help="into the page")
    args = parser.parse_args()
    print(text(args.table), end="")
    if args.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        PAGE.write_text(before + START + text() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
