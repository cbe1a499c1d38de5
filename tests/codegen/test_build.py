"""The generated files: fresh, the same on every machine, and nothing else is touched."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from codegen import is_fresh
from codegen.build import Build, compare, write
from pykernels.wgsl.texts import Texts, unpack_manifest
from tests.checkout import ROOT, run_python

GENERATED = Path("pykernels") / "_generated"


def test_generated_files_are_up_to_date(here: Build) -> None:
    assert compare(ROOT, here) == ""


def test_two_builds_are_byte_identical(checkout: Path, tmp_path: Path, here: Build) -> None:
    other = tmp_path / "somewhere" / "else"
    shutil.copytree(checkout, other)
    digests = []
    for folder, seed in ((checkout, "1"), (other, "2")):
        done = run_python(folder, "-m", "codegen", "--no-validate", PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        files = sorted(p for p in (folder / GENERATED).rglob("*") if p.is_file())
        digests.append(
            {
                p.relative_to(folder / GENERATED).as_posix(): hashlib.sha256(
                    p.read_bytes()
                ).hexdigest()
                for p in files
            }
        )
    assert digests[0] == digests[1]
    assert {"validation.json", "manifest.json", "wgsl/cpy.json"} <= set(digests[0])
    assert set(digests[0]) - set(here.files) == {"validation.json"}


def test_check_prints_the_difference(checkout: Path) -> None:
    assert run_python(checkout, "-m", "codegen", "--no-validate").returncode == 0
    assert run_python(checkout, "-m", "codegen", "--check").returncode == 0
    path = checkout / GENERATED / "wrappers" / "memset.py"
    path.write_text(path.read_text().replace("Set bytes to one value", "Set some bytes"))
    done = run_python(checkout, "-m", "codegen", "--check")
    assert done.returncode == 1
    assert '-    """Set some bytes' in done.stdout
    assert '+    """Set bytes to one value' in done.stdout
    assert "out of date: run python -m codegen" in done.stderr


def test_only_generated_files_are_written_and_removed(tmp_path: Path, here: Build) -> None:
    root = tmp_path
    assert write(root, here) == len(here.files)
    folder = root / GENERATED
    (folder / "validation.json").write_text("{}")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"")
    (folder / "wgsl" / "gone.json").write_text("{}")
    beside = root / "pykernels" / "mine.py"
    beside.write_text("")
    assert compare(root, here) == "not generated: wgsl/gone.json"
    (folder / "fill.py").write_text("changed")
    assert write(root, here) == 2
    assert not (folder / "wgsl" / "gone.json").exists()
    assert beside.exists()
    assert (folder / "__pycache__" / "x.pyc").exists()
    assert (folder / "validation.json").exists()
    assert write(root, here) == 0
    files = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    extra = {f"{GENERATED.as_posix()}/{n}" for n in ("validation.json", "__pycache__/x.pyc")}
    assert files == {f"{GENERATED.as_posix()}/{n}" for n in here.files} | extra | {
        "pykernels/mine.py"
    }


def test_is_fresh_until_a_source_changes(checkout: Path) -> None:
    assert not is_fresh(checkout)
    assert run_python(checkout, "-m", "codegen", "--no-validate").returncode == 0
    assert is_fresh(checkout)
    kernel = checkout / "kernels" / "lib" / "words.wgsl"
    before = kernel.read_bytes()
    kernel.write_bytes(before.replace(b"\n", b"\r\n"))
    assert is_fresh(checkout), "line ends are not content"
    kernel.write_bytes(before + b"// more\n")
    assert not is_fresh(checkout)
    kernel.write_bytes(before)
    # A function written by hand takes the place of a generated one.
    by_hand = checkout / "pykernels" / "functional" / "copying.py"
    by_hand.write_text('__all__ = ["cpy"]\n\n\ndef cpy(x):\n    return x\n')
    assert not is_fresh(checkout)


def test_show() -> None:
    done = run_python(ROOT, "-m", "codegen", "--show", "softmax", "T=f16", "VEC=4", "mode=rw")
    assert done.returncode == 0
    assert done.stdout.startswith("// softmax T=f16 MASK= VEC=4")
    assert "enable f16;\n" in done.stdout
    assert "more variants match" in done.stderr
    done = run_python(ROOT, "-m", "codegen", "--show", "softmax", "T=f64")
    assert done.returncode == 1
    assert "no variant of softmax matches T=f64; there are T=f32 MASK= VEC=1" in done.stderr


def test_manifest_describes_every_text(here: Build) -> None:
    manifest = unpack_manifest(here.files["manifest.json"])
    texts = {
        f"{name} {key}": text
        for name in manifest["bodies"]
        for key, text in Texts(here.files[f"wgsl/{name}.json"]).items()
    }
    assert {name: text.wgsl for name, text in texts.items()} == {
        v.name: v.text for v in here.variants if v.shipped
    }
    assert texts.keys() == manifest["variants"].keys()
    of_variant = {v.name: v for v in here.variants if v.shipped}
    limits = {name: v.limits.max_workgroup_storage for name, v in of_variant.items()}
    assert min(limits.values()) > 0 and max(limits.values()) <= 49152  # as NVIDIA has
    for name, variant in manifest["variants"].items():
        text = texts[name].wgsl
        assert variant["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert variant["features"] == list(texts[name].features)
        assert variant["axes"] == of_variant[name].axes
        assert variant["mode"] == of_variant[name].mode
        assert variant["workgroup_bytes"] <= limits[name]
        assert "//@" not in text
        assert "${" not in text


def test_texts_name_no_folder_of_the_build(here: Build) -> None:
    for name, text in here.files.items():
        assert str(ROOT) not in text, name
