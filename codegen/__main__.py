"""Make pykernels/_generated from kernels/, or render and validate one kernel.

python -m codegen                       render all kernels, validate them with what is found, write
python -m codegen softmax               render and validate one kernel, or one body; write nothing
python -m codegen softmax T=f16 VEC=4   the same for some of its texts
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .errors import BuildError

try:
    from .build import build, compare, generate, matching, try_kernel, variants_of
    from .validation import versions_here
    from .vouched import RECORD, digests
    from .vouched import write as write_record
except ModuleNotFoundError as e:
    sys.exit(
        f"error: python -m codegen needs the package {e.name}: pip install -e . jinja2 pytest "
        "in this folder, or bash ci/setup.sh, which makes .venv with everything"
    )

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m codegen",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", help="a kernel or a body")
    parser.add_argument("values", nargs="*", metavar="AXIS=VALUE", help="of the texts to try")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true", help="fail if the files are out of date")
    group.add_argument("--validate", action="store_true", help="require naga and Tint")
    group.add_argument("--record", action="store_true", help="write codegen/validated.txt")
    group.add_argument("--show", action="store_true", help="print the first of one kernel's texts")
    group.add_argument("--no-validate", action="store_true", help="render and write only")
    parser.add_argument("--full", action="store_true", help="validate all texts, whatever it has")
    args = parser.parse_args()
    if args.name and (args.check or args.validate or args.no_validate or args.record):
        parser.error(
            "--check, --validate, --no-validate and --record are for all kernels: "
            "leave out the name"
        )
    if args.show and not args.name:
        parser.error("--show needs the name of a kernel")
    try:
        if args.check:
            return _check()
        if args.record:
            return _record()
        if args.show:
            return _show(args.name, args.values)
        if args.name:
            try_kernel(ROOT, args.name, args.values)
            return 0
        how = "require" if args.validate else "skip" if args.no_validate else "auto"
        generate(ROOT, validate=how, full=args.full)  # type: ignore[arg-type]
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


def _record() -> int:
    """Write the record of validated bodies."""
    versions = versions_here()
    if {"naga", "tint"} - {*versions}:
        raise BuildError("codegen", 0, "the record needs naga and Tint")
    found = digests(build(ROOT).variants)
    write_record(ROOT, versions, found)
    print(f"{RECORD.as_posix()}: {len(found)} bodies")
    return 0


def _show(name: str, wanted: list[str]) -> int:
    first, *more = matching(variants_of(ROOT, name), wanted)
    print(f"// {first.name}\n{first.text}", end="")
    if more:
        print(f"// and {len(more)} more variants match", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
