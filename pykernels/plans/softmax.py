"""softmax: rows in registers; longer rows in three passes; columns far apart through a transpose."""

from __future__ import annotations

from pykernels._generated.bodies import softmax as body
from pykernels.errors import ShapeError
from pykernels.layout import Rows, View
from pykernels.plan import Caps, Scratch, Step

__all__ = ["config", "plan"]

# Invocations per row and vectors per invocation, shortest rows first.
CONFIGS = ((8, 1), (32, 1), (32, 4), (256, 4), (256, 16))


def config(cols: int, vec: int) -> tuple[int, int] | None:
    """The first configuration that holds a row in registers."""
    return next(((lanes, n) for lanes, n in CONFIGS if lanes * n * vec >= cols), None)


def plan(
    caps: Caps,
    scratch: Scratch,
    x: View,
    mask: View | None,
    sinks: View | None,
    dst: View,
) -> list[Step]:
    """The dispatches of one softmax."""
    if x.ndim == 0:
        raise ShapeError("[softmax] x must have at least one axis but has none")
    heads = x.shape[-3] if x.ndim >= 3 else 1
    head_rows = x.shape[-2] if x.ndim >= 3 else max(x.size, 1)
    if sinks is not None and sinks.shape != (heads,):
        raise ShapeError(f"[softmax] sinks must have shape ({heads},) but has {sinks.shape}")
    if x.size == 0:
        return []
    x, mask, dst = _spread(x, mask, dst)
    it = Rows(dst.shape, {"x": x, "mask": mask, "dst": dst})
    vec = 4 if it.vec(4) else 1
    found = config(it.cols, vec)
    assert found is not None
    lanes, n = found
    step = body.step(
        caps, x, mask, sinks, dst, LANES=lanes, N=n, head_rows=head_rows, heads=heads,
        alibi_heads=1 << (heads.bit_length() - 1),
    )  # fmt: skip
    return [step]


def _spread(x: View, mask: View | None, dst: View) -> tuple[View, View | None, View]:
    """The mask over the shape of x: where it repeats, an axis is split in two (stride 0 first)."""
    if mask is None:
        return x, None, dst
    mask = mask.as_rank(x.ndim)
    shape: list[int] = []
    steps: list[tuple[int, int, int]] = []
    for n, m, *s in zip(x.shape, mask.shape, x.strides, mask.strides, dst.strides, strict=True):
        sx, sm, sd = s
        if m in (1, n):
            shape.append(n)
            steps.append((sx, sm if m == n else 0, sd))
        else:
            shape += [n // m, m]
            steps += [(m * sx, 0, m * sd), (sx, sm, sd)]
    xs, ms, ds = (tuple(s[i] for s in steps) for i in range(3))
    return x.with_layout(shape, xs), mask.with_layout(shape, ms), dst.with_layout(shape, ds)
