"""The crate that `pykernels export --to rust` writes: its plans make the steps that Python makes,
its launches the numbers of the reference, and examples/rust those of numpy.

cargo builds the crate `wgpu` once, in .tools/rust; examples/rust/Cargo.lock pins it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pykernels.cli import main
from pykernels.dtypes import numpy_dtype
from pykernels.errors import ArgumentError
from pykernels.export import _write
from pykernels.export._cases import arrays, cases, fills
from pykernels.export._expect import agree, results
from pykernels.export._layouts import Request
from pykernels.export._record import CAPS, caps_data
from pykernels.export._rust import collect_crate
from pykernels.export._translate import NotTranslated
from tests.browser.conftest import FACTS
from tests.browser.test_plans import LARGE, PLANS, TIGHT, planned, views_of
from tests.browser.test_steps import as_json
from tests.checkout import ROOT

Ask = Callable[[list[dict[str, Any]]], list[Any]]
EXAMPLE = ROOT / "examples" / "rust"
WORK = ROOT / ".tools" / "rust"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", WORK / "target"))
KERNELS = ("mul_mat", "softmax", "sum")  # of the example
ROUNDS = 6  # calls of each plan
pytestmark = pytest.mark.timeout(1200)


def update(path: Path, text: str) -> None:
    """Writes a file unless it is so already: cargo looks at times."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        own = path.with_name(f"{path.name}.{os.getpid()}")  # stages run at the same time
        own.write_text(text, encoding="utf-8", newline="\n")
        own.replace(path)


def cargo(project: Path, *args: str) -> None:
    done = subprocess.run(
        ["cargo", *args, "--quiet", "--locked"], cwd=project, capture_output=True, text=True,
        env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)},
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr  # no warnings either


@pytest.fixture(scope="module")
def project() -> Path:
    """The example with a crate of all kernels, and with the program that answers these tests."""
    if shutil.which("cargo") is None:
        if os.environ.get("CI"):
            pytest.fail("there is no cargo")
        pytest.skip("there is no cargo")
    folder = TARGET.parent / "project"
    crate = collect_crate(sorted(FACTS), [])
    files = {f"kernels/{name}": text for name, text in crate.files.items()}
    for name in ("Cargo.toml", "Cargo.lock", "src/main.rs"):
        files[name] = (EXAMPLE / name).read_text(encoding="utf-8")
    answers = Path(__file__).with_name("rust_answers.rs")
    files["src/bin/answers.rs"] = answers.read_text(encoding="utf-8")
    for name, text in files.items():
        update(folder / name, text)
    cargo(folder, "build")
    return folder


@pytest.fixture(scope="module")
def ask(project: Path) -> Ask:
    def answer(calls: list[dict[str, Any]]) -> list[Any]:
        done = subprocess.run(
            [TARGET / "debug" / "answers"], input="\n".join(map(json.dumps, calls)),
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return answer


def test_plans_as_in_python(ask: Ask) -> None:
    """On the layouts of the cases, and on random ones around them, also where Python refuses."""
    calls, wants = [], []
    for kernel in PLANS:
        facts = FACTS[kernel]
        found = cases(kernel, facts)
        assert found is not None
        requests = [*found.test, *found.page]
        rng = np.random.default_rng(zlib.crc32(kernel.encode()))
        for i in range(max(ROUNDS, min(len(requests), 2 * ROUNDS))):
            request = requests[i % len(requests)]
            views = views_of(request, facts, rng if i >= ROUNDS // 2 else None)
            caps = CAPS if i < ROUNDS // 2 else (CAPS, TIGHT, LARGE)[i % 3]
            if any(v and v.nbytes > 16 * caps.max_binding for v in views.values()):
                continue  # thousands of steps
            options = [request.given.get(o["name"], o["default"]) for o in facts["options"]]
            wants.append(planned(facts["of"], caps, list(views.values()), options))
            calls.append(
                {
                    "kernel": kernel, "options": options, "caps": caps_data(caps),
                    "views": {n: v and as_json(v) for n, v in views.items()},
                }
            )  # fmt: skip
    answers = ask(calls)
    wrong = [
        (call["kernel"], call["views"], call["options"], got.get("error", "other steps"))
        for call, want, got in zip(calls, wants, answers, strict=True)
        if got.get("answer") != want
    ]
    assert not wrong, f"{len(wrong)} of {len(calls)}: {wrong[:3]}"
    assert sum(w is not None for w in wants) > len(PLANS)


# Kernels whose launches differ in kind: rows of one body, a scalar as bits, strides, several steps,
# options, integers, an optional output, indices, in place.
LAUNCHED = (
    "add", "argmax", "conv2d", "cumsum", "fill", "flash_attn", "get_rows", "layer_norm",
    "mul_mat", "pow", "rope", "softmax", "sum", "top_k", "where",
)  # fmt: skip


@pytest.mark.gpu
def test_launches_agree_with_the_reference(request: pytest.FixtureRequest) -> None:
    on_lavapipe()  # before the fixtures, which take time
    ask: Ask = request.getfixturevalue("ask")
    calls, wants = [], []
    for kernel in LAUNCHED:
        facts = FACTS[kernel]
        found = cases(kernel, facts)
        assert found is not None
        for one in found.test[:2]:
            if any(not lay.contiguous for lay in one.layouts.values()):
                continue
            given = arrays(one, fills(one, facts, found.values))
            wants.append((one, results(one, facts, given)))
            calls.append(launch(one, facts, given))
    assert len(calls) > len(LAUNCHED)
    for call, (one, want), got in zip(calls, wants, ask(calls), strict=True):
        assert "answer" in got, (call["kernel"], one.text, got)
        for name, values in want.items():
            dtype = numpy_dtype(one.layouts[name].dtype.name)
            made = np.frombuffer(bytes(got["answer"][name]), dtype).reshape(values.shape)
            agreement = agree(made, values)
            assert not agreement.bad, (call["kernel"], one.text, name, agreement)


def launch(request: Request, facts: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    tensors = {
        name: {
            "dtype": lay.dtype.name, "shape": list(lay.shape), "in": request.shares.get(name, ""),
            "bytes": list(np.ascontiguousarray(given[name]).tobytes()),
        }
        for name, lay in request.layouts.items()
    }  # fmt: skip
    scalars = {s["name"] for s in facts["scalars"]}
    return {
        "what": "run", "kernel": request.kernel, "tensors": tensors,
        "scalars": {k: v for k, v in request.given.items() if k in scalars},
        "options": {k: v for k, v in request.given.items() if k not in scalars},
    }  # fmt: skip


def on_lavapipe() -> None:
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one driver is enough")


@pytest.mark.gpu
def test_the_example_agrees_with_numpy(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    on_lavapipe()
    request.getfixturevalue("project")
    rng = np.random.default_rng(0)
    x, w, bias = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((77, 96), (96, 40), (40,))
    )
    for name, array in (("x", x), ("w", w), ("bias", bias)):
        array.tofile(tmp_path / f"{name}.bin")
    done = subprocess.run(
        [TARGET / "debug" / "pykernels_example", tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "[softmax] dst must have the shape of x" in done.stdout
    logits = 0.5 * (x.astype(np.float64) @ w + bias)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    want = e / e.sum(-1, keepdims=True)
    got = np.fromfile(tmp_path / "probabilities.bin", np.float32).reshape(want.shape)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-7)
    each = np.fromfile(tmp_path / "each.bin", np.float32)
    np.testing.assert_allclose(each, want.sum(0), rtol=2e-5)


def test_command(tmp_path: Path) -> None:
    def run(*args: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["export", str(tmp_path / "crate"), "softmax", *args])
        assert done.exit_code == code, done.output
        return done.output

    assert "a crate of 1 kernel" in run("--to", "rust", "--dtype", "f32")
    files = [p for p in (tmp_path / "crate").rglob("*") if p.is_file()]
    made = {p.relative_to(tmp_path / "crate").as_posix() for p in files}
    assert {"Cargo.toml", "LICENSE", "data/plans.json", "data/wgsl/softmax.json"} <= made
    text = (tmp_path / "crate" / "data" / "wgsl" / "softmax.json").read_text(encoding="utf-8")
    assert "T=f32" in text and "T=f16" not in text
    first = {p: p.read_bytes() for p in files}
    run("--to", "rust", "--dtype", "f32")  # what an export has written, it replaces
    assert first == {p: p.read_bytes() for p in files}
    for more in (["--page"], ["--bundle"], ["--shape", "softmax x=f32[8,8]"], ["--all-variants"],
                 ["--dialect", "naga"]):  # fmt: skip
        assert f"{more[0]} is for web pages" in run("--to", "rust", *more, code=2)


def test_a_plan_that_is_not_translated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise NotTranslated("no")

    monkeypatch.setattr(_write, "translate", refuse)
    with pytest.raises(ArgumentError, match="softmax: its plan is not translated"):
        collect_crate(["softmax"], [])


def test_the_example_names_its_kernels() -> None:
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert f"pykernels export --to rust kernels {' '.join(KERNELS)}" in text
    used = (EXAMPLE / "src" / "main.rs").read_text(encoding="utf-8")
    assert all(f"kernels::{name}(" in used for name in KERNELS)
