"""flash_attn of few query rows, straight from q, k and v: bound by reading keys and values."""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.bodies import attention_decode, flash_attn
from pykernels.plan import Caps, Scratch, Step, cdiv
from pykernels.plans.copy import cpy
from pykernels.plans.limits import MAX_ROUNDS, fits

from .call import Call, combine, empty, in_vectors, whole_depth
from .select import HELD

__all__ = ["decode"]

# Of a workgroup of attention_decode with 256 invocations.
WIDE_BYTES = 25600


def decode(caps: Caps, scratch: Scratch, c: Call, slices: int) -> list[Step]:
    """The dispatches of a call in so many slices of the keys, or fewer."""
    c, before = _alike(caps, scratch, c)
    d, item = c.dims, c.k.dtype.itemsize
    team = _team(caps, c)
    first = max(0, min(c.band.low, d.keys))
    last = max(first, min(d.keys, d.queries + c.band.high))
    # Keys that a workgroup takes at a time; blocks of so many keys are the slices' in turn, or
    # neighbours in flash_attn.
    unit, most, lanes = 32, 4, _lanes(caps, team, last - first, slices)
    if team:
        unit, most = lanes // team * 8 // item, MAX_ROUNDS
        slices = cdiv(slices * 128, lanes)
    blocks = cdiv(last - first, unit)
    if blocks == 0:
        return empty(caps, scratch, c)
    each = min(cdiv(blocks, slices), most)
    slices = cdiv(blocks, each)
    parts = scratch.empty((slices, *c.dst.shape[:3], whole_depth(d)), "float32")
    sums = scratch.empty((slices, *c.dst.shape[:3]), "float32")
    sizes = {
        "kv_heads": d.kv_heads, "group": d.group, "queries": d.queries, "keys": d.keys,
        "depth": d.depth, "value_depth": d.value_depth, "matrices": d.batch * d.kv_heads,
        "row_groups": cdiv(d.group * d.queries, HELD), "slices": slices,
        "first_key": first, "last_key": last, **c.rules(),
    }  # fmt: skip
    if team:
        step = attention_decode.step(
            caps, c.q, c.k, c.v, c.mask, sums, parts, LANES=team, WG=lanes,
            **sizes,  # type: ignore[arg-type]
        )  # fmt: skip
        return [*before, step, combine(caps, parts, sums, c)]
    wide = in_vectors(c.k) and in_vectors(c.v)
    width = 8 if wide and item == 2 else 4
    step = flash_attn.step(
        caps, c.q, c.k, c.v, c.mask, None, sums, parts, WIDE=wide,
        column_bits=(cdiv(d.value_depth, width) - 1).bit_length(), slice_keys=each * unit,
        **sizes,  # type: ignore[arg-type]
    )  # fmt: skip
    return [*before, step, combine(caps, parts, sums, c)]


def _team(caps: Caps, c: Call) -> int:
    """Lanes that read a key together in attention_decode; 0 where flash_attn has to do it."""
    deep = max(c.dims.depth, c.dims.value_depth)
    if deep > 256 or not (in_vectors(c.k) and in_vectors(c.v)):
        return 0
    if not caps.subgroups:
        return 16 if deep <= 128 else 0
    return next(n for n in (8, 16, 32) if 8 * n >= deep)


def _lanes(caps: Caps, team: int, keys: int, slices: int) -> int:
    """Invocations of a workgroup of attention_decode.

    256 leave half as many slices to combine, which pays where slices are some and long, and need
    more workgroup memory than WebGPU promises.
    """
    own = caps.tuning.attention.decode
    large = caps.subgroups and fits(caps, 256, WIDE_BYTES) and team == 16
    return 256 if large and slices >= own.wide_slices and keys >= own.wide_keys * slices else 128


def _alike(caps: Caps, scratch: Scratch, c: Call) -> tuple[Call, list[Step]]:
    """k and v of one dtype: a copy stands in for the one of two bytes."""
    if c.v.dtype == c.k.dtype:
        return c, []
    half = c.k if c.k.dtype.itemsize == 2 else c.v
    copy = scratch.empty(half.shape, "float32")
    steps = cpy.plan(caps, scratch, half, copy)
    return (replace(c, k=copy) if half is c.k else replace(c, v=copy)), steps
