"""Compares the hashes of the built manifest with the texts beside it, and with a build from a clean
checkout (the files that git tracks or would track, copied to an empty folder).

python ci/manifest.py
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pykernels.wgsl.texts import Texts, unpack_manifest

ROOT = Path(__file__).resolve().parent.parent
GENERATED = Path("pykernels") / "_generated"


def hashes(root: Path) -> dict[str, str]:
    """The hash of each variant from the manifest."""
    manifest = unpack_manifest((root / GENERATED / "manifest.json").read_text(encoding="utf-8"))
    return {name: v["sha256"] for name, v in manifest["variants"].items()}


def of_texts(root: Path) -> dict[str, str]:
    """The hash of each variant, computed from its text."""
    found = {}
    for file in (root / GENERATED / "wgsl").glob("*.json"):
        for key, text in Texts(file.read_text(encoding="utf-8")).items():
            found[f"{file.stem} {key}"] = hashlib.sha256(text.wgsl.encode()).hexdigest()
    return found


def clean_build(folder: Path) -> None:
    """Copy the checkout without build outputs to this folder, and build it there."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(git, check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    command = [sys.executable, "-m", "codegen", "--no-validate"]
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONHASHSEED": "0"}
    subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)


def differences(what: str, want: dict[str, str], got: dict[str, str]) -> list[str]:
    names = sorted(n for n in want.keys() | got.keys() if want.get(n) != got.get(n))
    return [f"{n}: the manifest says {want.get(n)}, {what} {got.get(n)}" for n in names]


def main() -> int:
    built = hashes(ROOT)
    wrong = differences("its text is", built, of_texts(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        clean_build(Path(folder))
        wrong += differences("a clean checkout builds", built, hashes(Path(folder)))
    for line in wrong[:20]:
        print(line, file=sys.stderr)
    if wrong:
        print(f"error: {len(wrong)} hashes differ: run python -m codegen", file=sys.stderr)
        return 1
    print(f"manifest: {len(built)} hashes are those of the texts and of a clean checkout's build")
    return 0


if __name__ == "__main__":
    sys.exit(main())
