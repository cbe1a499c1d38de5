"""Norms over the last axis: short rows are held in registers; for longer rows, statistics come
first, and rows are cut into pieces."""

from __future__ import annotations

from collections.abc import Mapping

from pykernels._generated.bodies import binary, norm_rows, norm_rows_backward
from pykernels.dtypes import DTypeName
from pykernels.plans.copy import cpy
from pykernels.plans.parts import fits_binding, narrow, parts, row_parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .apply import apply
from .statistics import Affine, Norm, affine, check_affine, dense, repeat, statistics

__all__ = ["close", "config", "nowhere", "plan"]

SINGLE = ("row16", "row256", "row4096")  # configurations that also read single elements
FAR = 32  # if columns are at least this many bytes apart, each is a separate memory access
SHORT = 64  # then, in rows of up to this many columns, lanes read neighbouring rows


def plan(
    caps: Caps, scratch: Scratch, norm: Norm, x: View, residual: View | None, weight: View | None,
    bias: View | None, summed: View | None, dst: View,
) -> list[Step]:  # fmt: skip
    """The dispatches of one norm, part by part if it is cut."""
    given = {"x": x, "residual": residual, "summed": summed, "dst": dst}
    views = {n: v.as_rank(max(v.ndim, 1)) for n, v in given.items() if v is not None}
    x = views["x"]
    check_affine(norm.op, x.shape[-1], weight=weight, bias=bias)
    if x.size == 0:
        return []
    before: list[Step] = []
    after: list[Step] = []
    views = close(caps, scratch, views, ("summed", "dst"), before, after)
    vec = 4 if all([v.vectorizable(4) for v in views.values()]) else 1
    found = config(caps, views, vec, norm_rows.CONFIGS)
    halves = vec == 4 and all([v.dtype.itemsize == 2 for v in (x, weight, bias) if v])
    name: DTypeName = "float16" if halves else "float32"
    weight = dense(caps, scratch, weight, name, before)
    bias = dense(caps, scratch, bias, name, before)
    steps: list[Step] = []
    for v in _by_rows(caps, views):
        if found is None:
            steps += _in_pieces(caps, scratch, norm, v, weight, bias)
        else:
            steps.append(_in_registers(caps, scratch, norm, v, weight, bias, vec, found))
    return [*before, *steps, *after]


def config(
    caps: Caps, views: Mapping[str, View], vec: int,
    configs: Mapping[str, norm_rows.Config | norm_rows_backward.Config],
) -> str | None:  # fmt: skip
    """The first configuration that holds a row in registers; None if bindings cannot hold a row."""
    cols = views["x"].shape[-1]
    if not _row_fits(caps, views):
        return None
    for name, c in configs.items():
        if c.LANES * c.N * vec >= cols and (vec == 4 or name in SINGLE):
            return name
    return None


def _row_fits(caps: Caps, views: Mapping[str, View]) -> bool:
    """True if a binding holds one row of each view."""
    reach = max([abs(v.strides[-1]) * v.shape[-1] for v in views.values()])
    return reach + caps.alignment + 32 <= caps.max_binding


def _by_rows(caps: Caps, views: dict[str, View]) -> list[dict[str, View]]:
    """The parts of a call whose rows bindings hold; if bindings cannot hold one row, each row is a
    part."""
    shape = views["x"].shape
    if _row_fits(caps, views):
        return [part.views for part in row_parts(caps, shape, views)]
    found = [views]
    for axis, n in enumerate(shape[:-1]):
        found = [
            {name: narrow(v, axis, i, 1) for name, v in part.items()}
            for part in found
            for i in range(n)
        ]
    return found


def close(
    caps: Caps, scratch: Scratch, given: Mapping[str, View], written: tuple[str, ...],
    before: list[Step], after: list[Step],
) -> dict[str, View]:  # fmt: skip
    """The views, with temporaries in place of views whose columns lie far apart. `before` has the
    copies to the temporaries, `after` the copies of results from them."""
    views = dict(given)
    for name, v in given.items():
        step, cols = abs(v.strides[-1]), v.shape[-1]
        far = step >= FAR and cols > SHORT
        wide = step > v.dtype.itemsize and 2 * step * cols > caps.max_binding
        if not far and (not wide or fits_binding(caps, v)):
            continue
        views[name] = scratch.empty(v.shape, v.dtype.name)
        if name in written:
            after += cpy.plan(caps, scratch, views[name], v)
        else:
            before += cpy.plan(caps, scratch, v, views[name])
    return views


def nowhere(scratch: Scratch, x: View) -> View:
    """A temporary in place of an absent output, because absent tensors are bound for reading."""
    return scratch.empty((4,), "float32").with_layout(x.shape, (0,) * x.ndim, x.dtype)


def _in_registers(
    caps: Caps, scratch: Scratch, norm: Norm, views: Mapping[str, View], weight: View | None,
    bias: View | None, vec: int, found: str,
) -> Step:  # fmt: skip
    """The steps for rows that bindings hold; each row is read once."""
    x, dst = views["x"], views["dst"]
    residual, summed = views.get("residual"), views.get("summed")
    # The body writes the sum to the memory of its first operand, which must be `residual`.
    first, second = (residual, x) if residual else (x, None)
    return norm_rows.step(
        caps, first, second, weight, bias, dst if summed else nowhere(scratch, x), summed or dst,
        NORM="layer" if norm.mean else "rms", VEC=vec, WV=vec, LENGTH=found, inner=1,
        affine_rows=1, l2=int(norm.l2), eps=norm.eps,
    )  # fmt: skip


def _in_pieces(
    caps: Caps, scratch: Scratch, norm: Norm, views: Mapping[str, View], weight: View | None,
    bias: View | None,
) -> list[Step]:  # fmt: skip
    """The steps for rows that are read twice: for their statistics, and to be normalised."""
    x = views["x"]
    last = (x.ndim - 1,)
    steps: list[Step] = []
    residual, summed = views.get("residual"), views.get("summed")
    if residual is not None and summed is not None:
        # the second pass reads this, and outputs are bound for writing only
        near = scratch.empty(x.shape, x.dtype.name)
        terms = {"a": x, "b": residual, "dst": near}
        axes = [{name: a for name in terms} for a in range(x.ndim)]
        for part in parts(caps, terms, axes):
            v = part.views
            steps.append(binary.step(caps, v["a"], v["b"], v["dst"], OP="add"))
        steps += cpy.plan(caps, scratch, near, summed)
        x = near
    scale = affine(caps, scratch, weight, bias, steps)
    over = [repeat(v, x.shape, last) if v else None for v in scale]
    first, known = statistics(caps, scratch, norm, x, last)
    return [*steps, *first, *apply(caps, norm, x, known, Affine(*over), views["dst"])]
