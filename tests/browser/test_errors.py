"""What the exported module says of misuse: at once, later, or by a promise that rejects."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.browser

SAID = """
  const pk = await import("./pykernels.js");
  const said = async (f) => {
    try { await f(); } catch (e) { return `${e.constructor.name} ${e.message}`; }
    return "nothing";
  };
  const other = async () => (await navigator.gpu.requestAdapter()).requestDevice();
"""
BUILD = "0123456789abcdef"


def said(page: Any, *calls: str) -> list[str]:
    listed = ", ".join(f"await said(async () => {{ {call} }})" for call in calls)
    found: list[str] = page.evaluate(f"async () => {{ {SAID} return [{listed}]; }}")
    return found


def test_known_misuse_throws(page: Any) -> None:
    buffer = "gpu.device.createBuffer({ size: 64, usage: %d })"
    made = 'new pk.Tensor(%s, [3], "float32")'
    messages = said(
        page,
        f"await gpu.data({made % (buffer % 0x80)})",
        f"await pk.fill(gpu, {{ dst: {made % (buffer % 0x0C)}, value: 1 }})",
        "const more = await pk.open(await other());"
        'await pk.fill(gpu, { dst: more.empty([3], "float32"), value: 1 })',
        'gpu.tensor(new Int32Array([1, 2, 3]), [3], "float32")',
        "gpu.tensor([1, 2, 3])",
        "gpu.tensor(new Float32Array(3), [2])",
        'gpu.empty([2 ** 32], "float32")',
        'gpu.empty(3, "float32")',
        "await pk.fill(gpu)",
        "await gpu.data(null)",
        "await pk.open(null)",
        'new pk.Tensor(null, [3], "float32")',
    )
    assert all(m.startswith("KernelError [") for m in messages)
    assert [m.removeprefix("KernelError ") for m in messages[:6]] == [
        "[data] the tensor must be in a buffer with usage COPY_SRC",
        "[fill] dst must be in a buffer with usage STORAGE",
        "[fill] dst must be in a buffer of this device but is of another one",
        "[tensor] data of float32 must be a Float32Array but is Int32Array",
        "[tensor] data must be a typed array",
        "[tensor] shape [2] has 2 elements but data has 3",
    ]
    assert "17179869184 bytes are more than a buffer holds here" in messages[6]


def test_what_validation_finds_later_is_told(page: Any) -> None:
    code = (
        SAID
        + """
      const dst = gpu.empty([3], "float32");
      const call = await pk.fill(gpu, { dst, value: 2 });
      const before = gpu.onerror;
      const told = [];
      gpu.onerror = (e) => told.push(e.constructor.name);
      await gpu.settled();
      dst.buffer.destroy();
      call.run();
      const first = await said(() => gpu.settled());
      const second = await said(() => gpu.settled());
      const read = await said(() => gpu.data(dst));
      gpu.onerror = before;
      return [told, first, second, read];
    """
    )
    told, first, second, read = page.evaluate(f"async () => {{ {code} }}")
    assert told == ["KernelError"] and second == "nothing"
    assert first.startswith("KernelError [fill] ") and "destroyed" in first
    assert read.startswith("KernelError [data] ") and "destroyed" in read


def test_a_lost_device_is_said(page: Any) -> None:
    code = (
        SAID
        + """
      const mine = await pk.open(await other());
      const dst = mine.empty([3], "float32");
      const call = await pk.fill(mine, { dst, value: 2 });
      mine.device.destroy();
      await mine.device.lost;
      return [await said(() => call.run()), await said(() => mine.data(dst)),
              await said(() => pk.open(mine.device)), await said(() => mine.settled())];
    """
    )
    messages = page.evaluate(f"async () => {{ {code} }}")
    assert all("] the device is lost: " in m for m in messages), messages


def test_the_folder_and_the_build_are_checked(page: Any, site: str) -> None:
    one, two, three = said(
        page,
        'await pk.open(gpu.device, { base: "none" })',
        'await pk.open(gpu.device, { base: "harness.html" })',
        'await pk.open(gpu.device, { base: "." })',
    )
    assert f"[open] {site}/none/manifest.json: 404" in one
    assert "[open] " in two and "manifest.json" in two and three == "nothing"

    def other(route: Any) -> None:
        answer = route.fetch()
        build = answer.json()["build"]
        route.fulfill(response=answer, body=answer.text().replace(build, BUILD))

    page.route("**/manifest.json", other)
    try:
        [message] = said(page, "await pk.open(gpu.device)")
    finally:
        page.unroute("**/manifest.json")
    assert "must be of this module's build" in message and f"but is of {BUILD}" in message
    page.route("**/manifest.json", lambda route: route.fulfill(body="<!doctype html>"))
    try:
        [message] = said(page, "await pk.open(gpu.device)")
    finally:
        page.unroute("**/manifest.json")
    assert f"[open] {site}/manifest.json must be JSON but begins with" in message
