"""Caches of keys and values: rows appended through views, and at a position held on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.attention import attention
from pykernels.reference.attention import flash_attn_budget as budget
from tests.harness import assert_close, assert_same_bits

pytestmark = pytest.mark.gpu
BATCH, HEADS, KV_HEADS, DEPTH, ROOM = 2, 4, 2, 16, 6
Array = np.ndarray[Any, Any]


def test_append_through_a_view(dev: pk.Device) -> None:
    """The prompt's rows, whose heads and tokens lie transposed, then one row a step."""
    rng = np.random.default_rng(0)
    new = rng.normal(0, 1, (BATCH, ROOM, KV_HEADS, DEPTH)).astype("f4")
    for dtype in ("float32", "float16"):
        cache = dev.zeros((BATCH, KV_HEADS, ROOM + 2, DEPTH), dtype)
        rows = dev.tensor(new).swapaxes(1, 2)
        cache[:, :, :3] = rows[:, :, :3]
        for t in range(3, ROOM):
            cache[:, :, t] = rows[:, :, t]
        want = np.zeros(cache.shape, dtype)
        want[:, :, :ROOM] = new.swapaxes(1, 2)
        assert_same_bits(cache.numpy(), want)


def test_a_captured_step_appends_at_a_position_on_the_device(dev: pk.Device) -> None:
    """A decoding step of a layer: its position and lengths advance by additions on the device, so
    that the same program serves all positions. Beyond the room it reports, and writes nothing."""
    rng = np.random.default_rng(1)
    width = (HEADS + 2 * KV_HEADS) * DEPTH
    x = dev.empty((BATCH, 1, 24))
    w = dev.tensor(rng.normal(0, 0.3, (width, 24)).astype("f4"))
    full = (BATCH, KV_HEADS, ROOM, DEPTH)
    keys, values = dev.full(full, np.nan), dev.full(full, np.nan)
    position = dev.zeros(1, "int32")
    lengths = dev.ones(BATCH, "int32")  # with the row that the step appends
    table = pk.rope_table(DEPTH, device=dev)
    with dev.capture() as step:
        heads = pk.linear(x, w).reshape(BATCH, 1, -1, DEPTH).swapaxes(1, 2)
        q = pk.rope(heads[:, :HEADS], position, table=table)
        k = pk.rope(heads[:, HEADS:-KV_HEADS], position, table=table)
        v = heads[:, -KV_HEADS:]
        pk.set_rows(k, position, keys)
        pk.set_rows(v, position, values)
        out = pk.flash_attn(q, keys, values, lengths=lengths)
        pk.add(position, 1, out=position)
        pk.add(lengths, 1, out=lengths)
    k_seen, v_seen = np.zeros(full, "f4"), np.zeros(full, "f4")
    for t in range(ROOM):
        x.write(rng.normal(0, 1, x.shape).astype("f4"))
        step()
        k_seen[:, :, t], v_seen[:, :, t] = k.numpy()[:, :, 0], v.numpy()[:, :, 0]
        given = q.numpy(), k_seen[:, :, : t + 1], v_seen[:, :, : t + 1]
        assert_close(out.numpy(), attention(*given).o, budget(*given), f"step {t}")
        turned = pk.rope(heads[:, :HEADS], np.int32([t]))
        assert_same_bits(q.numpy(), turned.numpy())
    assert position.item() == ROOM and lengths.numpy().tolist() == [ROOM + 1] * BATCH
    assert_same_bits(keys.numpy(), k_seen)
    step()
    with pytest.raises(pk.IndexRangeError, match=rf"must be in \[0, {ROOM}\) but is {ROOM}"):
        dev.sync()
    assert_same_bits(keys.numpy(), k_seen)
