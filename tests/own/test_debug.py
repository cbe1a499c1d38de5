"""`debug` in the sources of a folder and of the build: texts, records, and what is refused."""

from __future__ import annotations

import importlib
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.own import SourceError, build_package
from pykernels.raw import records
from pykernels.steps import Body
from pykernels.validate import find_naga, find_tint
from pykernels.validate._instrument import Instrumented, Site
from pykernels.wgsl.texts import Text
from tests.checkout import ROOT

TEMPLATES = ROOT / "codegen" / "templates"
LIBRARY = """\
//% macro halved()
fn halved(v: f32) -> f32 {
  debug("in the library", v);
  return 0.5f * v;
}
//% endmacro
"""
CALL = '  debug("product", i, product,\n        p.factor);\n'


def kernel(kind: str) -> str:
    return (TEMPLATES / kind / "kernel.wgsl").read_text(encoding="utf-8").replace("NAME", "k")


def with_debug(text: str) -> str:
    """The pass with two calls: in the body over two lines, and in a library."""
    uses = text.replace("// axes.WG = [256]", '// axes.WG = [256]\n// uses = ["halves"]')
    body = uses.replace("  dst_store", f"{CALL}  dst_store").replace(
        "y_load(y_i", "halved(y_load(y_i"
    )
    return body.replace("(i)));\n}", "(i))));\n}").replace(
        "// An invocation", "${halves.halved()}\n// An invocation"
    )


@pytest.fixture
def shaders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two kernels, of which `passes` has calls of debug."""
    monkeypatch.setenv("PYKERNELS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "shaders"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "halves.wgsl").write_text(LIBRARY)
    (folder / "passes.wgsl").write_text(with_debug(kernel("pass")))
    (folder / "rows.wgsl").write_text(kernel("row"))
    return folder


def built(folder: Path, into: Path, validate: Any = "skip") -> dict[str, str]:
    build_package(folder, into, validate=validate, report=lambda line: None)
    found = (p for p in sorted(into.rglob("*")) if p.is_file())
    return {p.relative_to(into).as_posix(): p.read_text(encoding="utf-8") for p in found}


def line_of(path: Path, part_: str) -> int:
    return next(n for n, line in enumerate(path.read_text().split("\n"), 1) if part_ in line)


def test_release_texts_are_those_without_debug(shaders: Path, tmp_path: Path) -> None:
    """Byte for byte, and each line of them has the line of its source."""
    debug = built(shaders, tmp_path / "a")
    assert [name for name in debug if name.startswith("debug/")] == ["debug/passes.json"]
    source = shaders / "passes.wgsl"
    places = json.loads(debug["lines/passes.json"])["bodies"][0]
    assert ["shaders/passes.wgsl", line_of(source, "dst_store")] in places
    source.write_text(source.read_text().replace(CALL, ""))
    library = shaders / "lib" / "halves.wgsl"
    library.write_text(LIBRARY.replace('  debug("in the library", v);\n', ""))
    plain = built(shaders, tmp_path / "b")
    assert debug["wgsl/passes.json"] == plain["wgsl/passes.json"]
    assert not any(name.startswith("debug/") for name in plain)
    assert "debug" not in plain["wgsl/passes.json"]
    texts = "bodies/passes.py", "lines/passes.json", "manifest.json"
    assert {n for n in plain if plain[n] != debug[n]} <= {*texts, "bodies/rows.py"}  # the hash


def test_texts_with_debug_are_validated(shaders: Path, tmp_path: Path) -> None:
    if find_naga() is None and find_tint() is None:
        pytest.skip("needs naga or Tint")
    built(shaders, tmp_path / "a", "auto")
    source = shaders / "passes.wgsl"
    text = source.read_text()
    source.write_text(text.replace("product,\n        p.factor", "product,\n        produce"))
    line = line_of(source, "produce)")
    with pytest.raises(SourceError, match=rf"^shaders/passes\.wgsl:{line - 1}: .*produce"):
        built(shaders, tmp_path / "b", "auto")


@pytest.mark.parametrize(("change", "said"), [
    (lambda s: s.replace('debug("product", ', "debug("), 'debug needs a label: debug("x", x)'),
    (lambda s: s.replace('debug("product"', 'let z = debug("product"'), "statement by itself"),
    (lambda s: s.replace("p.factor)", "p.factor" + ", 1" * 16 + ")"), "16 values, not 19"),
    (lambda s: s.replace("p.factor)", "p.fact)"), "p.fact is read, but the spec has no params.fa"),
])  # fmt: skip
def test_wrong_calls(
    shaders: Path, tmp_path: Path, change: Callable[[str], str], said: str
) -> None:
    source = shaders / "passes.wgsl"
    source.write_text(change(source.read_text()))
    with pytest.raises(SourceError) as caught:
        built(shaders, tmp_path / "a")
    lines = {line_of(source, "debug("), line_of(source, "        p.fac")}
    assert caught.value.file == "shaders/passes.wgsl" and caught.value.line in lines
    assert said in str(caught.value)


@pytest.mark.gpu
def test_records(dev: pk.Device, shaders: Path) -> None:
    kernels = pk.load_kernels(shaders)
    x = dev.tensor(np.arange(600, dtype=np.float32).reshape(20, 30))
    y, out = dev.full((20, 30), 3.0), dev.zeros((21, 30))[1:]
    want = 2.0 * x.numpy() + 1.5
    kernels.passes(x, y, out, factor=2.0)  # nobody looks
    assert (out.numpy() == want).all()
    out[...] = 0
    with dev.debug(invocation=range(31, 33)) as d:
        kernels.passes(x, y, out, factor=2.0)
        sums = pk.softmax(x).numpy().sum(1)  # kernels without debug run as they are
        kernels.rows(x + 1, y)
    assert (out.numpy() == want).all() and np.allclose(sums, 1)
    np.testing.assert_allclose(y.numpy().sum(1), 1, rtol=1e-5)
    source = shaders / "passes.wgsl"
    line, other = line_of(source, 'debug("product"'), line_of(shaders / "lib/halves.wgsl", "debug(")
    assert sorted(str(d).splitlines()) == sorted(
        text for i in (31, 32) for text in (
            f"shaders/passes.wgsl:{line} ({i}, 0, 0) product: {i}, {2 * i}, 2",
            f"shaders/lib/halves.wgsl:{other} ({i}, 0, 0) in the library: 3",
        )
    )  # fmt: skip
    assert {(r.kernel, r.file) for r in d.records} == {
        ("passes", "shaders/passes.wgsl"), ("passes", "shaders/lib/halves.wgsl"),
    }  # fmt: skip
    half = pk.full((4, 4), 2.0, "float16", device=dev) if "shader-f16" in dev.features else y
    with dev.debug(limit=4) as d:
        kernels.passes(half, half, half, factor=2.0)  # another text, in place
        kernels.passes(x, y.T.reshape((20, 30)), out)
    assert d.lost and len(d.records) >= 4
    with dev.debug() as d, dev.capture() as program:
        kernels.passes(x, x, out)
    program()
    assert d.records == () and (out.numpy() == 1.5 * x.numpy()).all()
    assert not dev._context.guarded or dev._context.checks_indices or dev._context.thread


@pytest.mark.gpu
def test_tapes_and_profiles_see_one_launch(dev: pk.Device, shaders: Path) -> None:
    kernels = pk.load_kernels(shaders)
    x, out = dev.ones(8), dev.zeros(8)
    with dev.debug() as d, pk.Tape() as tape:
        tape.watch(x)
        kernels.passes(x, x, out)
        loss = pk.sum(out)
    assert len(d.records) == 16
    with pytest.raises(pk.TapeError, match="passes"):
        tape.gradient(loss, x)
    with dev.debug(), dev.profile() as p:
        kernels.passes(x, x, out)
    assert sum("passes" in r.kernel for r in p.records) == 1


@pytest.mark.gpu
def test_indices_of_a_package_that_was_built(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYKERNELS_DEBUG=2 gives the line of the source: of a library, of the second dispatch of a
    plan, of an output that shares memory with an input."""
    folder = tmp_path / "shaders"
    shutil.copytree(ROOT / "examples" / "own_package" / "shaders", folder)
    fetch = "fn fetch(i: u32) -> f32 {\n  return f32(x_mem[i + 5u]);\n}\n"
    fetch = f"//% macro fetch()\n{fetch}//% endmacro\n"
    library, partial = folder / "lib" / "sums.wgsl", folder / "norm_partial.wgsl"
    memory = '${sums.memory("WG")}'
    edits = {
        library: [("", fetch)],
        partial: [
            ("x_load(x_index(i))", "fetch(x_index(i))"),
            (memory, memory + "${sums.fetch()}"),
        ],
        folder / "blend.wgsl": [("b_index(i)", "b_index(i) + 1000u")],
    }
    for path, changes in edits.items():
        for old, new in changes:
            path.write_text(path.read_text().replace(old, new, 1))
    build_package(folder, tmp_path / "checked_five", validate="skip", report=lambda line: None)
    monkeypatch.syspath_prepend(tmp_path)
    five = importlib.import_module("checked_five")
    monkeypatch.setattr(dev._context, "checks_indices", True)
    monkeypatch.setattr(dev._context, "guarded", True)
    x = dev.ones(300)
    said = (
        rf"^\[norm\] shaders/lib/sums\.wgsl:{line_of(library, 'x_mem')} .* 300 into x_mem, of 300"
    )
    with pytest.raises(pk.IndexRangeError, match=said):
        five.norm(x, dev.zeros(1))
    line = line_of(folder / "blend.wgsl", "+ 1000u")
    with pytest.raises(
        pk.IndexRangeError, match=rf"^\[blend\] shaders/blend\.wgsl:{line} .*mode=rw"
    ):
        five.blend(x[:60], x[100:160], x[200:260])  # windows apart by any alignment
    finish = folder / "norm_finish.wgsl"
    partial.write_text(partial.read_text().replace("fetch(x_index(i))", "x_load(x_index(i))"))
    finish.write_text(finish.read_text().replace("i < p.count", "i < p.count + 3000u"))
    loaded = pk.load_kernels(folder, validate="skip")
    said = rf"^\[norm\] shaders/norm_finish\.wgsl:{line_of(finish, '3000u')} .*into sums, of"
    with pytest.raises(pk.IndexRangeError, match=said):
        loaded.norm(x, dev.zeros(1))


def test_sources_of_the_build(tmp_path: Path) -> None:
    """The same for our own kernels: the texts go to `_generated/debug`."""
    from tests.codegen.toys import build_files

    plain = kernel("pass")
    files = {"kernels/toy/passes.wgsl": plain}
    before = build_files(tmp_path / "a", files)
    debug = {"kernels/toy/passes.wgsl": plain.replace("  dst_store", f"{CALL}  dst_store")}
    after = build_files(tmp_path / "b", debug)
    assert set(after.files) - set(before.files) == {"debug/passes.json"}
    assert after.files["wgsl/passes.json"] == before.files["wgsl/passes.json"]
    assert all(v.debug is not None for v in after.variants)
    assert all(v.debug is None for v in before.variants)


def test_two_devices_number_their_texts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text whose calls another thread numbers meanwhile keeps its own calls."""
    text = Text("", ())
    ids: dict[str, int] = {}

    class Texts:
        def __init__(self, label: str) -> None:
            self.label = label

        def get(self, key: str) -> Text:
            return text

        def where(self, key: str, line: int) -> str:
            return f"{self.label}.wgsl:{line}"

    def numbered(name: str, wgsl: str, members: int, first: int) -> Any:
        ids[name] = first
        if name == "outer":
            worker = threading.Thread(target=recordings["inner"].get, args=("",))
            worker.start()
            worker.join()
        return Instrumented(wgsl, (Site(2, name),))

    monkeypatch.setattr(records, "debug_texts", Texts)
    monkeypatch.setattr(records, "debugging", numbered)
    recordings = {n: records._Recording(Body(n, (), "", (), ""), 1) for n in ("outer", "inner")}
    recordings["outer"].get("")
    for name in recordings:
        assert records.call_of(ids[name]) == (Site(2, name), f"{name}.wgsl:2")
