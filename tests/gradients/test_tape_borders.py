"""Where a tape ends: calls that it did not keep, results of `gradient`, trees of sources."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import open_device

pytestmark = pytest.mark.gpu


@pytest.fixture
def w(dev: pk.Device) -> pk.Tensor:
    return dev.tensor(np.array([3.0], np.float32))


@pytest.fixture
def v(dev: pk.Device) -> pk.Tensor:
    return dev.tensor(np.array([5.0], np.float32))


def test_a_source_that_was_read_unseen_is_refused(w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as tape:
        tape.watch(v)
        loss = pk.sum(w * w) + pk.sum(w * v)
    message = (
        r"sources\[0\] was read by a call that the tape did not record .*test_tape_borders.py:"
    )
    with pytest.raises(pk.TapeError, match=message):
        tape.gradient(loss, [w])
    [dv] = tape.gradient(loss, [v])
    assert dv.item() == 3
    tape.clear()
    with tape:
        loss = pk.sum(w * v)
    assert tape.gradient(loss, w).item() == 5


def test_what_was_read_before_the_first_watch_counts(w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as tape:
        first = w * w
        tape.watch(v, w)
        loss = pk.sum(first) + pk.sum(w * v)
    assert tape.gradient(loss, w).item() == 11


def test_a_late_watch_does_not_hide_a_read(w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as tape:
        tape.watch(v)
        first = w * w
        tape.watch(w)
        loss = pk.sum(first) + pk.sum(w * v)
    with pytest.raises(pk.TapeError, match="did not record"):
        tape.gradient(loss, w)


def test_reads_in_a_pause_are_meant(w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as tape:
        tape.watch(v)
        with tape.pause():
            factor = w * w
        loss = pk.sum(factor * v) + pk.sum(w * v)
    assert tape.gradient(loss, w).item() == 5


@pytest.mark.parametrize("watched", [False, True])
def test_a_gradient_in_a_loss_is_refused(w: pk.Tensor, v: pk.Tensor, watched: bool) -> None:
    """A gradient penalty: first order only is another number."""
    with pk.Tape() as tape:
        if watched:
            tape.watch(w, v)
        y = pk.sum(w * w * v)
        [dw] = tape.gradient(y, [w])
        loss = y + pk.sum(dw * dw)
    for source in (w, v):
        with pytest.raises(pk.TapeError, match="through a result of gradient"):
            tape.gradient(loss, [source])
    assert tape.gradient(loss, dw).item() == 2 * 2 * 3 * 5
    assert tape.gradient(y, w).item() == 2 * 3 * 5  # not the way


def test_the_gradient_of_another_tape_is_no_constant(w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as inner:
        y = pk.sum(w * w * v)
    with pk.Tape() as outer:
        [dw] = inner.gradient(y, [w])
        loss = pk.sum(dw * dw) + pk.sum(w)
    with pytest.raises(pk.TapeError, match="through a result of gradient"):
        outer.gradient(loss, w)


def test_an_unrolled_step_is_refused(w: pk.Tensor) -> None:
    with pk.Tape() as tape:
        dw = tape.gradient(pk.sum(w * w), w)
        stepped = w - 0.1 * dw
        loss = pk.sum(stepped * stepped)
    with pytest.raises(pk.TapeError, match="through a result of gradient"):
        tape.gradient(loss, w)


def _plain(tape: pk.Tape, w: pk.Tensor, dw: pk.Tensor) -> None:
    w -= 0.1 * dw


def _paused(tape: pk.Tape, w: pk.Tensor, dw: pk.Tensor) -> None:
    with tape.pause():
        w -= 0.1 * dw


def _optimised(tape: pk.Tape, w: pk.Tensor, dw: pk.Tensor) -> None:
    pk.SGD([w], lr=0.1).step([dw])


@pytest.mark.parametrize("update", [_plain, _paused, _optimised])
def test_an_update_is_no_such_way(
    w: pk.Tensor, v: pk.Tensor, update: Callable[[pk.Tape, pk.Tensor, pk.Tensor], None]
) -> None:
    with pk.Tape() as tape:
        for _ in range(2):
            w0 = w.item()
            dw = tape.gradient(pk.sum(w * w * v), w)
            assert dw.item() == pytest.approx(2 * w0 * 5, rel=1e-6)
            update(tape, w, dw)
        loss = pk.sum(w * v)
    dw, dv = tape.gradient(loss, (w, v))
    assert dw.item() == 5
    assert dv.item() == w.item()


def test_stopped_gradients_are_constants(w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = pk.sum(w * w * v)
        dw = tape.gradient(y, w)
        loss = y + pk.sum(pk.stop_gradient(dw) * w) + pk.sum(dw.detach() * 0)
    assert tape.gradient(loss, w).item() == 30 + 30


def test_stop_gradient_is_a_copy_without_a_way_back(w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as tape:
        still = pk.stop_gradient(w)
        loss = pk.sum(w * still) + pk.sum((w * v).detach())
    assert tape.gradient(loss, w).item() == 3
    with pytest.raises(pk.ArgumentError, match="does not depend on sources"):
        tape.gradient(loss, v)
    w += 1
    assert still.item() == 3
    a = np.ones((2, 2), np.float32)
    copied = pk.stop_gradient(a)
    assert isinstance(copied, np.ndarray) and copied is not a
    np.testing.assert_array_equal(copied, a)
    with pytest.raises(pk.DTypeError, match=r"\[stop_gradient\] x must be"):
        pk.stop_gradient(3.0)  # type: ignore[call-overload]


def test_unused_sources(w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as tape:
        loss = pk.sum(w * w)
    with pytest.raises(pk.ArgumentError, match=r"does not depend on sources\['b'\]"):
        tape.gradient(loss, {"a": w, "b": v})
    zeros = tape.gradient(loss, [v, w], unused="zeros")
    assert [g.item() for g in zeros] == [0, 6]
    one, none = tape.gradient(loss, (w, v), unused="none")
    assert one.item() == 6 and none is None


class Pair(NamedTuple):
    weight: pk.Tensor
    bias: pk.Tensor


@dataclass(frozen=True)
class Layer:
    pair: Pair
    scale: pk.Tensor | None = None


def test_sources_are_trees(dev: pk.Device, w: pk.Tensor, v: pk.Tensor) -> None:
    extra = dev.ones(1)
    model: dict[str, Any] = {"layers": [Layer(Pair(w, v)), Layer(Pair(extra, v), w)], "none": None}
    with pk.Tape() as tape:
        loss = pk.sum(w * v * extra)
    got = tape.gradient(loss, model)
    assert list(got) == ["layers", "none"] and got["none"] is None
    first, second = got["layers"]
    assert isinstance(first, Layer) and isinstance(first.pair, Pair) and first.scale is None
    assert (first.pair.weight.item(), first.pair.bias.item()) == (5, 3)
    assert (second.pair.weight.item(), second.scale.item()) == (15, 5)
    assert model["layers"][0].pair.weight is w
    values = tape.gradient(loss, {"w": w, "v": v}.values())
    assert [g.item() for g in values] == [5, 3]
    names = tape.gradient(loss, {"w": w})
    assert names["w"].item() == 5
    assert tape.gradient(loss, []) == []
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(pk.ArgumentError, match="a tree must have at most 64 levels"):
        tape.gradient(loss, endless)


def test_lists_of_tensors_are_stacked(dev: pk.Device, w: pk.Tensor, v: pk.Tensor) -> None:
    with pk.Tape() as tape:
        both = dev.tensor([pk.sum(w * w), pk.sum(w)])
        loss = pk.sum(both * dev.tensor(np.array([1, 2], np.float32)))
    assert tape.gradient(loss, w).item() == 2 * 3 + 2
    nested = pk.tensor([[w[0], 2], [v[0], 1.5]])
    assert nested.device is dev or nested.shape == (2, 2)
    np.testing.assert_array_equal(nested.numpy(), np.array([[3, 2], [5, 1.5]], np.float32))
    assert dev.tensor([w[0]], "int32").dtype == "int32"
    with pytest.raises(pk.ShapeError, match=r"\[stack\]"):
        dev.tensor([w, dev.ones(2)])


@pytest.mark.usefixtures("dev")
def test_lists_of_tensors_of_two_devices_are_refused(w: pk.Tensor) -> None:
    other = open_device()
    with pytest.raises(pk.BufferStateError, match=r"\[tensor\] tensors of two devices"):
        w.device.tensor([w, other.ones(1)])
    other.close()


def test_errors_name_the_line(w: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = pk.sin(w)
    copied = copy.copy(w)
    w += 1
    with pytest.raises(pk.TapeError, match=r"written since: .* \(the call at .*borders\.py:\d+\)"):
        tape.gradient(y, w)
    assert copied.item() == 3
