"""Computes rates of tiles from their times: the rates with which a plan would have predicted these
times."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pykernels.plans.attention import select as attention
from pykernels.plans.conv import select as conv
from pykernels.plans.conv import select_weight
from pykernels.plans.cost import tile_of
from pykernels.plans.matmul import select as matmul
from pykernels.steps import Caps
from pykernels.tuning import Tuning, as_data, of_data

from .choices import Question

__all__ = ["calibrated"]

Path = tuple[str, ...]
Known = Callable[[int, Any], float | None]
BUSY = 2  # with fewer workgroups than this on each multiprocessor, a time does not determine a rate


def calibrated(caps: Caps, t: Tuning, questions: Sequence[Question], known: Known) -> Tuning:
    """The table with measured rates; `known(i, choice)` returns the seconds of a choice, or
    None."""
    data = as_data(t)
    found: dict[Path, list[tuple[float, float]]] = {}
    for i, q in enumerate(questions):
        for path, choice, predicted, filled in _predictions(t, q):
            seconds = known(i, choice)
            if seconds is not None and 0 < seconds < math.inf:
                found.setdefault(path, []).append((filled, predicted / seconds))
    data = copy.deepcopy(data)
    for path, ratios in found.items():
        full = [r for filled, r in ratios if filled >= BUSY]
        ratio = statistics.median(full or [r for _, r in ratios])
        at = data
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = float(f"{at[path[-1]] * ratio:.3g}")
    return of_data(t.name, data)


def _predictions(t: Tuning, q: Question) -> Iterator[tuple[Path, Any, float, float]]:
    """For each rate: its keys in the table, a choice whose time it predicts, the predicted seconds,
    and the number of workgroups on each multiprocessor."""
    s, units = q.shape[0], t.device.units
    path: Path
    if q.module is conv:
        for body, form in zip(conv.TILES, s.forms, strict=True):
            tile = tile_of(body)
            if form in t.conv.implicit_gemm.rates[tile]:
                path = ("conv", "implicit_gemm", "rates", tile, form)
                seconds, filled = conv._seconds(t, s, body, 1), conv._tiles(s, body) / units
                yield path, conv.ConvChoice(body), seconds, filled
        for body in conv.TILES_3X3 if s.fits_3x3 else ():
            path = ("conv", "implicit_gemm_3x3", tile_of(body), "rate")
            seconds, filled = conv._seconds(t, s, body, 1), conv._tiles(s, body) / units
            yield path, conv.ConvChoice(body), seconds, filled
    elif q.module is select_weight:
        for tile in select_weight.TILES:
            path = ("conv", "conv2d_backward_weight", "rates", tile)
            for n in (1, 2, 4, 8):
                filled = select_weight._tiles(s, tile) * n / units
                seconds = select_weight._seconds(t, s, tile, n)
                yield path, select_weight.WeightGradChoice(tile, n), seconds, filled
    elif q.module is matmul:
        choice = matmul.GemmChoice(matmul.GEMM)
        filled = matmul._tiles(s, matmul.GEMM) / units
        path = ("matmul", "gemm_tile", "rate")
        yield path, choice, matmul._gemm_seconds(t, s, choice), filled
    elif q.module is attention:
        work = 4 * s.batch * s.heads * s.queries * s.keys * s.depth
        filled = attention._groups(attention.LARGE, s) / units
        seconds = work / t.attention.attention_tile.rate
        path = ("attention", "attention_tile", "rate")
        yield path, attention.AttentionChoice(attention.LARGE), seconds, filled
