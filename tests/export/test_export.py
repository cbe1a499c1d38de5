"""`pykernels export`: what it writes, what it refuses."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykernels import plans
from pykernels.cli import main
from pykernels.export import _page
from pykernels.export._cases import cases, where
from pykernels.export._layouts import parse
from pykernels.export._record import _json
from pykernels.export._translate import NotTranslated
from pykernels.export._write import live_plan, untranslated
from pykernels.tuning import as_data, named
from pykernels.validate import Lints, Source, find_tint, validate
from pykernels.wgsl.texts import read_manifest

ROOT = Path(__file__).parents[2]
FACTS = json.loads((ROOT / "pykernels" / "_generated" / "javascript.json").read_text())["kernels"]
SOFTMAX = "softmax x=f32[8,1000]"


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page shows the first test case of its kernel, as in tests/browser/test_page.py: the calls
    that it shows otherwise have up to 250 million elements."""

    def one(name: str, facts: Any) -> Any:
        found = cases(name, facts)
        return found and replace(found, page=found.test[:1])

    monkeypatch.setattr(_page, "cases", one)


def run(*args: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["export", *map(str, args)])
    assert result.exit_code == code, result.output
    return result


def exported(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def variants(folder: Path) -> dict[str, Any]:
    """Facts and text of each variant, as manifest.schema.json says how to read them."""
    manifest = exported(folder)
    found = {}
    for body, entry in manifest["bodies"].items():
        if "file" not in entry:
            continue
        table = json.loads((folder / entry["file"]).read_text(encoding="utf-8"))

        def piece(number: str, table: Any = table) -> str:
            spans = [s.split("-") for s in table["pieces"][int(number)].split()]
            return "\n".join(
                line for s in spans for line in table["lines"][int(s[0]) : int(s[-1]) + 1]
            )

        for key, numbers in table["variants"].items():
            head, tail, number = numbers.split()
            facts = table["facts"][int(number)]
            enable = manifest["dialect"] == "tint" and "subgroups" in facts["features"]
            text = "enable subgroups;\n" * enable + piece(head) + piece(tail)
            found[f"{body} {key}"] = {**facts, "body": body, "text": text}
    return found


def test_files_and_hashes(tmp_path: Path) -> None:
    said = run(tmp_path, "softmax", "softmax_backward", "--shape", SOFTMAX).stdout
    manifest = exported(tmp_path)
    found = variants(tmp_path)
    assert f"2 kernels, {len(found)} variants, 1 recorded plans" in said
    files = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {*manifest["files"], "manifest.json"}
    for name, sha256 in manifest["files"].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == sha256
    texts = {b["file"] for b in manifest["bodies"].values() if "file" in b}
    assert {n for n in files if n.startswith("wgsl/")} == texts >= {"wgsl/softmax.json"}
    others = {p.name for p in tmp_path.iterdir() if p.is_file()}
    assert others == {
        "LICENSE", "manifest.json", "manifest.schema.json", "pykernels.js", "pykernels.d.ts",
    }  # fmt: skip
    used = {(v["body"], n.rpartition("=")[2]) for n, v in found.items()}
    assert {("softmax", "read"), ("softmax", "merged"), ("softmax_backward", "rw")} <= used
    one = next(v for n, v in found.items() if v["body"] == "softmax" and n.endswith("mode=read"))
    assert [b["name"] for b in one["bindings"]] == ["x", "sinks", "dst", "p"]
    assert [b["access"] for b in one["bindings"]] == ["read", "read", "read_write", "uniform"]
    assert one["workgroup_size"] == [256, 1, 1]
    assert one["params"][0] == "groups: u32"
    built = read_manifest()["variants"]
    for name, v in found.items():
        text = v["text"].removeprefix("enable subgroups;\n")
        assert hashlib.sha256(text.encode()).hexdigest() == built[name]["sha256"]


def test_an_export_is_a_few_small_files(tmp_path: Path) -> None:
    """Without --shape: 3,207 files and 60 MB where each variant was a file."""
    run(tmp_path, *"softmax mul_mat conv2d flash_attn rms_norm layer_norm rope cpy".split())
    sizes = {p.relative_to(tmp_path).as_posix(): p.stat().st_size
             for p in tmp_path.rglob("*") if p.is_file()}  # fmt: skip
    assert len(sizes) < 60 and sum(sizes.values()) < 10e6
    most = max(n for name, n in sizes.items() if name.startswith("wgsl/"))
    assert sizes["pykernels.js"] + sizes["manifest.json"] + most < 1.1e6


def test_the_manifest_keeps_its_schema(tmp_path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    shapes = ["--shape", SOFTMAX, "--shape", "mul_mat a=f32[5,7] b=f32[3,7] dst=f32[3,5]"]
    run(tmp_path, *shapes)
    schema = json.loads((tmp_path / "manifest.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    manifest = exported(tmp_path)
    jsonschema.validate(manifest, schema)
    texts = {**schema, **schema["$defs"]["texts"]}
    table = jsonschema.Draft202012Validator(texts)
    for entry in manifest["bodies"].values():
        if "file" in entry:
            table.validate(json.loads((tmp_path / entry["file"]).read_text()))
    assert set(manifest["kernels"]) == set(FACTS)
    manifest["grid"]["row"] = 65536
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest, schema)


def test_an_export_carries_its_table(tmp_path: Path) -> None:
    """Recorded plans are made with the table that the manifest has, and the module reads."""
    call = "mul_mat a=f32[2048,512] b=f32[2048,512] dst=f32[2048,2048]"
    bodies = {}
    for name in ("generic-small", "generic-large"):
        run(tmp_path / name, "mul_mat", "--shape", call, "--tuning", name)
        manifest = exported(tmp_path / name)
        assert manifest["tuning"] == as_data(named(name))
        [plan] = manifest["kernels"]["mul_mat"]["plans"]
        bodies[name] = [(s["body"], "32" in s["axes"]) for s in plan["steps"]]
    assert bodies["generic-small"][0] == ("mul_mat", True)
    assert bodies["generic-large"] != bodies["generic-small"]
    run(tmp_path / "default", "mul_mat", "--shape", call)
    assert exported(tmp_path / "default") == exported(tmp_path / "generic-small")
    said = run(tmp_path / "none", "mul_mat", "--tuning", "huge", code=2).output
    assert "huge must be a file that can be read, or one of generic-large" in said


def test_dialects(tmp_path: Path) -> None:
    texts = {}
    for dialect in ("tint", "naga"):
        folder = tmp_path / dialect
        run(folder, "softmax", "--dialect", dialect, "--dtype", "float32")
        found = variants(folder)
        texts[dialect] = next(v for v in found.values() if v["features"] == ["subgroups"])["text"]
        assert all("T=f16" not in n for n in found)
    assert texts["tint"] == "enable subgroups;\n" + texts["naga"]
    tint = find_tint()
    if tint is not None:
        assert validate([Source("exported", texts["tint"])], [tint, Lints(("PK010",))]) == []


def test_the_same_export_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(tmp_path / name, "softmax_backward", "fill", "--shape", "fill dst=f16[3] value=1")
    first, second = (
        {p.relative_to(tmp_path / n).as_posix(): p.read_bytes()
         for p in (tmp_path / n).rglob("*") if p.is_file()}
        for n in ("a", "b")
    )  # fmt: skip
    assert first == second


def test_every_file_says_license_version_and_build(tmp_path: Path) -> None:
    run(tmp_path, "fill")
    manifest = exported(tmp_path)
    license = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert (tmp_path / "LICENSE").read_text(encoding="utf-8") == license
    assert manifest["license"] == "MIT" and manifest["generator"].endswith(manifest["version"])
    texts = json.loads((tmp_path / "wgsl" / "fill.json").read_text(encoding="utf-8"))
    assert texts["build"] == manifest["build"]
    for name in ("pykernels.js", "pykernels.d.ts"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith(f"/*! pykernels {manifest['version']}, build {manifest['build']}\n")
        assert license.strip() in text and "@BUILD@" not in text
    run(tmp_path, "neg", "--force")
    assert exported(tmp_path)["build"] != manifest["build"]


def test_a_bundle_is_one_module(tmp_path: Path) -> None:
    run(tmp_path, "fill", "neg", "--bundle")
    assert not (tmp_path / "wgsl").exists()
    text = (tmp_path / "pykernels.js").read_text(encoding="utf-8")
    found = re.findall(r'^bundled\.set\("([^"]+)", (".*")\);$', text, re.MULTILINE)
    assert [name for name, _ in found] == [
        "manifest.json", "wgsl/fill.json", "wgsl/memset.json", "wgsl/unary.json"
    ]  # fmt: skip
    builds = {json.loads(json.loads(content))["build"] for _, content in found}
    assert builds == {exported(tmp_path)["build"]}


def test_the_dtype_of_an_output_is_the_one_that_there_is(tmp_path: Path) -> None:
    run(tmp_path, "argsort", "--shape", "argsort x=f32[5,777]")
    [plan] = exported(tmp_path)["kernels"]["argsort"]["plans"]
    assert "dst=int32[5,777]" in plan["key"]


def test_a_plan_that_is_python_only_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_translation(*args: object) -> None:
        raise NotTranslated("it flies")

    monkeypatch.setattr("pykernels.export._write.translate", no_translation)
    said = run(tmp_path, "fill", "neg").stderr
    assert "no layout was recorded for fill: " in said
    kernels = exported(tmp_path)["kernels"]
    assert kernels["fill"]["plans"] == []
    assert [k["launches"] for k in kernels.values()] == ["recorded", "any"]
    assert any(v["body"] == "fill" for v in variants(tmp_path).values())


def test_what_has_no_javascript_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "plans"
    shutil.copytree(Path(plans.__path__[0]), folder)
    path = folder / "softmax" / "close.py"
    text = (
        path.read_text(encoding="utf-8") + "\n\ndef late(x: int) -> int:\n    del x\n    return 1\n"
    )
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(plans, "__path__", [str(folder)])
    line = len(text.splitlines()) - 1
    told = [*untranslated()]
    assert told and all(t.startswith(f"pykernels/plans/softmax/close.py:{line}: ") for t in told)
    assert any(t.endswith("(the plan of softmax)") for t in told)


def test_a_plan_may_be_kept_from_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert live_plan(FACTS["neg"]) == {}
    assert list(live_plan(FACTS["softmax"]) or {}) == [
        "parts", "fft.complex", "runs", "copy.tiles", "copy.cpy", "softmax.close",
        "softmax.softmax",
    ]  # fmt: skip
    kept = {"test": [], "recorded_only": "it flies"}
    monkeypatch.setattr("pykernels.export._cases.table", lambda kernel, facts: kept)
    assert live_plan(FACTS["softmax"]) is None


def test_recorded_and_live_plans(tmp_path: Path) -> None:
    run(tmp_path / "a", "softmax")
    run(tmp_path / "b", "softmax", "--shape", SOFTMAX)
    run(tmp_path / "c", "softmax", "--shape", SOFTMAX, "--all-variants", "--dtype", "float32")
    folders = [tmp_path / n for n in "abc"]
    assert [exported(f)["kernels"]["softmax"]["launches"] for f in folders] == [
        "any", "recorded", "any",
    ]  # fmt: skip
    assert [len(exported(f)["kernels"]["softmax"]["plans"]) for f in folders] == [0, 1, 1]
    sizes = [len(variants(f)) for f in folders]
    assert sizes[1] < 5 < sizes[2] < sizes[0]
    texts = [(f / "pykernels.js").read_text(encoding="utf-8") for f in folders]
    assert ["plans.softmax$softmax = " in t for t in texts] == [True, False, True]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["paint"], "there is no kernel 'paint'"),
        (["fill", "--dtype", "f64"], "--dtype must be one of float32, "),
        (["fill", "--dialect", "glsl"], "'glsl'"),
        (["softmax", "--dtype", "int64"], "--dtype int64: softmax must be of float16, float32"),
        (["fill", "--shape", SOFTMAX], "'softmax' is not among fill"),
        (["softmax", "--shape", "softmax x=f32[8"], "is not like x=f32[8,1000]"),
        (["softmax", "--shape", "softmax x=f64[8]"], "in 'x=f64[8]' the dtype must be one of"),
        (["softmax", "--shape", f"softmax x=f32[{'9' * 5000}]"], "is not like x=f32[8,1000]"),
        (["softmax", "--shape", "softmax x=f32[8,2]:2"], "has 1 strides"),
        (["softmax", "--shape", "softmax y=f32[8]"], "softmax has x, mask, sinks, dst"),
        (["softmax", "--shape", "softmax dst=f32[8]"], "softmax needs x"),
        (["softmax", "--shape", "softmax x=i32[8]"], "x must be float32 or float16 but is int32"),
        (
            ["softmax", "--shape", "softmax x=f32[8] dst=f16[8]"],
            "dst must be float32, the dtype of",
        ),
        (["softmax", "--shape", "softmax x=f32[8] dst=f32[9]"], "dst must have shape (8,)"),
        (["softmax", "--shape", "softmax x=f32[8] mask=f32[3]"], "mask must broadcast to (8,)"),
        (["softmax", "--shape", "softmax x=f32[8]:-1"], "x has negative strides"),
        (
            ["mul_mat", "--shape", "mul_mat a=f32[5,7] b=f32[3,8] dst=f32[3,5]"],
            "a and b must agree",
        ),
    ],
)
def test_wrong_use_ends_with_2(args: list[str], said: str, tmp_path: Path) -> None:
    assert said in run(tmp_path, *args, code=2).stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("small_pages")
def test_a_page_expects_conditions_to_be_exact(tmp_path: Path) -> None:
    """Their memory is bytes on the device and integers on the page."""
    run(tmp_path, "equal", "--page", "--shape", "equal a=f32[8] b=f32[8] dst=bool[8]")
    entries = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))["entries"]
    assert entries and all(e["expect"]["dst"]["share"] == 0 for e in entries)


@pytest.mark.usefixtures("small_pages")
def test_a_page_launches_any_layout(tmp_path: Path) -> None:
    """Its calls are recorded only beside others that are."""
    run(tmp_path / "a", "softmax")
    run(tmp_path / "b", "softmax", "--page")
    run(tmp_path / "c", "softmax", "--page", "--shape", SOFTMAX)
    kernels = [exported(tmp_path / n)["kernels"]["softmax"] for n in "abc"]
    assert [k["launches"] for k in kernels] == ["any", "any", "recorded"]
    shown = json.loads((tmp_path / "b" / "page.json").read_text(encoding="utf-8"))["entries"]
    assert [len(k["plans"]) for k in kernels] == [0, 0, 1 + len(shown)] and shown
    assert variants(tmp_path / "a") == variants(tmp_path / "b")


@pytest.mark.usefixtures("small_pages")
def test_an_export_replaces_its_own_files_only(tmp_path: Path) -> None:
    run(tmp_path, "exp")
    run(tmp_path, "exp", "neg", "--dialect", "naga")  # its own, changed
    run(tmp_path, "neg", "--page", "--shape", "neg x=f32[8]")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    mine = {"index.html": "my page", "pykernels.js": "// my work\n"}
    for name, text in mine.items():
        before[tmp_path / name] = text.encode()
        (tmp_path / name).write_text(text)
    said = run(tmp_path, "exp", "neg", "--page", code=2).stderr
    assert "pykernels.js is not from an export, " in said and "index.html is not from an ex" in said
    assert said.count("\n") == 1 and "--force" in said
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    run(tmp_path, "neg", "--page", "--force")
    assert (tmp_path / "index.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_manifest_of_another_application_stays(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "my app", "icons": []}')
    assert "manifest.json is not from an export" in run(tmp_path, "exp", code=2).stderr
    assert "my app" in (tmp_path / "manifest.json").read_text()


@pytest.mark.parametrize("link", ["pykernels.js", "wgsl", "dangling", "loop"])
def test_nothing_is_written_through_a_link(link: str, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    site.mkdir()
    elsewhere.mkdir()
    (elsewhere / "pykernels.js").write_text("mine")
    if link == "pykernels.js":
        (site / link).symlink_to(elsewhere / link)
    elif link == "wgsl":
        (site / link).symlink_to(elsewhere)
    else:
        target = tmp_path / "nowhere" if link == "dangling" else site / "manifest.json"
        (site / "manifest.json").symlink_to(target)
    said = run(site, "exp", code=2).stderr
    assert " is a link" in said and said.count("\n") == 1
    assert [p.name for p in elsewhere.iterdir()] == ["pykernels.js"] and len(
        list(site.iterdir())
    ) == 1
    run(site, "exp", "--force")
    assert (elsewhere / "pykernels.js").read_text() == "mine"  # the link was replaced
    (tmp_path / "shortcut").symlink_to(site)
    run(tmp_path / "shortcut", "exp", *(["--force"] if link == "wgsl" else []))  # the folder may be


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = run(tmp_path / "file" / "site", "exp", code=2).stderr
    assert "cannot be written: Not a directory" in said and said.count("\n") == 1


def test_help_and_docs_say_the_same() -> None:
    """What --shape means, in the words of both."""
    told = " ".join(run("--help").stdout.split())
    guide = (ROOT / "docs" / "guide" / "exporting.md").read_text(encoding="utf-8")
    assert "Without --shape, a kernel launches any layout, with all its variants." in told
    assert "Without `--shape` the functions launch **any layout**" in guide
    for option in (
        "--all-variants",
        "--dialect",
        "--dtype",
        "--shape",
        "--tuning",
        "--page",
        "--bundle",
        "--force",
    ):
        assert option in told and f"`{option}" in guide


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_a_terminal_sees_how_far_it_is(tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pykernels", "export", str(tmp_path), "neg"]
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # how Linux says that the other end was closed
            while more := os.read(ours, 4096):
                seen += more
        assert process.wait() == 0
    os.close(ours)
    count = len(variants(tmp_path))
    assert f" {count}/{count}" in seen.decode()


def test_layouts_in_words() -> None:
    text = "src=f32[4,6]:1,4 dst=float16[6,4]"
    r = parse("cpy", text, FACTS["cpy"])
    assert (r.layouts["src"].strides, r.layouts["dst"].dtype.name) == ((4, 16), "float16")
    r = parse("softmax", "x=f32[] dst=x scale=0.5", FACTS["softmax"])
    assert r.layouts["dst"] is r.layouts["x"] and r.layouts["x"].shape == ()
    assert (r.shares, r.given) == ({"dst": "x"}, {"scale": 0.5})
    r = parse("mul_mat", "a=f32[2,2] b=f32[2,2] dst=f32[2,2] activation=relu", FACTS["mul_mat"])
    assert r.given == {"activation": "relu"}


@pytest.mark.parametrize("kernel", sorted(FACTS))
def test_every_kernel_has_cases(kernel: str) -> None:
    facts = FACTS[kernel]
    found = cases(kernel, facts)
    assert found is not None and found.test, (
        f"kernel {kernel} has no case for the browser: write a few small calls into "
        f"{where(kernel, facts)}, as docs/design/export.md says (test = ['x=f32[3,17]', ...])"
    )


def test_keys_of_plans_write_numbers_as_javascript_does() -> None:
    spelled = {
        2.0: "2", -0.0: "0", 0.1: "0.1", 1e-5: "0.00001", -1.5e-7: "-1.5e-7", 1e20: f"1{'0' * 20}",
        1e22: "1e+22", (1e-6, True): "[0.000001,true]", None: "null", "sum": '"sum"',
    }  # fmt: skip
    assert {v: _json(v) for v in spelled} == spelled
