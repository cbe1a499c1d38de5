"""flash_attn of few query rows, straight from q, k and v: bound by reading keys and values."""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.bodies import attention_decode, flash_attn
from pykernels.plans.copy import cpy
from pykernels.plans.limits import MAX_ROUNDS, fits
from pykernels.steps import Caps, Scratch, Step, cdiv

from .call import Call, combine, empty, in_vectors, whole_depth

__all__ = ["decode"]

CONFIGS = attention_decode.CONFIGS
NARROW = CONFIGS["lanes8"]
DIRECT = flash_attn.CONFIGS["keys128"]


def decode(caps: Caps, scratch: Scratch, c: Call, splits: int) -> list[Step]:
    """The dispatches of a call in at most so many splits of the keys."""
    c, before = _alike(caps, scratch, c)
    d, item = c.dims, c.k.dtype.itemsize
    first_key, last_key = _ends(c)
    # Keys that a workgroup takes at a time; blocks of so many keys are the splits' in turn, or
    # neighbours in flash_attn.
    unit, held = DIRECT.threads // DIRECT.LANES, DIRECT.ROWS
    most = DIRECT.KEYS // unit
    group = _lane_group(caps, c, last_key - first_key, splits)
    if group:
        lanes = CONFIGS[group]
        loads = lanes.DEPTHS * item // 16  # of 16 bytes, of one key
        unit, held = lanes.threads // lanes.LANES * lanes.LOADS // loads, lanes.ROWS
        most = MAX_ROUNDS
        splits = cdiv(splits * NARROW.threads, lanes.threads)
    blocks = cdiv(last_key - first_key, unit)
    if blocks == 0:
        return empty(caps, scratch, c)
    each = min(cdiv(blocks, splits), most)
    splits = cdiv(blocks, each)
    partials = scratch.empty((splits, *c.dst.shape[:3], whole_depth(d)), "float32")
    sums = scratch.empty((splits, *c.dst.shape[:3]), "float32")
    sizes = {
        "kv_heads": d.kv_heads, "group": d.group, "queries": d.queries, "keys": d.keys,
        "depth": d.depth, "value_depth": d.value_depth, "matrices": d.batch * d.kv_heads,
        "row_groups": cdiv(d.group * d.queries, held), "splits": splits,
        "first_key": first_key, "last_key": last_key, **c.rules(),
    }  # fmt: skip
    if group:
        step = attention_decode.step(
            caps, c.q, c.k, c.v, c.mask, c.lengths, sums, partials, GROUP=group,
            **sizes,  # type: ignore[arg-type]
        )  # fmt: skip
        return [*before, step, combine(caps, partials, sums, c)]
    vectorized = in_vectors(c.k) and in_vectors(c.v)
    width = 8 if vectorized and item == 2 else 4
    step = flash_attn.step(
        caps, c.q, c.k, c.v, c.mask, None, c.lengths, sums, partials, VECTORIZED=vectorized,
        column_bits=(cdiv(d.value_depth, width) - 1).bit_length(), split_keys=each * unit,
        **sizes,  # type: ignore[arg-type]
    )  # fmt: skip
    return [*before, step, combine(caps, partials, sums, c)]


def _ends(c: Call) -> tuple[int, int]:
    """The first and last key that any query may see; with lengths, as many keys as any length
    allows."""
    d = c.dims
    first_key = max(0, min(c.band.low, d.keys))
    if c.lengths is not None:
        return first_key, first_key + min(d.keys - first_key, d.queries + c.band.top)
    return first_key, max(first_key, min(d.keys, d.queries + c.band.highest))


def _lane_group(caps: Caps, c: Call, keys: int, splits: int) -> str:
    """The configuration of attention_decode; "" if the body flash_attn is needed.

    256 invocations leave half as many splits to combine. That pays if there are several long
    splits, and needs more workgroup memory than WebGPU promises.
    """
    depth = max(c.dims.depth, c.dims.value_depth)
    if depth > _reach("lanes32") or not (in_vectors(c.k) and in_vectors(c.v)):
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
    """k and v of one dtype: a float32 copy replaces the tensor of float16."""
    if c.v.dtype == c.k.dtype:
        return c, []
    half = c.k if c.k.dtype.itemsize == 2 else c.v
    copy = scratch.empty(half.shape, "float32")
    steps = cpy.plan(caps, scratch, half, copy)
    return (replace(c, k=copy) if half is c.k else replace(c, v=copy)), steps
