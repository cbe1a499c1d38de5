"""Compares the texts of two builds, to find texts that moved, were renamed, or changed.

python ci/compare_texts.py OLD [--list FILE]     OLD: a folder `pykernels/_generated`

moved    the same sha256 as a text of OLD
renamed  the same SPIR-V from naga as a text of OLD: only local names, comments or layout differ
changed  neither

FILE gets a line for each text: its change, its name, and its name in OLD.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pykernels.wgsl.texts import Texts

NEW = Path(__file__).resolve().parent.parent / "pykernels" / "_generated"
KINDS = ("moved", "renamed", "changed")


def texts(generated: Path) -> dict[str, str]:
    """The texts by their names, "BODY KEY". Builds up to November 2026 stored texts in one
    piece."""
    found = {}
    for file in sorted((generated / "wgsl").glob("*.json")):
        content = file.read_text(encoding="utf-8")
        tables = json.loads(content)
        whole = "pieces" not in tables
        for key in tables if whole else tables["texts"]:
            text = tables[key]["wgsl"] if whole else Texts(content)[key].wgsl
            found[f"{file.stem} {key}"] = text
    return found


def spirv(text: str) -> str:
    """The hash of naga's SPIR-V for a text."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.wgsl").write_text(text, encoding="utf-8")
        subprocess.run(["naga", "a.wgsl", "a.spv"], cwd=folder, check=True, capture_output=True)
        return hashlib.sha256(Path(folder, "a.spv").read_bytes()).hexdigest()


def compare(old: dict[str, str], new: dict[str, str]) -> dict[str, tuple[str, str]]:
    """For each new text, its kind of change and the name of the old text ("" if it changed)."""
    by_text = {text: name for name, text in old.items()}
    rest = {name: text for name, text in new.items() if text not in by_text}
    gone = {name: text for name, text in old.items() if text not in set(new.values())}
    with ThreadPoolExecutor() as pool:
        codes = dict(zip(rest, pool.map(spirv, rest.values()), strict=True))
        by_code = dict(zip(pool.map(spirv, gone.values()), gone, strict=True))
    found = {}
    for name, text in new.items():
        if text in by_text:
            found[name] = ("moved", by_text[text])
        elif codes[name] in by_code:
            found[name] = ("renamed", by_code[codes[name]])
        else:
            found[name] = ("changed", "")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("--list", type=Path)
    args = parser.parse_args()
    found = compare(texts(args.old), texts(NEW))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, (kind, _) in found.items():
        counts[name.partition(" ")[0]][kind] += 1
    print(f"{'body':32}" + "".join(f"{kind:>9}" for kind in KINDS))
    for body, n in counts.items():
        print(f"{body:32}" + "".join(f"{n[kind] or '':>9}" for kind in KINDS))
    total = sum(counts.values(), Counter())
    print(f"{len(found)} texts: " + ", ".join(f"{total[kind]} {kind}" for kind in KINDS))
    if args.list:
        lines = (f"{kind}\t{name}\t{before}" for name, (kind, before) in sorted(found.items()))
        args.list.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
