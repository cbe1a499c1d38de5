"""Devices of the column, and tests that run in a process of their own because they may end it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.runtime.engine import get_engine

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


def run_isolated(code: str, *, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter; it must exit with 0 within the timeout."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)} | env, timeout=timeout,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def isolated(test: Callable[..., None]) -> Callable[..., None]:
    """A test whose body runs in a fresh process: it must not crash or hang there."""

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
    """A plain GPUDevice, as somebody else would make it: no features."""
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
