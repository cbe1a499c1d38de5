"""flash_attn of few query rows, which reads q, k and v without packing; its time is the time to
read keys and values."""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.bodies import attention_decode, attention_decode_quant, flash_attn
from pykernels.plans.copy import cpy
from pykernels.plans.limits import MAX_ROUNDS, fits
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .arguments import Dims
from .call import Call, combine, empty, in_vectors, whole_depth

__all__ = ["decode", "decode_blocks"]

CONFIGS = attention_decode.CONFIGS
NARROW = CONFIGS["lanes8"]
DIRECT = flash_attn.CONFIGS["keys128"]


def decode(caps: Caps, scratch: Scratch, c: Call, splits: int) -> list[Step]:
    """The dispatches of a call, with at most `splits` splits of the keys."""
    c, before = _alike(caps, scratch, c)
    d, item = c.dims, c.k.dtype.itemsize
    first_key, last_key = _ends(c)
    # A workgroup reads `unit` keys at a time. Blocks of `unit` keys are dealt to the splits in
    # turn; in the body flash_attn, a split has neighbouring blocks instead.
    unit, held = DIRECT.threads // DIRECT.LANES, DIRECT.ROWS
    most = DIRECT.KEYS // unit
    vectorized = in_vectors(c.k) and in_vectors(c.v)
    group = _lane_group(caps, d, last_key - first_key, splits) if vectorized else ""
    if group:
        lanes = CONFIGS[group]
        loads = lanes.DEPTHS * item // 16  # 16-byte loads of a lane for one key
        unit, held = lanes.threads // lanes.LANES * lanes.LOADS // loads, lanes.ROWS
        most = MAX_ROUNDS
        splits = cdiv(splits * NARROW.threads, lanes.threads)
    blocks = cdiv(last_key - first_key, unit)
    if blocks == 0:
        return empty(caps, scratch, c)
    each = min(cdiv(blocks, splits), most)
    splits = cdiv(blocks, each)
    partials, sums, sizes = _shares(scratch, c, first_key, last_key, held, splits)
    if group:
        step = attention_decode.step(
            caps, c.q, c.k, c.v, c.mask, c.lengths, sums, partials, GROUP=group,
            **sizes,  # type: ignore[arg-type]
        )  # fmt: skip
        return [*before, step, combine(caps, partials, sums, c)]
    width = 8 if vectorized and item == 2 else 4
    step = flash_attn.step(
        caps, c.q, c.k, c.v, c.mask, None, c.lengths, sums, partials, VECTORIZED=vectorized,
        column_bits=(cdiv(d.value_depth, width) - 1).bit_length(), split_keys=each * unit,
        **sizes,  # type: ignore[arg-type]
    )  # fmt: skip
    return [*before, step, combine(caps, partials, sums, c)]


def decode_blocks(
    caps: Caps, scratch: Scratch, c: Call, splits: int, kind: str,
    blocks: tuple[View, View, View, View],
) -> list[Step] | None:  # fmt: skip
    """Like `decode`, for quantised keys and values without a mask: `blocks` are their planes `low`
    and `scales`, (B, Hkv, ...). Returns None if heads are too deep."""
    first_key, last_key = _ends(c)
    group = _lane_group(caps, c.dims, last_key - first_key, splits)
    if not group:
        return None
    lanes = CONFIGS[group]
    unit = lanes.threads // lanes.LANES * lanes.LOADS
    splits = cdiv(splits * NARROW.threads, lanes.threads)
    rounds = cdiv(last_key - first_key, unit)
    if rounds == 0:
        return empty(caps, scratch, c)
    splits = cdiv(rounds, min(cdiv(rounds, splits), MAX_ROUNDS))
    partials, sums, sizes = _shares(scratch, c, first_key, last_key, lanes.ROWS, splits)
    step = attention_decode_quant.step(
        caps, c.q, *blocks, c.lengths, sums, partials, TYPE=kind, GROUP=group,
        **sizes,  # type: ignore[arg-type]
    )  # fmt: skip
    return [step, combine(caps, partials, sums, c)]


def _shares(
    scratch: Scratch, c: Call, first_key: int, last_key: int, held: int, splits: int
) -> tuple[View, View, dict[str, float]]:
    """Scratch for the results and sums of `splits` splits, and params of a body whose workgroups
    have `held` rows."""
    d = c.dims
    partials = scratch.empty((splits, *c.dst.shape[:3], whole_depth(d)), "float32")
    sums = scratch.empty((splits, *c.dst.shape[:3]), "float32")
    return partials, sums, {
        "kv_heads": d.kv_heads, "group": d.group, "queries": d.queries, "keys": d.keys,
        "depth": d.depth, "value_depth": d.value_depth, "matrices": d.batch * d.kv_heads,
        "row_groups": cdiv(d.group * d.queries, held), "splits": splits,
        "first_key": first_key, "last_key": last_key, **c.rules(),
    }  # fmt: skip


def _ends(c: Call) -> tuple[int, int]:
    """The first and the last key that any query may see. If lengths are given, this holds for every
    possible length."""
    d = c.dims
    first_key = max(0, min(c.band.low, d.keys))
    if c.lengths is not None:
        return first_key, first_key + min(d.keys - first_key, d.queries + c.band.top)
    return first_key, max(first_key, min(d.keys, d.queries + c.band.highest))


def _lane_group(caps: Caps, d: Dims, keys: int, splits: int) -> str:
    """The configuration of attention_decode; "" if the body flash_attn is needed.

    A workgroup of lanes16x2 has 256 invocations instead of 128, so half as many splits must be
    combined. This is faster if there are several long splits, and it needs more workgroup memory
    than WebGPU promises.
    """
    depth = max(d.depth, d.value_depth)
    if depth > _reach("lanes32"):
        return ""
    if not caps.subgroups:
        return "lanes16" if depth <= _reach("lanes16") else ""
    found = next(n for n in ("lanes8", "lanes16", "lanes32") if _reach(n) >= depth)
    own, doubled = caps.tuning.attention.decode, CONFIGS["lanes16x2"]
    large = found == "lanes16" and fits(caps, doubled.threads, doubled.workgroup_bytes)
    if large and splits >= own.lanes16x2_splits and keys >= own.lanes16x2_keys * splits:
        return "lanes16x2"
    return found


def _reach(group: str) -> int:
    """The depth that a lane group reads."""
    return CONFIGS[group].LANES * CONFIGS[group].DEPTHS


def _alike(caps: Caps, scratch: Scratch, c: Call) -> tuple[Call, list[Step]]:
    """The call with k and v of one dtype: if they differ, a float32 copy replaces the float16
    tensor."""
    if c.v.dtype == c.k.dtype:
        return c, []
    half = c.k if c.k.dtype.itemsize == 2 else c.v
    copy = scratch.empty(half.shape, "float32")
    steps = cpy.plan(caps, scratch, half, copy)
    return (replace(c, k=copy) if half is c.k else replace(c, v=copy)), steps
