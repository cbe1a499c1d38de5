"""The columns of the test suite: which engine and driver, how many cases, how many pipelines.

PYKERNELS_TEST_COLUMN   wgpu-lavapipe, wgpu-swiftshader or dawn-swiftshader; unset: wgpu's first
PYKERNELS_TEST_FULL=1   every case; else a test marked `sample(share)` runs that share of its cases,
                        chosen by hash of the case and the column, so that columns differ, and one
                        marked `crowd` runs on lavapipe only
CI                      a missing driver fails instead of skipping
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import pytest

import pykernels as pk
from pykernels.forcing import force

pytest.register_assert_rewrite("tests.harness")

# A table of the user's own would change what is tested.
os.environ.pop("PYKERNELS_TUNING", None)
COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "")
FULL = os.environ.get("PYKERNELS_TEST_FULL", "") not in ("", "0")
# What one column may compile in the short mode: pipelines are what costs (350 take 3.5 minutes on
# two cores).
MAX_PIPELINES = 350
DRIVERS = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader"}
pipelines = 0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a GPU or a software Vulkan driver")
    config.addinivalue_line("markers", "browser: needs Chromium")
    config.addinivalue_line(
        "markers", "sample(share): runs this share of its cases, all with PYKERNELS_TEST_FULL=1"
    )
    config.addinivalue_line(
        "markers", "crowd: a million invocations with barriers, too slow for SwiftShader: not there"
    )


def chosen(case: str, share: float) -> bool:
    """Does this column run the case? The same answer on every machine."""
    return zlib.crc32(f"{COLUMN}:{case}".encode()) < share * 2**32


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if FULL:
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker("sample")
        run = marker is None or chosen(f"{item.path.name}:{item.name}", marker.args[0])
        if COLUMN.endswith("swiftshader") and item.get_closest_marker("crowd"):
            run = False
        (kept if run else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


@pytest.fixture(scope="session")
def dev() -> Iterator[pk.Device]:
    """The device of this column. Lavapipe takes the bodies and slices of large GPUs, for which its
    own table has no use: SwiftShader has those of software drivers."""
    global pipelines
    engine, _, driver = COLUMN.partition("-")
    try:
        device = pk.Device(DRIVERS.get(driver), engine=engine or "wgpu")  # type: ignore[arg-type]
    except pk.NoAdapterError as e:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{COLUMN or 'no column'}: {e}")
    with force(device, tuning="generic-large" if driver == "lavapipe" else None):
        yield device
    pipelines = len(device._context.pipelines)
    device.close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not FULL and pipelines > MAX_PIPELINES:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not pipelines:
        return
    line = f"{COLUMN or 'wgpu'}: {pipelines} pipelines"
    if not FULL and pipelines > MAX_PIPELINES:
        line += f" are more than {MAX_PIPELINES}: lower the share of a test marked `sample`"
    terminalreporter.write_line(line)
