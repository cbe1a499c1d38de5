"""Finds the values of a table, one key after the other, so that its choices lose little time.

`Times` gives the time of a choice, measured or modelled. The loss of a table is the mean over
problems of the logarithm of (time of its choice / least time of any choice).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from pykernels.plans.attention import select as attention
from pykernels.plans.conv import select as conv
from pykernels.plans.conv import select_weight
from pykernels.plans.matmul import select as matmul
from pykernels.plans.matmul import select_i8, select_quant
from pykernels.steps import Caps
from pykernels.tuning import Tuning, as_data, named, with_section

from .choices import Question, chosen

__all__ = ["FAMILIES", "Fit", "Times", "Where", "fit", "loss", "losses"]

# For each section of a table, the modules whose questions it answers.
FAMILIES: dict[str, tuple[Any, ...]] = {
    "matmul": (matmul, select_i8, select_quant), "conv": (conv, select_weight),
    "attention": (attention,),
}  # fmt: skip
GAIN = 2e-3  # a value is changed only if the loss falls by more than this
SWEEPS = 3
DESCENTS = 2  # number of the best starts from which the search descends

Data = dict[str, Any]
Path = tuple[str, ...]
# a function of the number of multiprocessors and the old value, which returns the values to try
Values = Callable[[int, Any], Sequence[Any]]


class Times(Protocol):
    """The times of choices; `i` is the number of a question."""

    def seconds(self, i: int, choice: Any) -> float: ...
    def best(self, i: int) -> float: ...


class Where(NamedTuple):
    """A device, its questions, and the times of choices."""

    caps: Caps
    questions: Sequence[Question]
    times: Times


class Fit(NamedTuple):
    """A table, its loss over the questions, and the loss of the first table."""

    tuning: Tuning
    loss: float
    before: float


class Setting(NamedTuple):
    """The values that a key of a family's section may have."""

    path: Path
    values: Values


def _of(*values: Any) -> Values:
    return lambda units, old: values


def _units(*factors: float) -> Values:
    """Candidate numbers of workgroups: a multiple of the multiprocessors; 1 for a device that few
    workgroups keep busy."""
    return lambda units, old: [max(round(f * units), 1) for f in factors]


def _times(*factors: float) -> Values:
    return lambda units, old: [type(old)(f * old) for f in factors]


def _without_each(every: Sequence[str]) -> Values:
    """The lists that have one body more, or one body fewer, than the old list."""
    return lambda units, old: [[b for b in every if (b in old) != (b == other)] for other in every]


_SPLIT = _of(64, 128, 256, 512, 1024)
SETTINGS: dict[str, list[Setting]] = {
    "matmul": [
        Setting(("bodies",), _without_each(
            ("mul_mat/16x64", "mul_mat/32x128", "mul_mat/64", "gemm_tile", "mul_mat_i8/64")
        )),
        Setting(("gemv_rows",), _of(1, 2, 4, 8)),
        Setting(("gemv_area",), _of(0, 256, 512, 2048, 8192, 32768)),
        Setting(("gemv_depth",), _of(0, 8, 22, 64, 256)),
        Setting(("gemv", "busy"), _units(0.5, 1, 2, 4, 8, 16)),
        Setting(("gemv", "busy_rows"), _units(0.5, 1, 2, 4, 8)),
        Setting(("gemv", "shortest"), _of(256, 512, 1024, 2048, 4096)),
        Setting(("gemv", "shortest_rows"), _of(64, 128, 256, 512)),
        Setting(("gemm_tile", "least"), _units(0, 0.25, 0.5, 1, 2, 4)),
        Setting(("gemm_tile", "side"), _of(16, 32, 64, 128)),
        *(Setting(("mul_mat", tile, "least"), _units(0, 0.25, 0.5, 1, 2))
          for tile in ("64", "16x64", "32x128")),
        *(Setting(("mul_mat", tile, "busy"), _units(0, 0.1, 0.5, 1, 2, 4, 8))
          for tile in ("64", "32", "16x64", "32x128")),
        *(Setting(("mul_mat", tile, "shortest"), _SPLIT)
          for tile in ("64", "32", "16x64", "32x128")),
        Setting(("dispatch",), _times(0.25, 0.5, 2, 4)),
        Setting(("gemm_tile", "shortest"), _SPLIT),
        Setting(("gemm_tile", "most"), _of(1, 4, 8, 16)),
        Setting(("gemm_tile", "start_k"), _of(16, 48, 96, 192)),
        Setting(("mma_sum",), _times(0.5, 2)),
        *(Setting(("gemm_mma", tile, key), _times(0.7, 0.85, 1.2, 1.4))
          for tile in ("32x32", "64x64", "64x128", "128x128") for key in ("rate", "start_k")),
        *(Setting(("mul_mat_i8", "tiles", tile, "busy"), _units(0.1, 0.5, 1, 2, 4))
          for tile in ("64", "32")),
        *(Setting(("mul_mat_i8", "tiles", tile, "shortest"), _SPLIT) for tile in ("64", "32")),
        Setting(("mul_mat_i8", "tiles", "64", "least"), _units(0, 0.25, 0.5, 1, 2)),
        Setting(("gemv_i8", "busy"), _units(0.5, 1, 2, 4, 8, 16)),
        Setting(("gemv_i8", "busy_rows"), _units(0.5, 1, 2, 4, 8)),
        Setting(("gemv_i8", "shortest"), _of(256, 1024, 4096)),
        Setting(("gemv_i8", "shortest_rows"), _of(64, 256, 512)),
        *(Setting(("gemm_mma_i8", tile, key), _times(0.7, 0.85, 1.2, 1.4))
          for tile in ("32x32", "128x128") for key in ("rate", "start_k")),
        Setting(("quant", "unpacked_rows"), _of(16, 32, 64, 128, 256, 512, 1 << 20)),
        Setting(("quant", "few_least"), _of(1, 2, 8, 16, 64)),
        Setting(("quant", "few_most"), _of(0, 8, 16, 32)),
        Setting(("quant", "waves"), _of(1, 2, 4)),
        Setting(("quant", "few_shortest"), _of(256, 512, 1024, 2048)),
        Setting(("quant", "mma_shortest"), _of(256, 512, 1024, 2048)),
    ],
    "conv": [
        Setting(("fill",), lambda units, old: [0, *_units(0.25, 0.5, 1, 2)(units, old)]),
        Setting(("bodies",), _without_each(tuple(named("nvidia-h200").conv.bodies))),
        *(Setting(("implicit_gemm", "rates", tile, form), _times(0.7, 0.85, 1.2, 1.4))
          for tile in ("32x32", "64x32", "64x64", "64x128", "128x64", "128x128")
          for form in ("taps", "vec", "any")
          if form in named("nvidia-h200").conv.implicit_gemm.rates[tile]),
        *(Setting(("implicit_gemm_3x3", tile, "rate"), _times(0.7, 0.85, 1.2, 1.4))
          for tile in ("64x96", "64x128")),
        Setting(("implicit_gemm", "busy_invocations"), _of(64, 128, 256, 512, 1024)),
        Setting(("shortest",), _SPLIT),
        Setting(("most",), _of(4, 8, 16, 32)),
        Setting(("dispatch",), _times(0.25, 0.5, 2, 4)),
        Setting(("conv_direct", "rows"), _of(0, 1, 2, 4, 8)),
        Setting(("conv_direct", "depth"), _of(64, 256, 1024)),
        Setting(("conv_stem", "yield_depth"), _of(0, 27, 72, 10000)),
        Setting(("conv_stem", "waves"), _of(1, 2, 4, 8)),
        Setting(("conv2d_backward_weight", "bodies"), _without_each(("64x64", "64x128"))),
        Setting(("conv2d_backward_weight", "waves"), _of(1, 2, 4, 8)),
        *(Setting(("conv2d_backward_weight", "rates", tile), _times(0.7, 1.4))
          for tile in ("32x32", "64x64", "64x128")),
        *(Setting(("implicit_gemm_mma", tile, "rate"), _times(0.7, 0.85, 1.2, 1.4))
          for tile in ("32x32", "64x64", "64x128", "128x128")),
    ],
    "attention": [
        Setting(("bodies",), _without_each(("attention_tile/large",))),
        Setting(("decode", "rows"), _of(2, 4, 8, 16, 32)),
        Setting(("decode", "waves"), _of(1, 2, 4, 8, 16)),
        Setting(("decode", "shortest"), _of(16, 32, 64, 128, 256)),
        *(Setting(("attention_tile", "waves", tile), _of(1, 2, 4, 8))
          for tile in ("32/64", "32/128", "large/64", "large/128")),
        Setting(("attention_tile", "shortest"), _of(64, 128, 256, 512, 1024)),
        Setting(("attention_tile", "large_keys"), _of(128, 256, 512, 1024, 2048)),
        Setting(("attention_tile", "most"), _of(1, 8, 64)),
        Setting(("attention_mma", "d64", "waves"), _of(1, 2, 4)),
        Setting(("attention_mma", "d128", "waves"), _of(1, 2, 4)),
    ],
}  # fmt: skip


def losses(
    caps: Caps, t: Tuning, questions: Sequence[Question], times: Times, family: str = ""
) -> Iterator[float]:
    """The loss of the table's choice for each question: log(its time / the best time)."""
    asked = FAMILIES[family] if family else ()
    for i, q in enumerate(questions):
        if not family or q.module in asked:
            # A logarithm below 0 counts as 0: if the table's choice was not measured, its modelled
            # time can be below the best measured time.
            yield max(math.log(times.seconds(i, chosen(caps, t, q)) / times.best(i)), 0.0)


def loss(
    caps: Caps, t: Tuning, questions: Sequence[Question], times: Times, family: str = ""
) -> float:
    """The mean of `losses`, plus a small share of the largest loss, so that no problem is
    neglected."""
    found = [*losses(caps, t, questions, times, family)]
    return sum(found) / len(found) + 0.05 * max(found) if found else 0.0


def fit(
    where: Sequence[Where], start: Tuning, others: Sequence[Tuning], *, gain: float = GAIN,
    fixed: Sequence[str] = (),
) -> Fit:  # fmt: skip
    """The table with the least loss on these devices. For each family the search starts from the
    DESCENTS best of `start` and the other tables. A value changes only if the loss falls by more
    than `gain`. Keys in `fixed` do not change."""

    def lost(t: Tuning, family: str = "") -> float:
        return sum(loss(w.caps, t, w.questions, w.times, family) for w in where) / len(where)

    found, before = start, lost(start)
    for family in FAMILIES:
        starts = [found, *(replace(found, **{family: getattr(o, family)}) for o in others)]
        ranked = sorted(((lost(t, family), i) for i, t in enumerate(starts)))
        ends = [
            _descended(starts[i], family, lambda t: lost(t, family), gain, fixed)  # noqa: B023
            for _, i in ranked[:DESCENTS]
        ]
        best = min(ends, key=lambda end: end[1])
        if best[1] < ranked[[i for _, i in ranked].index(0)][0] - gain:
            found = best[0]
    return Fit(found, lost(found), before)


def _descended(
    t: Tuning, family: str, lost: Callable[[Tuning], float], gain: float, fixed: Sequence[str]
) -> tuple[Tuning, float]:
    """Change one key after the other as long as the loss falls."""
    units, best = t.device.units, lost(t)
    data: Data = as_data(getattr(t, family))
    settings = [s for s in SETTINGS[family] if s.path[-1] not in fixed]
    for _ in range(SWEEPS if best > gain else 0):
        at_first = best
        for setting in settings:
            old = _get(data, setting.path)
            for value in setting.values(units, old):
                if value == old:
                    continue
                changed = _with(data, setting.path, value)
                tried = with_section(t, family, changed)
                now = lost(tried)
                if now < best - gain:
                    t, data, best = tried, changed, now
        if best > at_first - gain:
            break
    return t, best


def _get(data: Mapping[str, Any], path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def _with(data: Data, path: Path, value: Any) -> Data:
    """A copy of the data with another value at this path."""
    found = copy.copy(data)
    at = found
    for key in path[:-1]:
        at[key] = copy.copy(at[key])
        at = at[key]
    at[path[-1]] = value
    return found
