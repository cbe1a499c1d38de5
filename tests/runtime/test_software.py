"""A software driver in place of a GPU is said aloud, refused, or meant; what the logger tells."""

from __future__ import annotations

import json
import logging
import textwrap
from typing import Any

import pytest

import pykernels as pk
from pykernels.runtime import adapters
from pykernels.runtime.adapters import of_type
from pykernels.runtime.engine import get_engine
from tests.runtime._helpers import ADAPTER, ENGINE, open_device, run_isolated

CODE = """
    import json, warnings
    import pykernels as pk
    told = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for use in (pk.default_device, pk.default_device, pk.Device, lambda: pk.Device(type="cpu"),
                    lambda: pk.Device(type="gpu")):
            try:
                told.append(use().info["type"])
            except pk.PyKernelsError as e:
                told.append(type(e).__name__)
    print(json.dumps([told, [w.category.__name__ for w in found]]))
    """
needs_software = pytest.mark.skipif(ADAPTER is None, reason="there may be a GPU")


class Adapter:
    def __init__(self, name: str, kind: str) -> None:
        self.info = {"device": name, "adapter_type": kind}


GPU, CPU = Adapter("fast", "DiscreteGPU"), Adapter("slow", "CPU")


def test_adapters_of_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = type("Engine", (), {"name": "wgpu"})
    monkeypatch.delenv("PYKERNELS_REQUIRE_GPU", raising=False)
    assert of_type([GPU, CPU], None, engine) == [GPU, CPU]
    assert of_type([GPU, CPU], "gpu", engine) == [GPU]
    assert of_type([GPU, CPU], "cpu", engine) == [CPU]
    with pytest.raises(pk.NoAdapterError, match=r"type='gpu' asks for a GPU, but .*'slow'"):
        of_type([CPU], "gpu", engine)
    with pytest.raises(pk.ArgumentError, match="type"):
        of_type([CPU], "fpga", engine)  # type: ignore[arg-type]
    monkeypatch.setenv("PYKERNELS_REQUIRE_GPU", "1")
    assert of_type([GPU, CPU], None, engine) == [GPU]
    assert of_type([GPU, CPU], "cpu", engine) == [CPU]
    with pytest.raises(pk.NoAdapterError, match="PYKERNELS_REQUIRE_GPU=1 asks for a GPU"):
        of_type([CPU], None, engine)
    monkeypatch.setenv("PYKERNELS_REQUIRE_GPU", "yes")
    with pytest.raises(pk.ArgumentError, match="must be 0 or 1 but is 'yes'"):
        adapters.require_gpu()


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")
@needs_software
@pytest.mark.parametrize(
    ("asked", "kinds", "warned"),
    [
        ("", ["CPU", "CPU", "CPU", "CPU", "NoAdapterError"], ["SoftwareDeviceWarning"]),
        ("0", ["CPU", "CPU", "CPU", "CPU", "NoAdapterError"], []),
        ("1", ["NoAdapterError"] * 3 + ["CPU", "NoAdapterError"], []),
    ],
)
def test_a_software_driver_is_told(asked: str, kinds: list[str], warned: list[str]) -> None:
    code = textwrap.dedent(CODE)
    done = run_isolated(code, PYKERNELS_REQUIRE_GPU=asked, PYKERNELS_ENGINE=ENGINE)
    assert json.loads(done.stdout) == [kinds, warned]


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")
def test_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykernels.runtime.pipelines.LONG", 0.0)
    with caplog.at_level(logging.DEBUG, "pykernels"), open_device() as dev:
        pk.softmax(dev.rand((4, 64))).numpy()
        dev.set_memory_budget(1 << 20)
        with pytest.raises(pk.OutOfMemoryError):
            dev.empty(1 << 20)
        for _ in range(2):
            get_engine(ENGINE).error(RuntimeError("Device is lost"), "test")
    told = "\n".join(r.getMessage() for r in caplog.records if r.name == "pykernels")
    for words in ("opened <pykernels.Device", "compiled ", "the budget is 1048576", "do not fit"):
        assert words in told
    assert told.count("a device is lost") == 1
