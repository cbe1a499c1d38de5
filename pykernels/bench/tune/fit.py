"""Finds the values of a table with which its choices lose least: one key after the other.

What a choice takes is asked of `Times`, measured or modelled. The loss of a table is the mean over
problems of the logarithm of (time of its choice / least time of any choice).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pykernels.plans.attention import select as attention
from pykernels.plans.conv import select as conv
from pykernels.plans.conv import select_weight
from pykernels.plans.matmul import select as matmul
from pykernels.steps import Caps
from pykernels.tuning import Tuning, as_data, named, of_data

from .choices import Question, chosen

__all__ = ["FAMILIES", "Fit", "Times", "fit", "loss", "losses"]

# A section of a table, and the questions that it answers.
FAMILIES: dict[str, tuple[Any, ...]] = {
    "matmul": (matmul,), "conv": (conv, select_weight), "attention": (attention,),
}  # fmt: skip
GAIN = 2e-3  # of the loss, that a change must bring at the least
SWEEPS = 3

Data = dict[str, Any]
Path = tuple[str, ...]


class Times(Protocol):
    """What choices take; `i` is the number of a question."""

    def seconds(self, i: int, choice: Any) -> float: ...
    def best(self, i: int) -> float: ...


class Fit(NamedTuple):
    """A table, its loss over the questions, and that of the table that it began with."""

    tuning: Tuning
    loss: float
    before: float


class Setting(NamedTuple):
    """Values that a key may have, given the data of a table."""

    path: Path
    values: Callable[[Data, Any], Sequence[Any]]


def _of(*values: Any) -> Callable[[Data, Any], Sequence[Any]]:
    return lambda data, old: values


def _units(*factors: float) -> Callable[[Data, Any], Sequence[Any]]:
    """So many for each unit of the device."""
    return lambda data, old: [max(round(f * data["device"]["units"]), 1) for f in factors]


def _times(*factors: float) -> Callable[[Data, Any], Sequence[Any]]:
    return lambda data, old: [type(old)(f * old) for f in factors]


def _without_each(every: Sequence[str]) -> Callable[[Data, Any], Sequence[Any]]:
    """With one more, and with one fewer."""
    return lambda data, old: [
        [b for b in every if (b in old) != (b == other)] for other in every
    ]


_SPLIT = _of(64, 128, 256, 512, 1024)
SETTINGS: dict[str, list[Setting]] = {
    "matmul": [
        Setting(("bodies",), _without_each(("mul_mat/64", "gemm_tile"))),
        Setting(("gemv_rows",), _of(1, 2, 4, 8)),
        Setting(("gemv_area",), _of(0, 256, 512, 2048, 8192, 32768)),
        Setting(("gemv_depth",), _of(0, 8, 22, 64, 256)),
        Setting(("gemv", "busy"), _units(0.5, 1, 2, 4, 8, 16)),
        Setting(("gemv", "busy_rows"), _units(0.5, 1, 2, 4, 8)),
        Setting(("gemv", "shortest"), _of(256, 512, 1024, 2048, 4096)),
        Setting(("gemv", "shortest_rows"), _of(64, 128, 256, 512)),
        Setting(("gemm_tile", "least"), _units(0.25, 0.5, 1, 2, 4)),
        Setting(("gemm_tile", "side"), _of(16, 32, 64, 128)),
        Setting(("mul_mat", "64", "least"), _units(0, 0.25, 0.5, 1, 2)),
        Setting(("mul_mat", "64", "busy"), _units(0.5, 1, 2, 4)),
        Setting(("mul_mat", "64", "shortest"), _SPLIT),
        Setting(("mul_mat", "32", "busy"), _units(0.5, 1, 2, 4)),
        Setting(("mul_mat", "32", "shortest"), _SPLIT),
        Setting(("dispatch",), _times(0.25, 0.5, 2, 4)),
        Setting(("gemm_tile", "shortest"), _SPLIT),
        Setting(("gemm_tile", "most"), _of(1, 4, 8, 16)),
        Setting(("gemm_tile", "start_k"), _of(16, 48, 96, 192)),
        Setting(("mma_sum",), _times(0.5, 2)),
        *(Setting(("gemm_mma", tile, key), _times(0.7, 0.85, 1.2, 1.4))
          for tile in ("32x32", "64x64", "64x128", "128x128") for key in ("rate", "start_k")),
    ],
    "conv": [
        Setting(("fill",), lambda data, old: [0, *_units(0.25, 0.5, 1, 2)(data, old)]),
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
    """What each choice loses, as the logarithm of how many times the best it takes."""
    asked = FAMILIES[family] if family else ()
    for i, q in enumerate(questions):
        if not family or q.module in asked:
            yield math.log(times.seconds(i, chosen(caps, t, q)) / times.best(i))


def loss(
    caps: Caps, t: Tuning, questions: Sequence[Question], times: Times, family: str = ""
) -> float:
    """The mean of `losses`, and a little of the largest, so that no problem is given up."""
    found = [*losses(caps, t, questions, times, family)]
    return sum(found) / len(found) + 0.05 * max(found) if found else 0.0


def fit(
    where: Sequence[tuple[Caps, Sequence[Question], Times]], start: Tuning, others: Sequence[str],
    told: Callable[[str], None] = lambda family: None, sweeps: int = SWEEPS,
) -> Fit:  # fmt: skip
    """The table of least loss on these devices, beginning with `start` or, family by family, with
    what another table says where that loses less."""

    def lost(data: Data, family: str = "") -> float:
        t = of_data(start.name, data)
        found = [loss(caps, t, qs, times, family) for caps, qs, times in where]
        return sum(found) / len(found)

    data: Data = as_data(start)
    before = lost(data)
    for family in FAMILIES:
        told(family)
        best = lost(data, family)
        for name in others:
            tried = {**data, family: as_data(getattr(named(name), family))}
            found = lost(tried, family)
            if found < best - GAIN:
                data, best = tried, found
        for _ in range(sweeps if best > GAIN else 0):
            at_first = best
            for setting in SETTINGS[family]:
                for value in setting.values(data, _get(data, (family, *setting.path))):
                    tried = _with(data, (family, *setting.path), value)
                    found = lost(tried, family)
                    if found < best - GAIN:
                        data, best = tried, found
            if best > at_first - GAIN:
                break
    after = lost(data)
    if after > before:
        return Fit(start, before, before)
    return Fit(of_data(start.name, data), after, before)


def _get(data: Mapping[str, Any], path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def _with(data: Data, path: Path, value: Any) -> Data:
    """The data with another value."""
    found = copy.copy(data)
    at = found
    for key in path[:-1]:
        at[key] = copy.copy(at[key])
        at = at[key]
    at[path[-1]] = value
    return found
