"""categorical: adds up pieces of each row, then draws."""

from __future__ import annotations

from pykernels._generated.bodies import categorical_rows, categorical_sums
from pykernels.errors import ShapeError
from pykernels.plans.parts import narrow, row_parts
from pykernels.plans.softmax.close import close
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .state import check_state

__all__ = ["THREADS", "piece_of", "plan"]

# invocations of a workgroup, and the most pieces of a row
THREADS = categorical_rows.CONFIGS["pieces256"].threads


def piece_of(cols: int) -> int:
    """The columns of a piece: a multiple of the number of invocations of a workgroup."""
    return cdiv(cdiv(cols, THREADS), THREADS) * THREADS


def plan(
    caps: Caps, scratch: Scratch, logits: View, tokens: View | None, state: View | None, dst: View
) -> list[Step]:
    """Two dispatches for each part that bindings hold; none without rows."""
    check_state("categorical", state)
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ShapeError(
            f"[categorical] logits must have a column or more but have shape {logits.shape}"
        )
    if dst.shape != logits.shape[:-1]:
        raise ShapeError(
            f"[categorical] dst must have shape {logits.shape[:-1]} but has {dst.shape}"
        )
    if tokens is not None and tokens.shape != logits.shape:
        raise ShapeError(
            f"[categorical] tokens must have the shape of logits, {logits.shape}, but have "
            f"{tokens.shape}"
        )
    if dst.size == 0:
        return []
    views = {"logits": logits, "dst": dst.with_layout((*dst.shape, 1), (*dst.strides, 4))}
    if tokens is not None:
        views["tokens"] = tokens
    near, before, after = close(caps, scratch, views)
    own = _steps(caps, scratch, near, state, 0)
    return [*before, *own, *after]


def _steps(
    caps: Caps, scratch: Scratch, views: dict[str, View], state: View | None, first: int
) -> list[Step]:
    """The steps for the rows from number `first` on. The first axis is halved until bindings hold
    the rows, so that the rows of a part are consecutive."""
    logits, dst = views["logits"], views["dst"]
    if len(row_parts(caps, logits.shape, views)) > 1:
        axis, n = next((i, n) for i, n in enumerate(dst.shape[:-1]) if n > 1)
        steps = []
        for at, size in ((0, n // 2), (n // 2, n - n // 2)):
            half = {name: narrow(v, axis, at, size) for name, v in views.items()}
            steps += _steps(caps, scratch, half, state, first + at * (dst.size // n))
        return steps
    cols = logits.shape[-1]
    each = piece_of(cols)
    sizes = {"pieces": cdiv(cols, each), "each": each}
    stats = scratch.empty((dst.size, sizes["pieces"], 2), "float32")
    return [
        categorical_sums.step(caps, logits, stats, **sizes),
        categorical_rows.step(
            caps, logits, views.get("tokens"), stats, state, dst, first=first, **sizes
        ),
    ]
