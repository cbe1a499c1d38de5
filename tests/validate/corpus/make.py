"""Makes this folder anew: texts of crates, and what naga and Tint themselves say of them.

    python tests/validate/corpus/make.py              fetch the crates (cargo), copy, judge
    python tests/validate/corpus/make.py --verdicts   judge the texts that are here

A verdict is the compiler's own: naga-cli on the file, and a shader module of wgpudawn on a device
of its null backend with all features. Nothing of pykernels.validate takes part, but for the path
of naga and the device.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pykernels.validate import find_naga
from pykernels.validate._tint import _null_device

HERE = Path(__file__).parent
# With a license file of their own, under MIT or Apache-2.0.
CRATES = {"naga": "29.0.4", "naga_oil": "0.18.0", "vello_shaders": "0.5.0", "wgpu": "29.0.1",
          "bevy_sprite": "0.16.1"}  # fmt: skip
INSIDE = ("wgpu-core", "wgpu-hal", "bevy_core_pipeline", "bevy_render")  # which these fetch
LARGEST = 30_000


def copy() -> None:
    """The texts of the crates, each once, and a list of where they come from."""
    with tempfile.TemporaryDirectory() as folder:
        needs = "\n".join(f'{name} = "={version}"' for name, version in CRATES.items())
        head = '[package]\nname = "corpus"\nversion = "0.0.0"\nedition = "2021"\n'
        Path(folder, "Cargo.toml").write_text(f"{head}[dependencies]\n{needs}\n")
        Path(folder, "src").mkdir()
        Path(folder, "src", "lib.rs").write_text("")
        command = ["cargo", "metadata", "--format-version", "1"]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    packages = {
        p["name"]: p
        for p in json.loads(done.stdout)["packages"]
        if p["name"] in (*CRATES, *INSIDE) and CRATES.get(p["name"], p["version"]) == p["version"]
    }
    rows = ["| file | crate | license |", "|---|---|---|"]
    seen: set[str] = set()
    for name, package in sorted(packages.items()):
        root = Path(package["manifest_path"]).parent
        licenses = [p for p in root.iterdir() if p.name.upper().startswith("LICENSE")]
        if not licenses:
            print(f"{name} has no license file: left out", file=sys.stderr)
            continue
        target = HERE / name
        shutil.rmtree(target, ignore_errors=True)
        for file in sorted(root.rglob("*.wgsl")):
            data = file.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            if digest in seen or len(data) > LARGEST:
                continue
            seen.add(digest)
            path = target / file.relative_to(root)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            crate = f"{name} {package['version']}"
            rows.append(f"| {path.relative_to(HERE).as_posix()} | {crate} | {package['license']} |")
        if target.exists():
            for p in licenses:
                shutil.copy(p, target)
    note = "# Texts by others\n\nUnchanged, from crates; `make.py` copies and judges them.\n\n"
    (HERE / "SOURCES.md").write_text(note + "\n".join(rows) + "\n", encoding="utf-8")


def judge() -> None:
    naga, device = find_naga(), _null_device(os.getpid())
    assert naga is not None
    verdicts: dict[str, Any] = {"naga": naga.version, "files": {}}
    for file in sorted(HERE.rglob("*.wgsl")):
        done = subprocess.run([naga.path, str(file)], capture_output=True, text=True)
        device.push_error_scope("validation")
        text = file.read_text(encoding="utf-8")
        # wgpudawn takes `#version` for GLSL where no entry point stands beside it.
        module = device.create_shader_module(code=text + "\n// @compute")
        device.pop_error_scope_async().sync_wait()
        messages = module.get_compilation_info_async().sync_wait().messages
        wrong = [f"{m.line_num}: {m.message}" for m in messages if m.type == "error"]
        verdicts["files"][file.relative_to(HERE).as_posix()] = {
            "naga": "valid" if done.returncode == 0 else "refused",
            "tint": wrong[0].partition("\n")[0] if wrong else "valid",
        }
    text = json.dumps(verdicts, indent=1) + "\n"
    (HERE / "verdicts.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if "--verdicts" not in sys.argv:
        copy()
    judge()
