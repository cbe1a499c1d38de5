"""Devices of the column, and tests that run in a process of their own because they may end it."""

from __future__ import annotations

import functools
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime.bound import MAX_LAUNCHES
from pykernels.runtime.engine import get_engine
from pykernels.runtime.recorder import encode as recorder_encode

ROOT = Path(__file__).parents[2]
ENGINE, _, _DRIVER = os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu").partition("-")
ADAPTER = {"lavapipe": "llvmpipe", "swiftshader": "SwiftShader"}.get(_DRIVER)
# STORAGE | COPY_SRC | COPY_DST
USAGE = 0x80 | 0x04 | 0x08

_RUN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("isolated", {path!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.{name}.body(**{kwargs!r})
print("done")
"""


def refusal(dev: pk.Device) -> Exception:
    """The error of a device that has no memory for a buffer."""
    module = dev._context.engine.module
    error = module.GPUOutOfMemoryError if ENGINE == "dawn" else module.GPUError
    found: Exception = error("Validation Error: Not enough memory left.")
    return found


def run_isolated(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter; it must exit with 0, and in time."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)} | env, timeout=250,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


class Process:
    """An interpreter that runs one case after another."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.runtime._server"],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def run(self, case: tuple[str, str, dict[str, Any]], timeout: float) -> str | None:
        """None if the case passed, or what is wrong, after which the process has gone."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case).encode() + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            self._process.kill()
            return f"no answer in {timeout} s\n{self.end()[1]}"
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else "no answer"
        if answer == "done":
            return None
        status, errors = self.end()
        return f"{answer}\nexit status {status}\n{errors}"

    def end(self) -> tuple[int, str]:
        """Exit status and what was written to stderr."""
        self._process.communicate(timeout=60)
        with self._errors as file:
            file.seek(0)
            return self._process.returncode, file.read().decode(errors="replace")


_shared: Process | None = None


def end_shared_process() -> None:
    """The process of the isolated cases must leave with 0, whatever they left behind."""
    global _shared
    if _shared is not None:
        status, errors = _shared.end()
        _shared = None
        assert status == 0, f"exit status {status}\n{errors}"


def isolated(test: Callable[..., None]) -> Callable[..., None]:
    """A test whose body runs in another process, where it must not crash or hang: one process
    for all, and a fresh one after a case that failed."""

    @functools.wraps(test)
    def wrapper(**kwargs: Any) -> None:
        global _shared
        process, _shared = _shared or Process(), None
        path = sys.modules[test.__module__].__file__
        assert path is not None
        answer = process.run((path, test.__name__, kwargs), timeout=250)
        if answer is not None:
            raise AssertionError(answer)
        _shared = process

    wrapper.body = test  # type: ignore[attr-defined]
    return wrapper


def alone(test: Callable[..., None]) -> Callable[..., None]:
    """A test whose body runs in a fresh process of its own, and whose exit counts."""

    @functools.wraps(test)
    def wrapper(**kwargs: Any) -> None:
        path = sys.modules[test.__module__].__file__
        code = _RUN.format(path=path, name=test.__name__, kwargs=kwargs)
        assert run_isolated(code).stdout.endswith("done\n")

    wrapper.body = test  # type: ignore[attr-defined]
    return wrapper


def open_device() -> pk.Device:
    """A device of the column's engine and driver."""
    return pk.Device(ADAPTER, engine=ENGINE)  # type: ignore[arg-type]


def raw_device() -> Any:
    """A plain GPUDevice, as a caller would make it: no features."""
    return get_engine(ENGINE).module.gpu.request_adapter_sync().request_device_sync()


def raw_buffer(raw: Any, nbytes: int = 1024, usage: int = USAGE, **options: Any) -> Any:
    return raw.create_buffer(size=nbytes, usage=usage, **options)


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x.astype("f8") - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def check_works(dev: pk.Device) -> None:
    """The device still computes, uploads and reads."""
    x = np.random.default_rng(7).standard_normal((3, 65)).astype("f4")
    t = dev.tensor(x)
    y = pk.softmax(t)
    copy = dev.empty(x.shape)
    pk.kernels.cpy(t, copy)
    np.testing.assert_allclose(y.numpy(), softmax(x), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(copy.numpy(), x)


def encode_too_much(lib: Any, raw_pass: Any, commands: Any) -> None:
    """In place of `recorder.encode`: a dispatch that no engine accepts, noticed at the end."""
    recorder_encode(lib, raw_pass, commands)
    lib.wgpuComputePassEncoderDispatchWorkgroups(raw_pass, 1 << 20, 1, 1)


def unpaced(dev: pk.Device, monkeypatch: pytest.MonkeyPatch, most: float = float("inf")) -> None:
    """Batches end where the test says, or with this much work."""
    pace = dev._context.recorder.pace
    monkeypatch.setattr(pace, "submitted", lambda amount, idle, full=True: None)
    monkeypatch.setattr(pace, "waited", lambda: None)
    monkeypatch.setattr(pace, "due", float(MAX_LAUNCHES))
    monkeypatch.setattr(pace, "most", most)
