"""The page of `pykernels export --page`: every kernel runs on it and agrees with numpy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykernels.export._cases import cases
from pykernels.export._layouts import Request
from pykernels.export._page import page_files
from pykernels.export._write import collect, write

from .conftest import FACTS, missing, serve

pytestmark = pytest.mark.browser
PAGED = [name for name, facts in sorted(FACTS.items()) if getattr(cases(name, facts), "page", [])]


def is_half(request: Request) -> bool:
    return any(lay.dtype.name == "float16" for lay in request.layouts.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with the first test case of each kernel, and one that needs f16."""
    files, requests = page_files(PAGED, FACTS, lambda c: [c.test[0], *filter(is_half, c.test)][:2])
    path = tmp_path_factory.mktemp("page")
    write(path, collect(sorted(FACTS), "tint", [], requests).files | files)
    return path


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    yield from serve(folder)


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    tab = browser.new_page()
    tab.set_default_timeout(120_000)
    tab.problems = []
    tab.on("pageerror", lambda e: tab.problems.append(str(e)))
    tab.on("response", lambda r: r.ok or tab.problems.append(f"{r.status} {r.url}"))
    yield tab
    tab.close()


def ready(tab: Any) -> None:
    tab.wait_for_function("!document.getElementById('run').disabled")


def test_every_kernel_runs_on_the_page(tab: Any, address: str) -> None:
    """With batches of 2 ms instead of 50 ms: a minute less, as the page has most kernels."""

    def shorten(route: Any) -> None:
        answer = route.fetch()
        assert answer.text().count("took < 50 ") == 1
        route.fulfill(response=answer, body=answer.text().replace("took < 50 ", "took < 2 "))

    tab.route("**/index.html", shorten)
    tab.goto(f"{address}/index.html")
    tab.wait_for_function("!document.getElementById('gpu').textContent.startsWith('Looking')")
    if "no GPU" in tab.inner_text("#gpu"):
        missing("this Chromium has no WebGPU adapter")
    ready(tab)
    assert "swiftshader, without float16 · pykernels" in tab.inner_text("#gpu")
    for kernel in PAGED:
        tab.select_option("#kernel", kernel)
        tab.click("#run")
        ready(tab)
    rows = [r.split("\t") for r in tab.inner_text("#results tbody").splitlines()]
    assert [r[0] for r in rows] == PAGED
    assert {r[-1] for r in rows} == {"✓ agrees with numpy"}
    assert all(float(r[-2]) > 0 for r in rows)
    tab.select_option("#kernel", "softmax")
    tab.select_option("#dtype", "float16")
    tab.click("#run")
    ready(tab)
    assert "shader-f16 is missing" in tab.inner_text("#results tbody tr:last-child")
    assert tab.problems == []


def test_the_page_fits_a_phone(tab: Any, address: str) -> None:
    tab.set_viewport_size({"width": 400, "height": 800})
    tab.goto(f"{address}/index.html")
    ready(tab)
    for kernel in ("flash_attn", "softmax"):
        tab.select_option("#kernel", kernel)
        tab.click("#run")
        ready(tab)
    outside = """[...document.querySelectorAll("body *")].filter((e) => {
      const box = e.getBoundingClientRect();
      return box.width && (box.left < 0 || box.right > 400);
    }).map((e) => e.outerHTML.slice(0, 80))"""
    assert tab.evaluate(outside) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    assert tab.is_visible("text=✓ agrees with numpy")
    assert tab.problems == []


def test_a_wrong_result_is_seen(tab: Any, address: str) -> None:
    """With a shader that takes another scale."""

    def spoil(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("p.scale", "2.0"))

    tab.route("**/wgsl/softmax.json", spoil)
    tab.goto(f"{address}/index.html")
    ready(tab)
    tab.select_option("#kernel", "softmax")
    tab.select_option("#dtype", "float32")
    tab.click("#run")
    ready(tab)
    assert "✗ wrong: element" in tab.inner_text("#results")


def test_without_webgpu_the_page_says_so(tab: Any, address: str) -> None:
    tab.add_init_script("Object.defineProperty(navigator, 'gpu', { value: undefined })")
    tab.goto(f"{address}/index.html")
    tab.wait_for_function("document.getElementById('gpu').textContent.includes('no WebGPU')")
    assert tab.is_disabled("#run")


def test_layouts_without_a_recorded_plan_are_refused(tab: Any, address: str) -> None:
    """The page's export has recorded plans alone."""
    tab.goto(f"{address}/index.html")
    ready(tab)
    code = """async () => {
      const pk = await import("./pykernels.js");
      const adapter = await navigator.gpu.requestAdapter();
      const gpu = await pk.open(await adapter.requestDevice());
      const make = () => gpu.empty([3, 5], "float32");
      return pk.softmax(gpu, { x: make(), dst: make() }).catch((e) => e.message);
    }"""
    said = tab.evaluate(code)
    assert said.startswith("[softmax] no plan was exported (--shape) for x=float32[3,5]:5,1 ")
    assert "x=float32[3,17]:17,1 dst=float32[3,17]:17,1 []" in said
