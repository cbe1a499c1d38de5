"""flash_attn: the last blocks of a large call, whose keys are cut into splits of unlike lengths."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.attention import flash_attn as plans
from pykernels.plans.attention import select as choices
from pykernels.plans.attention.arguments import Dims
from pykernels.plans.attention.select import LARGE, AttentionChoice, AttentionTail, choose
from pykernels.plans.attention.select import SMALL as SMALL_TILE
from pykernels.reference.attention import attention
from pykernels.steps import Caps, Scratch
from pykernels.tuning import named
from tests.harness import Form
from tests.kernels.attention.attention_calls import F16, F32, AttentionCalls, run
from tests.kernels.attention.test_flash_attn import BIG, view

gpu = pytest.mark.gpu
NAN, INF = np.nan, np.inf


def choice(blocks: int, long: int, short: int, splits: int, tile: str = "32") -> AttentionChoice:
    return AttentionChoice(f"attention_tile/{tile}", 1, AttentionTail(blocks, long, short, splits))


@gpu
@pytest.mark.parametrize("dtype", (F32, pytest.param(F16, marks=pytest.mark.sample)))
def test_tail(dev: pk.Device, dtype: str) -> None:
    """Blocks from the middle of a head on, of a head that shares its KV head, of a shared block,
    all blocks; sinks, lse and none, ragged lengths, batches."""
    for cut, heads, s in (
        (choice(4, 2, 1, 3), (2, 3, 3), 70),  # blocks of 32, 32 and 6 rows
        (choice(3, 3, 1, 2), (1, 4, 2), 70),  # heads begin at blocks, two on a KV head
        (choice(7, 1, 1, 4), (2, 4, 2), 64),
        (choice(3, 2, 2, 2), (2, 6, 2), 20),  # blocks hold rows of two query heads
        (choice(6, 2, 1, 3), (1, 2, 2), 90),  # no whole block
    ):
        calls = AttentionCalls(dev)
        for t in (128, 101):
            calls.add(heads, (s, t), (16, 20), dtype, sinks=calls.values(heads[1:2]))
            calls.add(heads, (s, t), (16, 60), dtype, lse=False)
        with force(dev, cut):
            calls.check(str(cut))


@gpu
def test_columns(dev: pk.Device) -> None:
    """More values than a tile has columns; depths that are no multiple of what is read."""
    calls = AttentionCalls(dev)
    for depth in (129, 200, 33):
        calls.add((1, 2, 1), (70, 101), (16, depth), sinks=calls.values((2,)))
    with force(dev, choice(4, 2, 1, 3)):
        calls.check()


@gpu
@pytest.mark.parametrize(("depth", "each"), ((60, 2), (100, 1)))  # 64 and 128 keys a tile
@pytest.mark.sample
def test_large_tiles(dev: pk.Device, depth: int, each: int) -> None:
    calls = AttentionCalls(dev)
    calls.add((1, 3, 3), (200, 500), (40, depth), sinks=calls.values((3,)))
    calls.add((1, 2, 1), (130, 400), (40, depth))
    with force(dev, choice(3, 2 * each, each, 3, "large")):
        calls.check(f"{depth}")


@gpu
def test_layouts(dev: pk.Device) -> None:
    """dst and lse with gaps, turned, backwards, and in the buffer of the values."""
    calls = AttentionCalls(dev)
    for form in (Form(gap=3, phase=5), Form(order=(3, 1, 0, 2)), Form(steps=(1, -1, 2, -1))):
        calls.add((2, 2, 1), (70, 101), (16, 20), forms={"dst": form})
    calls.add((2, 2, 1), (70, 101), (16, 20), forms={"lse": Form(steps=(-1, 2, -1), phase=3)})
    calls.add((1, 2, 1), (70, 101), (16, 20), buffers={"v": "x", "lse": "x", "dst": "x"})
    with force(dev, choice(4, 2, 1, 3)):
        calls.check()


@gpu
def test_splits_without_keys(dev: pk.Device) -> None:
    """A mask hides whole splits of some rows, and all keys of others; with and without sinks."""
    calls = AttentionCalls(dev)
    mask = calls.mask((2, 70, 128), F32)
    mask[:, ::3, :64] = -INF
    mask[:, 1::3, 64:] = -INF
    mask[1, 60:] = -INF
    mask[0, 50] = -INF
    sinks = np.float32([0.5, -INF])
    calls.add((1, 2, 2), (70, 128), (16, 20), mask=mask)
    calls.add((1, 2, 2), (70, 128), (16, 20), mask=mask, sinks=sinks, max_bias=8.0, softcap=3.0)
    with force(dev, choice(5, 2, 1, 3)):
        calls.check()


@gpu
def test_bad_logits_and_sinks(dev: pk.Device) -> None:
    """NaN and inf in any split spoil their rows, a bad sink its head; nothing else."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(0, 1, (1, 4, n, 16)).astype(F32) for n in (70, 128, 128))
    mask = np.zeros((4, 70, 128), F32)
    for head, row, key, number in ((0, 40, 3, NAN), (0, 41, 100, INF), (2, 69, 127, NAN)):
        mask[head, row, key] = number
    mask[2, 3] = -INF
    for sinks in (None, np.float32([1.0, NAN, -INF, INF])):
        want = attention(q, k, v, mask, sinks)
        with force(dev, choice(11, 2, 1, 3)):
            got, lse = run(dev, q, k, v, mask, sinks)
        assert (np.isnan(lse) == np.isnan(want.lse)).all()
        assert (np.isnan(got) == np.isnan(want.o)).all()
        assert np.isnan(want.lse).any() and not np.isnan(want.lse).all()


# -- which calls have one -------------------------------------------------------------------------

TABLE = named("nvidia-h200")  # 264 workgroups of the large tiles at a time
SMALL = Caps(False, False, 256, 256, 16384, 128 << 20, 65535, named("generic-small"))


def test_choice_of_the_tail() -> None:
    """2,048 blocks, of which 264 run at a time: 200 of them would begin another wave."""
    large = Dims(1, 32, 32, 4096, 4096, 128, 128)
    tail = choose(BIG, large).tail
    assert tail.blocks == 200 and tail.splits > 1
    assert tail.long + tail.short * (tail.splits - 1) >= 32 > tail.long
    whole = large._replace(heads=33, kv_heads=33, queries=512)
    for d in (whole, large._replace(keys=64)):
        assert choose(BIG, d).tail == AttentionTail()
    assert choose(BIG, large, True).tail == AttentionTail()
    assert choose(SMALL, large).tail == AttentionTail()
    assert choose(BIG, large._replace(heads=4, kv_heads=4)).tail == AttentionTail()  # short


@pytest.mark.parametrize("blocks", (265, 300, 464, 527))
@pytest.mark.parametrize("tiles", (4, 31, 1024))
@pytest.mark.parametrize("columns", (1, 3))
def test_a_tail_covers_its_keys(blocks: int, tiles: int, columns: int) -> None:
    tail = choices.tail_of(TABLE, blocks, tiles, columns, 1.0, 1)
    if tail.blocks == 0:
        return
    assert tail.blocks % columns == 0 and blocks - 264 <= tail.blocks < blocks - 264 + columns
    assert tail.long + (tail.splits - 2) * tail.short < tiles
    assert tail.long + (tail.splits - 1) * tail.short >= tiles and tail.long >= tail.short


def test_steps_of_a_call_with_a_tail() -> None:
    """Whole blocks and splits in two dispatches that write to different buffers; then the join."""
    x = view((1, 32, 4096, 128))
    steps = plans.plan(BIG, Scratch(), x, x, x, None, None, None, None, x)
    names = ["pack_qk", "attention_tile", "attention_tile", "attention_combine_tiles"]
    assert [s.body.name for s in steps] == names
    tail = choose(BIG, Dims(1, 32, 32, 4096, 4096, 128, 128)).tail
    assert [s.groups for s in steps[1:3]] == [2048 - 200, 200 * tail.splits]
    written = [{b.view.slot for b in s.bound if b.role == "out" and b.view} for s in steps[1:3]]
    assert not written[0] & written[1]


def test_order_of_unlike_blocks() -> None:
    """Groups of KV heads alike, up to three waves of their blocks; all heads where blocks are few,
    or the tile is not for large devices."""
    for heads, want in (
        (32, (11, 16)),
        (33, (11, 16)),
        (17, (9, 16)),
        (13, (7, 16)),
        (12, (12, 0)),
    ):
        d = Dims(1, heads, heads, 4096, 4096, 128, 128)
        assert choices.order(TABLE, LARGE, d, choices.blocks_of(d, 64, True), heads) == want
    d = Dims(1, 32, 8, 4096, 4096, 128, 128)  # four query heads on each KV head
    assert choices.order(TABLE, LARGE, d, choices.blocks_of(d, 64, True), 8) == (2, 16)
    assert choices.order(TABLE, SMALL_TILE, d, choices.blocks_of(d, 32, True), 8) == (8, 0)
