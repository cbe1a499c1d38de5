"""The first call: pipelines are compiled on threads while a capture goes on, and by `warmup` before
a deadline."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime.pipelines import Pipelines
from tests.runtime._helpers import check_works, open_device

pytestmark = pytest.mark.gpu


class Compiled:
    """The variants that were compiled, by which threads, and how many of them at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.labels: list[str] = []
        self.threads: set[int] = set()
        self.refused = ""
        original = Pipelines._compile

        def compile(pipelines: Any, label: str, *rest: Any) -> Any:
            if self.refused and label.startswith(self.refused):
                raise pk.ShaderError(f"[{label}] refused")
            self.labels.append(label)
            self.threads.add(threading.get_ident())
            return original(pipelines, label, *rest)

        monkeypatch.setattr(Pipelines, "_compile", compile)


@pytest.fixture
def fresh(dev: pk.Device) -> Any:
    """A device on which nothing is compiled."""
    found = open_device()
    yield found
    found.close()


@pytest.fixture
def compiled(fresh: pk.Device, monkeypatch: pytest.MonkeyPatch) -> Compiled:
    return Compiled(monkeypatch)


def network(x: pk.Tensor) -> pk.Tensor:
    return pk.sum(pk.square(pk.exp(x) + 1), axis=1)


def test_a_capture_compiles_on_threads(fresh: pk.Device, compiled: Compiled) -> None:
    x = fresh.tensor(np.zeros((4, 16), "f4"))
    with fresh.capture() as program:
        y = network(x)
    assert len(compiled.labels) == len({*compiled.labels}) >= 3
    assert compiled.threads - {threading.get_ident()}
    count = len(compiled.labels)
    program()
    np.testing.assert_array_equal(y.numpy(), 64)
    np.testing.assert_array_equal(network(x).numpy(), 64)
    assert len(compiled.labels) == count  # launches outside have the same pipelines


def test_another_thread_launches_what_a_capture_is_compiling(
    fresh: pk.Device, compiled: Compiled
) -> None:
    x, found = fresh.tensor(np.zeros((4, 16), "f4")), []
    with fresh.capture() as program:
        y = network(x)
        thread = threading.Thread(target=lambda: found.append(network(x).numpy()))
        thread.start()
        thread.join(60)
    program()
    for values in (*found, y.numpy()):
        np.testing.assert_array_equal(values, 64)
    assert len(found) == 1 and len(compiled.labels) == len({*compiled.labels})


def test_a_pipeline_that_the_driver_refuses(fresh: pk.Device, compiled: Compiled) -> None:
    x = fresh.tensor(np.zeros((4, 16), "f4"))
    compiled.refused = "reduce"
    with pytest.raises(pk.ShaderError, match="refused"), fresh.capture() as program:
        network(x)
    with pytest.raises(pk.BufferStateError, match="not captured to its end"):
        program()
    with pytest.raises(pk.ShaderError, match="refused"):
        pk.sum(x, axis=1)
    compiled.refused = ""
    np.testing.assert_array_equal(network(x).numpy(), 64)
    check_works(fresh)


def test_a_capture_that_fails_leaves_pipelines_that_can_be_compiled(
    fresh: pk.Device, compiled: Compiled
) -> None:
    x = fresh.tensor(np.zeros((4, 16), "f4"))
    with pytest.raises(KeyError), fresh.capture():
        network(x)
        raise KeyError
    np.testing.assert_array_equal(network(x).numpy(), 64)


def test_warmup_compiles_and_runs_nothing(fresh: pk.Device, compiled: Compiled) -> None:
    x, out = fresh.tensor(np.zeros((4, 16), "f4")), fresh.tensor(np.full((4, 16), 7, "f4"))
    told: list[tuple[int, int]] = []
    with fresh.capture() as program:
        pk.kernels.add(x, x, x)

    def step() -> None:
        pk.kernels.softmax(x, out)
        pk.kernels.exp(out, out)
        pk.kernels.softmax(x, out)

    before = fresh.memory_stats().live_buffers
    fresh.warmup(program, step, progress=lambda *counts: told.append(counts))
    count = len(compiled.labels)
    assert told == [(i + 1, count) for i in range(count)] and count >= 3
    assert (out.numpy() == 7).all() and (x.numpy() == 0).all()
    assert fresh.memory_stats().live_buffers == before
    step()
    assert len(compiled.labels) == count
    np.testing.assert_allclose(out.numpy(), 1 / 16)
    fresh.warmup(step)  # again
    fresh.warmup()
    assert len(compiled.labels) == count
    with pytest.raises(pk.BufferStateError, match="has not run"):
        pk.softmax(network_inside(fresh))


def network_inside(dev: pk.Device) -> Any:
    """A tensor that a function made while it was warmed up."""
    found: list[pk.Tensor] = []
    x = dev.full((4, 16), 1)
    dev.warmup(lambda: found.append(x + 1))
    return found[0]


def test_what_warmup_refuses(dev: pk.Device) -> None:
    x = dev.full((4, 16), 1)
    with dev.capture() as program:
        pk.kernels.add(x, x, x)
    for wrong in (None, 3, x, "step", [program]):
        with pytest.raises(pk.DTypeError, match="work must be"):
            dev.warmup(wrong)  # type: ignore[arg-type]
    with pytest.raises(pk.DTypeError, match="progress"):
        dev.warmup(program, progress=3)  # type: ignore[arg-type]
    with pytest.raises(pk.BufferStateError, match="capture"):
        dev.warmup(lambda: (x + 1).numpy())
    with pytest.raises(KeyError):
        dev.warmup(program, lambda: {}["a"])
    with pytest.raises(pk.BufferStateError, match="capture"), dev.capture():
        dev.warmup(program)
    other = open_device()
    with pytest.raises(pk.BufferStateError, match="another device"):
        other.warmup(program)
    other.close()
    check_works(dev)


def test_warmup_looks_at_shared_buffers(dev: pk.Device) -> None:
    x, y = dev.full((4, 16), 1), dev.empty((4, 16))
    buffer = y.buffer
    with dev.capture() as program:
        pk.kernels.add(x, x, y)
    buffer.destroy()
    with pytest.raises(pk.BufferStateError, match="destroyed"):
        dev.warmup(program)
    check_works(dev)
