"""The second pass of a norm or of its gradient, for any layout; the statistics are known by
then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykernels._generated.bodies import norm_apply, norm_apply_backward
from pykernels.plans.parts import in_levels, parts
from pykernels.steps import Caps, Step, cdiv
from pykernels.tensors.layout import Rows, View, merge_axes

from .statistics import Affine, Norm, Statistics

__all__ = ["apply", "apply_backward", "power"]

BATCH = norm_apply.CONFIGS["batch4"]


class _Shape(NamedTuple):
    """How a row is read: the elements in one load of x, of the statistics and of the weight; the
    lanes and the pieces of a row."""

    vec: int
    of_statistics: int
    of_weight: int
    lane_bits: int
    pieces: int


def apply(
    caps: Caps, norm: Norm, x: View, found: Statistics, scale: Affine, dst: View
) -> list[Step]:
    """The steps that compute dst from x; all views have the shape of x."""
    given = {
        "x": x, "pivot": found.pivot, "offset": found.offset, "squares": found.squares,
        "weight": scale.weight or scale.bias, "bias": scale.bias, "dst": dst,
    }  # fmt: skip
    steps = []
    for v in _parts(caps, given):
        s = _shape(v, ("x", "dst"))
        steps.append(
            norm_apply.step(
                caps, v["x"], v.get("pivot"), v.get("offset"), v["squares"], v.get("weight"),
                v.get("bias"), v["dst"], VEC=s.vec, SV=s.of_statistics, WV=s.of_weight,
                lane_bits=s.lane_bits, pieces=s.pieces, count=found.elements,
                has_weight=int(scale.weight is not None), l2=int(norm.l2), eps=norm.eps,
            )
        )  # fmt: skip
    return steps


def apply_backward(
    caps: Caps, norm: Norm, dy: View, x: View, found: Statistics, sums: View, apart: int,
    weight: View | None, dst: View,
) -> list[Step]:  # fmt: skip
    """The steps that compute dst from x and dy. `sums` have the strides of the statistics; the
    second sums lie `apart` elements behind the first."""
    given = {
        "x": x, "dy": dy, "pivot": found.pivot, "offset": found.offset, "squares": found.squares,
        "sums": sums, "weight": weight, "dst": dst,
    }  # fmt: skip
    steps = []
    for v in _parts(caps, given):
        s = _shape(v, ("x", "dy", "dst"), apart)
        steps.append(
            norm_apply_backward.step(
                caps, v["dy"], v["x"], v.get("pivot"), v.get("offset"), v["squares"],
                _both(v["sums"], apart), v.get("weight"), v["dst"], VEC=s.vec,
                SV=s.of_statistics, WV=s.of_weight, lane_bits=s.lane_bits, pieces=s.pieces,
                count=found.elements, apart=apart // s.of_statistics, l2=int(norm.l2), eps=norm.eps,
            )
        )  # fmt: skip
    return steps


def _parts(caps: Caps, given: Mapping[str, View | None]) -> list[dict[str, View]]:
    """The views with their axes sorted by the strides of x (largest first) and merged, in parts
    that bindings hold."""
    views = {name: v for name, v in given.items() if v is not None}
    x = views["x"]
    order = sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]))
    shape, strides = merge_axes(
        tuple([x.shape[a] for a in order]),
        [tuple([v.strides[a] for a in order]) for v in views.values()],
    )
    merged = {n: v.with_layout(shape, s) for (n, v), s in zip(views.items(), strides, strict=True)}
    axes = [{name: a for name in merged} for a in range(len(shape))]
    return [
        p.views
        for part in parts(caps, merged, axes)
        for p in in_levels(part, axes[:-1], Rows.LEVELS)
    ]


def _both(first: View, apart: int) -> View:
    """One view of the first and the second sums; the strides of `first` are not negative."""
    reach = sum([(n - 1) * step for n, step in zip(first.shape, first.strides, strict=True)])
    return first.with_layout((2, reach // 4 + 1), (4 * apart, 4))


def _shape(views: Mapping[str, View], data: tuple[str, ...], apart: int = 0) -> _Shape:
    """How rows are read: in vectors if all of `data` can be read in vectors, and each other view
    can be read in vectors or repeats along rows."""
    cols = views["x"].shape[-1]
    params = {n: v for n, v in views.items() if n not in data}
    vec = 1
    if all([views[n].vectorizable(4) for n in data]) and all(
        [v.strides[-1] == 0 or v.vectorizable(4) for v in params.values()]
    ):
        vec = 4
    statistics = vec if views["squares"].strides[-1] != 0 else 1
    weight = views.get("weight")
    of_weight = vec if weight is None or weight.strides[-1] != 0 else 1
    if weight is None and statistics == 1:
        of_weight = 1
    if (apart % 4 != 0 and statistics == 4) or statistics > of_weight:
        vec, statistics, of_weight = 1, 1, 1
    lanes = min(power(cdiv(cols // vec, BATCH.N)), BATCH.threads)
    pieces = cdiv(cols // vec, lanes * BATCH.N)
    return _Shape(vec, statistics, of_weight, lanes.bit_length() - 1, pieces)


def power(n: int) -> int:
    """The smallest power of two that is n or more."""
    return 1 << max(n - 1, 0).bit_length()
