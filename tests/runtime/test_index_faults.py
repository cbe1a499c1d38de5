"""Indices out of range: found on the device, raised once, to whoever made the call.

test_owners.py has several threads and tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import get_rows, set_rows
from pykernels.runtime import faults, transfers
from tests.runtime._helpers import check_works, open_device, raw_buffer

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]

M = 8


@pytest.fixture(autouse=True)
def _nothing_is_left(dev: pk.Device) -> Iterator[None]:
    """Each test tells all that it found wrong, and no page waits for more."""
    yield
    dev.sync()
    assert dev._context.faults.waiting() == []


def bad(dev: pk.Device, *places: int, dtype: str = "int64") -> pk.Tensor:
    """Launch a set_rows with these indices; its dst of M rows of zeros, the rows are ones."""
    dst = dev.zeros((M, 4))
    index = dev.tensor(np.array(places, dtype))
    set_rows(dev.ones((len(places), 4)), index, dst)
    return dst


def sums(t: pk.Tensor) -> list[float]:
    return [float(v) for v in t.numpy().sum(1)]


# -- when and how often ---------------------------------------------------------------------------


def test_each_way_to_synchronise_raises_once(dev: pk.Device) -> None:
    other = dev.zeros(3)
    ways: list[Callable[[pk.Tensor], object]] = [
        lambda t: t.device.sync(), lambda t: t.numpy(), lambda t: t[0, 0].item(), np.asarray,
        lambda t: other.numpy(),
    ]  # fmt: skip
    for sync in ways:
        dst = bad(dev, 1, 9, 2)
        dev.flush()  # does not wait, so cannot know
        with pytest.raises(pk.IndexRangeError, match="is 9 at position") as caught:
            sync(dst)
        assert isinstance(caught.value, IndexError)
        sync(dst)
        assert sums(dst) == [0, 4, 4, 0, 0, 0, 0, 0]
    check_works(dev)


def test_right_indices_raise_nothing_after_wrong_ones(dev: pk.Device) -> None:
    for _ in range(3):
        bad(dev, -1, 3)
        with pytest.raises(pk.IndexRangeError, match="is -1"):
            dev.sync()
        dst = bad(dev, 0, 7)  # takes the slot that the wrong one had
        assert sums(dst) == [4, 0, 0, 0, 0, 0, 0, 4]


def test_the_first_launch_is_named_and_the_others_counted(dev: pk.Device) -> None:
    with dev.batch():
        bad(dev, 1, 2)
        bad(dev, 3, 4, 8, 8, 99)
        src, out = dev.zeros((3, 4)), dev.zeros((2, 2, 4))
        get_rows(src, dev.tensor(np.array([[0, 1], [5, 2]], "i4")), out)
        bad(dev, 5)
    with pytest.raises(pk.IndexRangeError) as caught:
        dev.sync()
    assert str(caught.value) == (
        "[set_rows] index must be in [0, 8) but is 8 at position (2,) (rows left out: 3; checked "
        "launch 2 since the last synchronisation); launches after it that failed: 1"
    )
    get_rows(src, dev.tensor(np.array([[0, 1], [5, 2]], "i4")), out)
    with pytest.raises(pk.IndexRangeError) as caught:
        out.numpy()
    assert str(caught.value) == (
        "[get_rows] index must be in [0, 3) but is 5 at position (1, 0) (rows left out: 1; checked "
        "launch 1 since the last synchronisation)"
    )


def test_check_false_reports_nothing(dev: pk.Device) -> None:
    dst = dev.zeros((M, 4))
    index = dev.tensor(np.array([2, -7, 8], "i4"))
    set_rows(dev.ones((3, 4)), index, dst, check=False)
    assert dev._context.faults.waiting() == []
    assert sums(dst) == [0, 0, 4, 0, 0, 0, 0, 0]
    got = dev.full((3, 4), 5)
    get_rows(dev.ones((M, 4)), index, got, check=False)
    assert sums(got) == [4, 20, 20]
    assert sums(bad(dev, 0)) == [4, 0, 0, 0, 0, 0, 0, 0]  # nor does the next launch hear of it
    set_rows(dev.ones((3, 4)), index, dst)  # the same views, checked
    with pytest.raises(pk.IndexRangeError, match="is -7"):
        dev.sync()


# -- what it says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ("int32", "int64"))
def test_the_first_position_and_its_value(dev: pk.Device, dtype: str) -> None:
    """The same each time, however many are wrong and whatever the order of the invocations."""
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    dst = dev.zeros((2, M, 4))
    for n in (1, 70, 3000):
        for share in (0.01, 0.5, 1.0):
            index = rng.integers(0, M, (2, n)).astype(dtype)
            wrong = rng.random((2, n)) < share
            wrong[rng.integers(2), rng.integers(n)] = True
            index[wrong] = rng.integers(M, info.max, int(wrong.sum()))
            flip = wrong & (rng.random((2, n)) < 0.5)
            index[flip] = -index[flip]
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            set_rows(dev.zeros((2, n, 4)), dev.tensor(index), dst)
            with pytest.raises(pk.IndexRangeError) as caught:
                dev.sync()
            assert f"is {index[first]} at position {first} (rows left out: {wrong.sum()};" in str(
                caught.value
            )


def test_the_value_is_that_of_the_launch(dev: pk.Device) -> None:
    """Also where the index has changed since, or is gone."""
    index = dev.tensor(np.array([0, -5, 1], "i4"))
    set_rows(dev.ones((3, 4)), index, dev.zeros((M, 4)))
    pk.kernels.fill(index, 3)
    del index
    with pytest.raises(pk.IndexRangeError, match=r"is -5 at position \(1,\)"):
        dev.sync()


def test_the_position_is_that_of_the_index(dev: pk.Device) -> None:
    """An index that repeats over leading axes: its own first position, each row counted."""
    index = np.zeros((2, 3), "i4")
    index[1, 2] = index[1, 1] = M
    for kernel in (set_rows, get_rows):
        out = dev.zeros((4, 4, M if kernel is set_rows else 3, 5))
        kernel(dev.zeros((4, 4, 3 if kernel is set_rows else M, 5)), dev.tensor(index), out)
        with pytest.raises(pk.IndexRangeError, match=r"position \(1, 1\) \(rows left out: 16;"):
            dev.sync()


# -- many launches, long reads --------------------------------------------------------------------


def test_more_launches_than_slots(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "SLOTS", 20)
    good, wrong, dst = dev.zeros(2, "int32"), dev.full(2, 9, "int32"), dev.zeros((M, 4))
    rows = dev.ones((2, 4))
    for i in range(75):
        set_rows(rows, wrong if i in (3, 70) else good, dst)
        assert len(dev._context.faults.own(1).launches) <= 20
    with pytest.raises(pk.IndexRangeError) as caught:
        dev.sync()
    assert "is 9 at position (0,)" in str(caught.value)
    assert "checked launch 4 since" in str(caught.value)
    assert str(caught.value).endswith("launches after it that failed: 1")
    for _ in range(50):
        set_rows(rows, good, dst)
    dev.sync()


def test_pages_are_read_when_too_many_are_full(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "SLOTS", 4)
    monkeypatch.setattr(faults, "MAX_FULL", 2)
    good, wrong, dst = dev.zeros(2, "int32"), dev.full(2, 9, "int32"), dev.zeros((M, 4))
    rows = dev.ones((2, 4))
    for i in range(61):
        set_rows(rows, wrong if i in (3, 60) else good, dst)
        assert len(dev._context.faults._full) <= 2
    with pytest.raises(pk.IndexRangeError, match="after it that failed: 1"):
        dev.sync()


def test_a_read_in_pieces(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(40_000, dtype="f4")
    t = dev.tensor(x)
    monkeypatch.setattr(transfers, "READ_CHUNK", 65536)
    bad(dev, 8)
    with pytest.raises(pk.IndexRangeError):
        t.numpy()
    bad(dev, 7)
    np.testing.assert_array_equal(t.numpy(), x)


# -- profile, a caller's pass, threads, devices ---------------------------------------------------


def test_a_profile_ends_with_the_error_and_is_complete(dev: pk.Device) -> None:
    with pytest.raises(pk.IndexRangeError, match="is 11"), dev.profile() as p:
        bad(dev, 11)
        pk.softmax(dev.zeros((4, 16)))
    assert [r.kernel for r in p.records if r.kernel != "memset"] == ["set_rows", "softmax"]
    if p.clock == "timestamps":
        assert sum(r.gpu for r in p.records) > 0
    assert p.wall > 0


def record(dev: pk.Device, *places: int) -> Any:
    """A set_rows in a pass of the caller's: the encoder, to be submitted."""
    encoder = dev.wgpu_device.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    src, index = dev.ones((len(places), 4)), dev.tensor(np.array(places, "i4"))
    dst = dev.zeros((M, 4))
    with dev.record(compute_pass):
        set_rows(src, index, dst)
    compute_pass.end()
    return encoder


def submit(dev: pk.Device, *encoders: Any) -> None:
    dev.wgpu_device.queue.submit([e.finish() for e in encoders])


def test_a_recorded_pass_raises_after_its_submit(dev: pk.Device) -> None:
    first, second, third = record(dev, 1, 8), record(dev, 2), record(dev, 9)
    for _ in range(2):
        dev.sync()  # nothing of them has run
    bad(dev, 12)
    with pytest.raises(pk.IndexRangeError, match=r"is 12 .* since the last"):
        dev.sync()
    submit(dev, second, third)
    with pytest.raises(pk.IndexRangeError, match=r"is 9 .*launch 1 recorded into the pass"):
        dev.sync()
    dev.sync()
    assert len(dev._context.faults.waiting()) == 1
    submit(dev, first)
    with pytest.raises(pk.IndexRangeError, match=r"is 8 at position \(1,\)"):
        dev.sync()
    dev.sync()


def test_a_recorded_pass_of_many_launches(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "SLOTS", 20)
    encoder = dev.wgpu_device.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    rows, dst = dev.ones((1, 4)), dev.zeros((M, 4))
    places = [dev.full(1, v, "int32") for v in (3, 10)]
    dev.sync()
    with dev.record(compute_pass):
        for i in range(50):
            set_rows(rows, places[i == 45], dst)
    compute_pass.end()
    assert len(dev._context.faults.waiting()) == 3
    submit(dev, encoder)
    with pytest.raises(pk.IndexRangeError, match=r"is 10 .*launch 6 recorded"):
        dst.numpy()
    assert sums(dst) == [0, 0, 0, 4, 0, 0, 0, 0]


def test_passes_that_are_never_submitted_are_forgotten() -> None:
    dev = open_device()
    for _ in range(faults.MAX_RECORDED + 3):
        record(dev, 99)
    assert len(dev._context.faults.waiting()) == faults.MAX_RECORDED
    bad(dev, 8)
    with pytest.raises(pk.IndexRangeError, match="is 8 "):
        dev.sync()
    dev.sync()
    dev.close()


def test_two_devices(dev: pk.Device) -> None:
    other = open_device()
    bad(other, 8)
    check_works(dev)
    with pytest.raises(pk.IndexRangeError):
        other.sync()
    other.close()


def test_a_batch_that_fails_takes_its_faults_with_it() -> None:
    dev = open_device()
    buffer = raw_buffer(dev.wgpu_device)
    t = pk.Tensor.from_buffer(buffer, (4, 16), "float32", device=dev)
    dst = dev.zeros((M, 4))
    index, rows = dev.full(1, 9, "int32"), dev.ones((1, 4))
    dev.sync()
    with pytest.raises(pk.BufferStateError), dev.batch():
        set_rows(rows, index, dst)
        pk.kernels.fill(t, 1)
        buffer.destroy()
    dev.sync()
    set_rows(rows, index, dst)
    with pytest.raises(pk.IndexRangeError, match="launch 1 since"):
        dev.sync()
    dev.close()


@pytest.mark.parametrize("with_block", (False, True))
def test_close_reports_what_no_synchronisation_did(with_block: bool) -> None:
    device = open_device()
    bad(device, 0, M)
    device.flush()
    with pytest.raises(pk.IndexRangeError, match=r"\[set_rows\] index must be in"):
        if with_block:
            with device:
                pass
        else:
            device.close()
    device.close()  # once
    with pytest.raises(pk.DeviceLostError):
        device.zeros(3)
