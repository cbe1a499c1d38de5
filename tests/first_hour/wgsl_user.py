"""The first hour of somebody with a repository of WGSL: validate it, in CI too, and take a kernel.

Plain code as such a user writes it, run from an installed wheel by test_first_hour.py.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

NAGA = shutil.which("naga") is not None  # cargo install naga-cli
BOTH = "naga, tint" if NAGA else "tint"

GOOD = """\
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> o: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  if (g.x < arrayLength(&x)) { o[g.x] = 2.0 * x[g.x]; }
}
"""
TEXTBOOK = GOOD.replace("if (g.x < arrayLength(&x)) { o[g.x] = 2.0 * x[g.x]; }", "o[g.x] = 1.0;")
WRONG_TYPE = GOOD.replace("2.0 * x[g.x]", "g.x")
NO_SEMICOLON = GOOD.replace("  if", "  let i = g.x\n  if")
LATE_BARRIER = """\
var<workgroup> shared_x: array<f32, 64>;
@group(0) @binding(0) var<storage, read_write> o: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) g: vec3<u32>, @builtin(local_invocation_index) l: u32) {
  if (g.x >= arrayLength(&o)) { return; }
  shared_x[l] = o[g.x];
  workgroupBarrier();
  o[g.x] = shared_x[63u - l];
}
"""
UNWRITTEN = """\
var<workgroup> shared_x: array<f32, 64>;
@group(0) @binding(0) var<storage, read_write> o: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) l: u32) { o[l] = shared_x[l]; }
"""
LARGE = UNWRITTEN.replace("64>", "5000>").replace("{ o", "{ shared_x[l] = 1.0; o")


def pykernels(*args, code=0, stdin=""):
    """What the command prints (and its message, for code 2); it ends with this code."""
    done = subprocess.run(
        ["pykernels", *map(str, args)], input=stdin, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout + (done.stderr if code == 2 else "")


def validate(*args, **options):
    return pykernels("validate", *args, **options).splitlines()


def last(line, count):
    assert re.match(rf"{count} \(", line) and "tint" in line and "lint" in line, line


def what_is_found():
    # It ends with 2 on a machine without a GPU or a software driver, which this needs not.
    doctor = subprocess.run(["pykernels", "doctor", "--json"], capture_output=True, text=True)
    report = json.loads(doctor.stdout)
    assert report["validators"]["tint"], report
    if not NAGA:
        (missing,) = (m for m in report["missing"] if m["what"] == "naga-cli")
        assert missing["install"].startswith("cargo install naga-cli")
    assert "0  no errors" in pykernels("validate", "--help")


def a_repository():
    shaders = Path("shaders")
    (shaders / "more").mkdir(parents=True)
    (shaders / "good.wgsl").write_text(GOOD)
    (shaders / "more" / "textbook.wgsl").write_text(TEXTBOOK)
    last(*validate(shaders / "good.wgsl"), "1 shader valid")
    last(*validate(shaders), "All 2 shaders valid")

    (shaders / "type.wgsl").write_text(WRONG_TYPE)
    (shaders / "more" / "semicolon.wgsl").write_text(NO_SEMICOLON)
    (shaders / "barrier.wgsl").write_text(LATE_BARRIER)
    *found, end = validate(shaders, code=1)
    assert sum("naga" in line for line in found) == 2 * NAGA, found  # one line for one fault
    found = {line.partition(":")[0]: line for line in reversed(found)}
    assert re.search(rf"type.wgsl:6:.*{BOTH}", found["shaders/type.wgsl"]), found
    assert re.search(r"semicolon.wgsl:[67]:", found["shaders/more/semicolon.wgsl"]), found
    assert "barrier.wgsl:8:" in found["shaders/barrier.wgsl"], found  # naga lets it through
    assert "in 3 of 5 shaders" in end
    assert validate(shaders, "--level", "error", code=1)[-1].startswith(("3 errors", "4 errors"))


def editors_and_continuous_integration():
    out = json.loads(pykernels("validate", "--json", "shaders", code=1))
    kinds = {(f["file"], f["line"], f["severity"]) for f in out["findings"]}
    assert {file for file, _, _ in kinds} == {
        "shaders/type.wgsl", "shaders/barrier.wgsl", "shaders/more/semicolon.wgsl",
    }, kinds  # fmt: skip
    assert out["checked"] == 5 and set(out["validators"]) >= {"tint", "lint"}
    lines = validate("--format", "github", "shaders", code=1)
    assert sum(line.startswith("::error file=shaders/") for line in lines) in (3, 4), lines
    *found, _ = validate("-", stdin=WRONG_TYPE, code=1)
    assert found[0].startswith("<stdin>:6:"), found
    last(*validate("-", stdin=GOOD), "1 shader valid")


def warnings_and_strictness():
    Path("unwritten.wgsl").write_text(UNWRITTEN)
    warning, *_, end = validate("unwritten.wgsl")
    assert "unwritten.wgsl:5:" in warning and "warning" in warning and "PK008" in warning
    assert "1 shader valid, 1 warning" in end
    validate("--strict", "unwritten.wgsl", code=1)
    last(*validate("--strict", "--ignore", "PK008", "unwritten.wgsl"), "1 shader valid")
    last(*validate("--level", "error", "unwritten.wgsl"), "1 shader valid")
    silenced = UNWRITTEN.replace("fn main", "// pykernels: ignore PK008\nfn main")
    Path("silenced.wgsl").write_text(silenced)
    last(*validate("--strict", "silenced.wgsl"), "1 shader valid")


def limits_of_my_devices():
    Path("large.wgsl").write_text(LARGE)
    found = validate("--limits", "webgpu", "large.wgsl", code=1)
    assert "large.wgsl:1:1: error: 20000 bytes" in found[0] and "16384" in found[0], found
    Path("phone.json").write_text('{"maxComputeWorkgroupStorageSize": 32768}')
    last(*validate("--limits", "phone.json", "large.wgsl"), "1 shader valid")
    Path("phone.json").write_text('{"maxComputeWorkgroupStorag": 32768}')
    assert "maxComputeWorkgroupStorag" in validate("--limits", "phone.json", ".", code=2)[-1]


def files_that_are_none():
    folder = Path("odd")
    folder.mkdir()
    (folder / "good.wgsl").write_text(GOOD)
    (folder / "nowhere.wgsl").symlink_to("gone.wgsl")
    (folder / "bytes.wgsl").write_bytes(b"fn main() {} // \xff")
    os.mkfifo(folder / "pipe.wgsl")
    (folder / "template.wgsl").write_text("fn f() -> f32 { return {{ value }}; }\n")
    (folder / "part.wgsl").write_text("fn f(x: f32) -> f32 { return x * SCALE; }\n")
    lines = validate(folder, code=1)
    for name, why in (
        ("nowhere.wgsl", "a link to nothing"), ("bytes.wgsl", "UTF-8"),
        ("pipe.wgsl", "no regular file"), ("template.wgsl: skipped", "template"),
        ("part.wgsl: skipped", "SCALE"),
    ):  # fmt: skip
        (line,) = (line for line in lines if f"odd/{name}" in line)
        assert why in line, line
    assert "2 skipped, not checked" in lines[-1]
    for name in ("nowhere", "bytes", "pipe"):
        (folder / f"{name}.wgsl").unlink()
    validate(folder)  # what is skipped does not fail a run
    validate("--strict", folder, code=1)
    assert "no such file" in validate("nothing.wgsl", code=2)[-1]
    Path("empty").mkdir()
    assert "nothing to validate" in validate("empty", code=2)[-1]


def translations():
    if NAGA:
        last(*validate("--to", "spv,msl,hlsl,glsl", "shaders/good.wgsl"), "1 shader valid")
        assert "kernel void" in pykernels("show", "softmax", "--to", "msl")
    else:
        assert "cargo install naga-cli" in validate("--to", "msl", "shaders/good.wgsl", code=2)[-1]


def from_python():
    from pykernels.validate import Limits, Lints, Source, find_naga, find_tint, validate

    validators = [v for v in (find_naga(), find_tint(), Lints()) if v is not None]
    sources = [Source("good", GOOD, Limits()), Source("barrier", LATE_BARRIER, Limits())]
    found = validate(sources, validators)
    errors = [f for f in found if f.severity == "error"]
    assert errors and {(f.source, f.line) for f in errors} == {("barrier", 8)}


def a_kernel_for_my_page():
    text = pykernels("show", "softmax", "--dtype", "f16")
    assert "enable f16;" in text and "@compute" in text
    assert "mode=read" in pykernels("show", "softmax", "--variants")
    assert "did you mean 'softmax'" in pykernels("show", "sofmax", code=2)
    Path("shown.wgsl").write_text(pykernels("show", "cpy"))
    validate("shown.wgsl")

    pykernels("export", "site", "softmax", "--shape", "softmax x=f32[8,1000]")
    names = {p.name for p in Path("site").iterdir()}
    assert {"pykernels.js", "pykernels.d.ts", "manifest.json"} <= names, names
    manifest = json.loads(Path("site", "manifest.json").read_text())
    assert "softmax" in manifest["kernels"]
    texts = [p for p in Path("site").rglob("*.json") if p.name != "manifest.json"]
    assert texts and any("@compute" in p.read_text() for p in texts), texts
    pykernels("export", "site", "softmax", "--shape", "softmax x=f32[8,1000]")  # again
    Path("site", "pykernels.js").write_text("mine")
    refused = pykernels("export", "site", "softmax", code=2)
    assert "pykernels.js" in refused and "--force" in refused, refused
    assert Path("site", "pykernels.js").read_text() == "mine"


for part in (
    what_is_found, a_repository, editors_and_continuous_integration, warnings_and_strictness,
    limits_of_my_devices, files_that_are_none, translations, from_python, a_kernel_for_my_page,
):  # fmt: skip
    part()
    print(f"{part.__name__.replace('_', ' ')}: as expected", flush=True)
