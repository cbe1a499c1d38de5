"""Finds the keys of a table that do not choose among bodies: numbers that plans of sums, gradients
and copies use.

Each key is measured by itself: some calls are timed with tables that differ only in this key. A
value is taken if it is faster by GAIN on average. Keys come one after the other, so a later key is
measured with the values that were found before.
"""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from pykernels.bench.case import Case
from pykernels.errors import PyKernelsError
from pykernels.forcing import force
from pykernels.tuning import Tuning, as_data, of_data

from .meter import Meter
from .problems import Limits, Problem

__all__ = ["KEYS", "Change", "Key", "Turned", "checked", "measured"]

# The share by which a value must be faster: on a GPU, and on a software driver, whose times other
# programs disturb.
GAIN, SLOW_GAIN = 0.02, 0.1

Path = tuple[str, ...]


@dataclass(frozen=True)
class Turned(Problem):
    """A call with matrices whose columns are contiguous in memory."""

    among: tuple[str, ...] = ()  # the names of these matrices

    @cached_property
    def case(self) -> Case:
        case = super().case
        turned = {n: replace(o, order=(1, 0)) if n in self.among else o
                  for n, o in case.tensors.items()}  # fmt: skip
        return replace(case, tensors=turned)


class Key(NamedTuple):
    """A key, its values, and the calls by which it is judged: on a GPU, and on a software
    driver."""

    path: Path
    values: tuple[Any, ...]
    calls: tuple[Problem, ...]
    small: tuple[Problem, ...]


class Change(NamedTuple):
    """A key that the search changed."""

    path: Path
    before: Any
    after: Any
    gain: float  # how many times faster its calls are

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} {self.before} -> {self.after}: {self.gain:.2f} times faster"


def _calls(*kernels: str, of: tuple[tuple[int, ...], ...], args: Any = ()) -> tuple[Problem, ...]:
    return tuple([Problem(kernel, shape, args=args) for shape in of for kernel in kernels])


_ROWS = ((256, 1024), (8192, 768), (2048, 4096))
_BACKWARD = "flash_attn_backward"
_ATTENDED = ((1, 12, 12, 128, 128, 64), (4, 12, 12, 512, 512, 64), (1, 8, 8, 2048, 2048, 64))
_FEW = ((1, 2, 2, 33, 33, 32), (1, 2, 2, 128, 128, 32))
# Shapes for which most limits of the large tile matter.
_SHORT = ((8, 8, 8, 48, 48, 64), (1, 4, 4, 256, 256, 64), (1, 12, 12, 128, 128, 64))

KEYS = (
    Key(("norm", "groups"), (1, 2, 4, 8, 16),
        _calls("layer_norm_backward", "rms_norm_backward", of=_ROWS),
        _calls("layer_norm_backward", "rms_norm_backward", of=((64, 128), (512, 64)))),
    Key(("reduce", "groups"), (1, 2, 4, 8, 16, 32),
        _calls("sum", of=((16, 1 << 18), (1024, 4096), (3, 1 << 20))),
        _calls("sum", of=((4, 1 << 14), (64, 512)))),
    Key(("softmax", "transpose_lanes"), (4, 8, 16, 32, 64, 128),
        tuple([Turned("softmax", s, among=("x", "dst")) for s in ((1024, 1024), (256, 4096))]),
        (Turned("softmax", (64, 256), among=("x", "dst")),)),
    Key(("copy", "tile_side"), (4, 8, 16, 32, 64),
        tuple([Turned("cpy", s, among=("src",)) for s in ((12, 65536), (48, 4096), (2048, 2048))]),
        (Turned("cpy", (12, 1024), among=("src",)), Turned("cpy", (48, 256), among=("src",)))),
    Key(("conv", "conv2d_backward_bias", "waves"), (1, 2, 4, 8, 16),
        _calls("conv2d_backward_bias", of=((8, 64, 56, 56), (8, 512, 7, 7), (1, 32, 128, 128))),
        _calls("conv2d_backward_bias", of=((2, 8, 28, 28), (1, 32, 14, 14)))),
    Key(("attention", _BACKWARD, "bodies"), ([], ["128"]),
        _calls(_BACKWARD, of=_ATTENDED), _calls(_BACKWARD, of=_FEW)),
    Key(("attention", _BACKWARD, "least_tiles"), (1, 8, 16, 32, 64, 128, 256),
        _calls(_BACKWARD, of=_SHORT), _calls(_BACKWARD, of=_FEW)),
    Key(("attention", _BACKWARD, "least_side"), (16, 32, 64, 128),
        _calls(_BACKWARD, of=_SHORT), _calls(_BACKWARD, of=_FEW)),
    Key(("attention", _BACKWARD, "narrow_groups"), (0, 25, 50, 100, 200),
        _calls(_BACKWARD, of=_ATTENDED), _calls(_BACKWARD, of=_FEW)),
    Key(("attention", _BACKWARD, "side"), (512, 1024, 2048, 4096),
        _calls(_BACKWARD, of=_ATTENDED[1:]), ()),
    Key(("matmul", "quant", "fast_weights"), tuple([1 << n for n in (20, 22, 24, 26, 27, 40)]),
        _calls("mul_mat_quant", of=((1, 1024, 1024), (1, 4096, 4096), (1, 8192, 8192)),
               args=(("precision", "fast"),)),
        _calls("mul_mat_quant", of=((1, 256, 256),), args=(("precision", "fast"),))),
)  # fmt: skip


def measured(
    meter: Meter, t: Tuning, limits: Limits, *, small: bool,
    told: Callable[[str, float], None],
) -> tuple[Tuning, list[Change]]:  # fmt: skip
    """The table with the fastest value of each key, and the keys that changed."""
    found: list[Change] = []
    for i, key in enumerate(KEYS):
        told(".".join(key.path), i / len(KEYS))
        calls = [p for p in (key.small if small else key.calls) if limits.allow(p)]
        old = _get(as_data(t), key.path)
        tables = {_name(v): _with(t, key.path, v) for v in (old, *key.values)}
        times = {n: _times(meter, calls, key.path, n, own) for n, own in tables.items()}
        first = times[_name(old)]
        known = [j for j in range(len(calls)) if all(own[j] for own in times.values())]
        if not known:
            continue
        lost = {n: statistics.mean(math.log(own[j] / first[j]) for j in known)  # type: ignore[operator]
                for n, own in times.items()}  # fmt: skip
        # if values are equally fast, the first is taken, which is the old value
        best = min(lost, key=lambda n: lost[n])
        if lost[best] < math.log(1 - (SLOW_GAIN if meter.slow else GAIN)):
            t = tables[best]
            found.append(Change(key.path, old, _get(as_data(t), key.path), math.exp(-lost[best])))
    return t, found


def checked(meter: Meter, t: Tuning, limits: Limits, *, small: bool, most: float) -> None:
    """Compare the results of the calls with the reference; raises CheckFailed."""
    for p in dict.fromkeys(_all(small)):
        if not limits.allow(p) or p.operations > most:
            continue
        if meter.with_table(p, "found", t) is not None:
            with force(meter.dev, tuning=t):
                meter.loaded(p).check()


def _all(small: bool) -> Iterator[Problem]:
    for key in KEYS:
        yield from key.small if small else key.calls


def _times(
    meter: Meter, calls: list[Problem], path: Path, value: str, t: Tuning
) -> list[float | None]:
    """The seconds of the calls with a table; None for a call that is refused."""
    found: list[float | None] = []
    for p in calls:
        try:
            found.append(meter.with_table(p, f"{'.'.join(path)}={value}", t))
        except PyKernelsError:  # out of memory
            found.append(None)
    return found


def _name(value: Any) -> str:
    return str(value)


def _get(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return list(data) if isinstance(data, tuple) else data


def _with(t: Tuning, path: Path, value: Any) -> Tuning:
    data = copy.deepcopy(as_data(t))
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return of_data(t.name, data)
