"""python -m codegen [--check | --validate | --show KERNEL AXIS=VALUE ...]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .build import build, compare, generate, variants_of
from .errors import BuildError

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true", help="fail if the files are out of date")
    group.add_argument("--validate", action="store_true", help="require naga and Tint")
    group.add_argument("--show", nargs="+", metavar="NAME", help="print variants: softmax T=f16")
    parser.add_argument("--no-validate", action="store_true", help="render and write only")
    args = parser.parse_args()
    try:
        if args.check:
            return _check()
        if args.show:
            return _show(args.show[0], args.show[1:])
        how = "require" if args.validate else "skip" if args.no_validate else "auto"
        generate(ROOT, validate=how)  # type: ignore[arg-type]
    except BuildError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


def _check() -> int:
    diff = compare(ROOT, build(ROOT))
    if diff:
        print(diff)
        print("error: pykernels/_generated is out of date: run python -m codegen", file=sys.stderr)
        return 1
    print("pykernels/_generated is up to date")
    return 0


def _show(name: str, wanted: list[str]) -> int:
    variants = variants_of(ROOT, name)
    found = [v for v in variants if set(wanted) <= set(v.key.split())]
    if not found:
        keys = "\n  ".join(v.key for v in variants) or "(no such kernel)"
        print(f"error: no variant of {name} matches {' '.join(wanted)}:\n  {keys}", file=sys.stderr)
        return 2
    v = found[0]
    print(f"// {v.name}\n{v.text}", end="")
    if len(found) > 1:
        print(f"// and {len(found) - 1} more variants match", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
