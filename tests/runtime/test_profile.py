"""dev.profile(), and PYKERNELS_DEBUG."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime.bound import MAX_LAUNCHES
from tests.runtime._helpers import check_works, run_isolated, unpaced

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


def test_records_table_and_trace(dev: pk.Device, tmp_path: Path) -> None:
    x = dev.rand((64, 256), seed=0)
    with dev.profile() as p:
        for _ in range(150):
            y = pk.softmax(x)
            x.copy()
        y.numpy()  # a read in the middle
        for _ in range(150):
            pk.softmax(y)
    assert [r.kernel for r in p.records[:2]] == ["softmax", "cpy_bytes"]
    assert len(p.records) == 450
    assert all(r.nbytes >= 2 * x.nbytes for r in p.records)
    assert p.wall > 0 and all(r.host >= 0 for r in p.records)
    if p.clock == "timestamps":
        assert all(0 <= r.gpu <= p.wall and r.start >= 0 for r in p.records)
        starts = [r.start for r in p.records]
        assert starts == sorted(starts) and 0 < sum(r.gpu for r in p.records) <= p.wall
    lines = p.table().splitlines()
    assert {line.split()[0]: line.split()[1] for line in lines[1:-1]} == {
        "softmax": "300",
        "cpy_bytes": "150",
    }
    p.save_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(e["ph"] == "X" and e["tid"] == 1 for e in events) == 450
    gpu = [e for e in events if e["ph"] == "X" and e["tid"] == 2]
    assert len(gpu) == (450 if p.clock == "timestamps" else 1)
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in gpu)
    check_works(dev)
    assert len(p.records) == 450


def test_profiles_inside_batches_and_each_other(dev: pk.Device) -> None:
    x = dev.rand((4, 16), seed=0)
    with dev.batch(), dev.profile() as outer:
        pk.softmax(x)
        with dev.batch(), dev.profile() as inner:
            pk.softmax(x)
            pk.softmax(x)
        pk.softmax(x)
    assert (len(outer.records), len(inner.records)) == (2, 2)
    with dev.profile() as empty:
        pass
    assert empty.records == [] and "wall" in empty.table()


def test_an_exception_inside(dev: pk.Device) -> None:
    x = dev.rand((4, 16), seed=0)
    with pytest.raises(KeyError), dev.profile() as p:
        pk.softmax(x)
        raise KeyError
    assert len(p.records) == 1
    with dev.profile() as p, pytest.raises(pk.ShapeError):
        pk.kernels.softmax(x, dev.empty((3, 3)))
    assert p.records == []
    check_works(dev)


def test_debug_names_the_variant_and_the_op() -> None:
    code = (
        "import pykernels as pk\n"
        "from tests.runtime._helpers import *\n"
        "dev = open_device()\n"
        "t = dev.empty((4, 16)); s = dev.submits\n"
        "pk.kernels.fill(t, 1); pk.kernels.softmax(t, t)\n"
        "assert dev.submits == s + 2\n"
        "from pykernels.runtime import recorder\n"
        "encode, recorder.encode = recorder.encode, encode_too_much\n"
        "try: pk.log_softmax(t)\n"
        "except pk.BufferStateError as e: print(str(e).split()[0])\n"
        "recorder.encode = encode\n"
        "check_works(dev)\n"
    )
    done = run_isolated(code, PYKERNELS_DEBUG="1")
    assert done.stdout == "[log_softmax]\n"
    lines = done.stderr.splitlines()
    assert lines[0].startswith("pykernels: fill: ")
    assert lines[1].startswith("pykernels: softmax: softmax T=f32 ") and "grid" in lines[1]


def test_timestamps_are_in_nanoseconds(dev: pk.Device) -> None:
    if "timestamp-query" not in dev.features:
        pytest.skip("the driver has no timestamp queries")
    x = dev.rand((64, 1024), seed=0)
    y = dev.empty(x.shape)
    pk.kernels.softmax(x, y)
    dev.sync()
    with dev.profile() as p:
        for _ in range(10):
            pk.kernels.softmax(x, y)
    # A wrong unit would be a factor of 1000; other processes on the device make the wall longer.
    assert 0.005 * p.wall < sum(r.gpu for r in p.records) <= p.wall
    assert np.isfinite(y.numpy()).all()


def test_batches_are_timed_as_a_whole(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    unpaced(dev, monkeypatch)
    x, y = dev.rand((16, 64), seed=0), dev.empty((16, 64))
    dev.sync()
    before = dev.submits
    with dev.profile(batches=True) as p:
        for _ in range(MAX_LAUNCHES + 44):
            pk.kernels.softmax(x, y)
    assert dev.submits == before + 2
    assert [r.dispatches for r in p.records] == [MAX_LAUNCHES, 44]
    assert all(r.nbytes >= 2 * x.nbytes * r.dispatches for r in p.records)
    assert str(MAX_LAUNCHES + 44) in p.table()
    if p.clock == "timestamps":
        assert 0 < sum(r.gpu for r in p.records) <= p.wall


def test_calls_that_come_again_end_batches_too(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = dev.ones((4,)), dev.empty((4,))
    for _ in range(4):
        pk.kernels.neg(x, y)
    dev.sync()
    n = 3 * MAX_LAUNCHES
    unpaced(dev, monkeypatch)
    monkeypatch.setattr(dev._context.recorder.pace, "due", float("inf"))
    with dev.profile() as p:
        for _ in range(n):
            pk.kernels.neg(x, y)
            assert len(dev._context.recorder._queue) <= MAX_LAUNCHES
    assert len(p.records) == n


def test_profiles_that_end_in_another_order(dev: pk.Device) -> None:
    x = dev.rand((4, 16), seed=0)
    first, second = dev.profile(), dev.profile(batches=True)
    p, q = first.__enter__(), second.__enter__()
    pk.softmax(x)
    first.__exit__(None, None, None)
    pk.softmax(x)
    second.__exit__(None, None, None)
    assert dev._context.recorder.timer is None and not dev._context.recorder.pace.held
    assert (len(p.records), len(q.records)) == (0, 2)  # the last one to begin has all
