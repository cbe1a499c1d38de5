"""rope_append: one dispatch; if bindings are too small, separate dispatches for queries, and for
keys and values."""

from __future__ import annotations

from pykernels._generated.bodies import rope_append as body
from pykernels.errors import ShapeError
from pykernels.plans.parts import Part, fits_binding, in_levels, narrow, parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Rows, View
from pykernels.wgsl.watch import Watch

from .rope import LIMIT, check, heads_first, turn

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, x: View, positions: View, table: View, cache: View, dst: View,
    style: str = "normal",
) -> list[Step]:  # fmt: skip
    """One dispatch, more if bindings are too small; none without tokens."""
    check("rope_append", x, positions, table, style)
    _check(x, cache, dst)
    if x.size == 0:
        return []
    tokens = (*x.shape[:-3], x.shape[-2])
    limit = min(cache.shape[-2], LIMIT)
    # The first axis counts heads; the other axes count tokens.
    rest = {"x": heads_first(x), "positions": positions.broadcast_to(tokens)}
    outputs = {"cache": heads_first(cache), "dst": heads_first(dst)}
    queries, turned = dst.shape[-3], dst.shape[-3] + cache.shape[-3] // 2
    watch = Watch("positions", limit, positions.shape, tokens)
    # If bindings are too small, queries are cut into parts, and so are keys and values.
    views = {**rest, **{name: v for name, v in outputs.items() if v.size}}
    axes = _axes(views, len(tokens))
    near = len(in_levels(Part(views, (0,) * len(axes)), axes, Rows.LEVELS)) == 1
    if near and all(fits_binding(caps, v) for v in views.values()):
        return [_step(caps, scratch, views, table, style, (queries, turned, limit), watch)]
    steps: list[Step] = []
    number = 0
    for name, first, heads in (("dst", 0, queries), ("cache", queries, x.shape[-3] - queries)):
        own = {**rest, "x": narrow(rest["x"], 0, first, heads), name: outputs[name]}
        axes = _axes(own, len(tokens))
        cuts = [*axes, {"x": 0, name: 0}]
        for part in parts(caps, own, cuts) if outputs[name].size else ():
            for piece in in_levels(part, axes, Rows.LEVELS):
                *at, head = piece.first
                told = None
                if name == "cache" and head == 0:  # so that each position is reported once
                    told = watch.part(number, tuple(at), piece.views["positions"].shape, tokens)
                    number += 1
                count = piece.views["x"].shape[0]
                mine = count if name == "dst" else 0
                turns = min(max(turned - first - head, 0), count)
                steps.append(
                    _step(caps, scratch, piece.views, table, style, (mine, turns, limit), told)
                )
    return steps


def _check(x: View, cache: View, dst: View) -> None:
    lead, width = x.shape[:-3], x.shape[-1]
    heads = cache.shape[-3] if cache.ndim == x.ndim else 0
    if (*cache.shape[:-3], *cache.shape[-1:]) != (*lead, width) or heads < 2 or heads % 2:
        raise ShapeError(
            f"[rope_append] cache must be {(*lead, 'heads of keys and values', 'room', width)} for "
            f"x of shape {x.shape}, with as many heads of keys as of values, but has {cache.shape}"
        )
    shape = (*lead, x.shape[-3] - heads, *x.shape[-2:])
    if dst.shape != shape:
        raise ShapeError(
            f"[rope_append] dst must have shape {shape}, the heads of x that a cache of {heads} "
            f"leaves to queries, but has {dst.shape}"
        )


def _axes(views: dict[str, View], count: int) -> list[dict[str, int]]:
    """The axes of tokens in each view. The cache has no axis for the last axis of tokens, because
    positions pick its rows."""
    of_heads = [name for name in ("x", "dst", "cache") if name in views]
    return [
        {"positions": a} | {n: a + 1 for n in of_heads if n != "cache" or a < count - 1}
        for a in range(count)
    ]  # fmt: skip


def _step(
    caps: Caps, scratch: Scratch, views: dict[str, View], table: View, style: str,
    sizes: tuple[int, int, int], watch: Watch | None,
) -> Step:  # fmt: skip
    """One dispatch; an output that is not in `views` is not written."""
    x = views["x"]
    shape = (*(1,) * (x.ndim - 1), x.shape[-1])
    none = scratch.empty(x.shape[-1:], x.dtype.name)
    none = none.with_layout(shape, (*(0,) * (x.ndim - 1), x.dtype.itemsize))
    cache, dst = (views.get(name, none) for name in ("cache", "dst"))
    own = turn(table, style, x, cache, dst)
    queries, turned, limit = sizes
    return body.step(
        caps, x, views["positions"], own.table, cache, dst, queries=queries, turned=turned,
        limit=limit, watch=watch, **own.sizes,
    )  # fmt: skip
