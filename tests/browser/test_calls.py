"""What a page loads for a call, and the life of a call."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.browser


def test_a_page_loads_what_it_launches(browser: Any, site: str, page: Any) -> None:
    """The module, the manifest, and the texts of the bodies that run, each once."""
    tab = browser.new_page()
    loaded: list[str] = []
    tab.on("request", lambda r: loaded.append(r.url.removeprefix(f"{site}/")))
    tab.goto(f"{site}/harness.html")
    tab.wait_for_function("window.start !== undefined")
    tab.evaluate("start()")
    assert not any(name.startswith("wgsl/") for name in loaded)
    code = """async () => {
      const pk = await import("./pykernels.js");
      const make = (...shape) => gpu.empty(shape, "float32");
      for (const n of [5, 300]) {
        await pk.softmax(gpu, { x: make(3, n), dst: make(3, n) });
      }
      await pk.neg(gpu, { x: make(3), dst: make(3) });
    }"""
    tab.evaluate(code)
    texts = [name for name in loaded if name.startswith("wgsl/")]
    assert texts == ["wgsl/softmax.json", "wgsl/unary.json"]
    tab.close()


def test_a_destroyed_call_throws(page: Any) -> None:
    code = """async () => {
      const pk = await import("./pykernels.js");
      const dst = gpu.empty([3], "float32");
      const call = await pk.fill(gpu, { dst, value: 2 });
      call.run();
      call.destroy();
      call.destroy(); // again is no harm
      const pass = gpu.device.createCommandEncoder().beginComputePass();
      const said = [() => call.run(), () => call.encode(pass)].map((f) => {
        try { f(); } catch (e) { return [e.constructor.name, e.message]; }
      });
      return [said, [...await gpu.data(dst)]];
    }"""
    said, data = page.evaluate(code)
    message = "[fill] the call must not be destroyed before it runs"
    assert said == [["KernelError", message]] * 2 and data == [2, 2, 2]
