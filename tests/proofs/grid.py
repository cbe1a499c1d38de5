"""Every small parameter: functions on shapes of 0 to 4 beside loops of numpy, and their adjoints.

    python -m tests.proofs.grid [NAME ...] [--most 2000] [--seed 0]

For each function all combinations of small windows, strides, pads, dilations, axes, offsets and
shapes are listed; where there are more than `--most`, a seed draws from them. The inputs are small
integers, so sums are exact and any difference is an error. What one side refuses the other must
refuse too, or its reason is listed. A linear function f has the gradient g where dy . f(x) = g . x
for all x: that is asked of each.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np

import pykernels as pk

Case = dict[str, Any]
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Law:
    """A function, its grid, and what numpy gives. `linear` names the arguments that it is linear
    in."""

    cases: Callable[[], Iterator[Case]]
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    linear: Sequence[str] = ()


LAWS: dict[str, Law] = {}


def law(name: str, cases: Callable[[], Iterator[Case]], linear: Sequence[str] = ()) -> Any:
    """The decorated function is numpy's side of `pk.NAME`."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        LAWS[f.__name__] = Law(cases, getattr(pk, name), f, linear)
        return f

    return add


def numbers(shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    return RNG.integers(-4, 5, tuple(shape)).astype(dtype)


def shapes(rank: int, sizes: Sequence[int] = (0, 1, 2, 3, 4)) -> Iterator[tuple[int, ...]]:
    return itertools.product(sizes, repeat=rank)


# -- windows --------------------------------------------------------------------------------------

SIZES, KERNELS, STRIDES, PADS, DILATIONS = (1, 2, 3, 4, 7), (1, 2, 3), (1, 2, 3), (0, 1, 2), (1, 2)


def along() -> list[tuple[int, int, int, int, int]]:
    return list(itertools.product(SIZES, KERNELS, STRIDES, PADS, DILATIONS))


def windows() -> Iterator[tuple[tuple[int, int], ...]]:
    """Sizes, kernels, strides, pads and dilations of both axes."""
    ways = along()
    rng = random.Random(1)
    for a in ways:
        for b in rng.sample(ways, 12):
            yield tuple(zip(a, b, strict=True))


def count(n: int, k: int, s: int, p: int, d: int, ceil: bool = False) -> int:
    reach = n + 2 * p - d * (k - 1) - 1
    out = -(-reach // s) + 1 if ceil else reach // s + 1
    if ceil and (out - 1) * s >= n + p:
        out -= 1
    return out


def taps(i: int, n: int, k: int, s: int, p: int, d: int) -> list[tuple[int, int]]:
    """(tap, place) of the taps of window i that lie inside the axis."""
    return [(t, i * s - p + t * d) for t in range(k) if 0 <= i * s - p + t * d < n]


def pool_cases() -> Iterator[Case]:
    for size, k, s, p, d in windows():
        for ceil in (False, True):
            yield {
                "x": numbers((1, 2, *size)), "kernel_size": k, "stride": s, "padding": p,
                "dilation": d, "ceil_mode": ceil,
            }  # fmt: skip


@law("max_pool2d", pool_cases)
def max_pool2d(
    x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    for k, p, d in zip(kernel_size, padding, dilation, strict=True):
        if 2 * p > d * (k - 1) + 1:
            raise ValueError("a pad above half of the reach")
    args = list(zip(x.shape[2:], kernel_size, stride, padding, dilation, strict=True))
    out = [count(*a, ceil_mode) for a in args]
    if min(out) < 1:
        raise ValueError("empty")
    y = np.full((*x.shape[:2], *out), -np.inf, x.dtype)
    for i, j in np.ndindex(*out):
        for (_, r), (_, c) in itertools.product(taps(i, *args[0]), taps(j, *args[1])):
            y[..., i, j] = np.maximum(y[..., i, j], x[..., r, c])
    return y


def avg_cases() -> Iterator[Case]:
    for size, k, s, p, d in windows():
        if d == (1, 1):
            for ceil, include, divisor in itertools.product(
                (False, True), (False, True), (None, 3)
            ):
                yield {
                    "x": numbers((1, 2, *size)), "kernel_size": k, "stride": s, "padding": p,
                    "ceil_mode": ceil, "count_include_pad": include, "divisor_override": divisor,
                }  # fmt: skip


@law("avg_pool2d", avg_cases, ["x"])
def avg_pool2d(
    x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Any:  # fmt: skip
    args = [(*a, 1) for a in zip(x.shape[2:], kernel_size, stride, padding, strict=True)]
    out = [count(*a, ceil_mode) for a in args]
    if min(out) < 1:
        raise ValueError("empty")
    y = np.zeros((*x.shape[:2], *out), x.dtype)
    for i, j in np.ndindex(*out):
        inside = list(itertools.product(taps(i, *args[0]), taps(j, *args[1])))
        for (_, r), (_, c) in inside:
            y[..., i, j] += x[..., r, c]
        whole = 1
        for at, (n, k, s, p, _) in zip((i, j), args, strict=True):
            whole *= min(at * s - p + k, n + p) - (at * s - p)
        # A window that lies in the pad altogether is 0.
        y[..., i, j] /= divisor_override or (whole if count_include_pad else len(inside)) or 1
    return y


def conv_cases() -> Iterator[Case]:
    rng = random.Random(2)
    for size, k, s, p, d in windows():
        groups, per, outputs = rng.choice(
            [(1, 1, 1), (1, 3, 2), (2, 1, 1), (2, 2, 3), (4, 1, 1), (3, 1, 2)]
        )
        yield {
            "x": numbers((rng.choice((1, 2)), groups * per, *size)),
            "w": numbers((groups * outputs, per, *k)),
            "stride": s, "padding": p, "dilation": d, "groups": groups,
        }  # fmt: skip


@law("conv2d", conv_cases, ["x", "w"])
def conv2d(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    args = list(zip(x.shape[2:], w.shape[2:], stride, padding, dilation, strict=True))
    out = [count(*a) for a in args]
    if min(out) < 1:
        raise ValueError("empty")
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    per, outputs = w.shape[1], w.shape[0] // groups
    for g, i, j in np.ndindex(groups, *out):
        own, mine = slice(g * per, (g + 1) * per), slice(g * outputs, (g + 1) * outputs)
        for (a, r), (b, c) in itertools.product(taps(i, *args[0]), taps(j, *args[1])):
            y[:, mine, i, j] += x[:, own, r, c] @ w[mine, :, a, b].T
    return y


def transpose_cases() -> Iterator[Case]:
    rng = random.Random(3)
    for size, k, s, p, d in windows():
        groups, per, outputs = rng.choice([(1, 1, 1), (1, 3, 2), (2, 1, 1), (2, 2, 3), (3, 1, 2)])
        more = tuple(rng.randrange(max(a, b)) for a, b in zip(s, d, strict=True))
        yield {
            "x": numbers((rng.choice((1, 2)), groups * per, *size)),
            "w": numbers((groups * per, outputs, *k)),
            "stride": s, "padding": p, "output_padding": more, "groups": groups, "dilation": d,
        }  # fmt: skip


@law("conv_transpose2d", transpose_cases, ["x", "w"])
def conv_transpose2d(
    x: Any, w: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Any:
    full = [
        (n - 1) * s - 2 * p + d * (k - 1) + more + 1
        for n, k, s, p, d, more in zip(
            x.shape[2:], w.shape[2:], stride, padding, dilation, output_padding, strict=True
        )
    ]
    if min(full) < 1:
        raise ValueError("empty")
    per, outputs = w.shape[0] // groups, w.shape[1]
    y = np.zeros((x.shape[0], groups * outputs, *full), x.dtype)
    for g, i, j, a, b in np.ndindex(groups, *x.shape[2:], *w.shape[2:]):
        r, c = (
            at * s - p + t * d
            for at, t, s, p, d in zip((i, j), (a, b), stride, padding, dilation, strict=True)
        )
        if 0 <= r < full[0] and 0 <= c < full[1]:
            own, mine = slice(g * per, (g + 1) * per), slice(g * outputs, (g + 1) * outputs)
            y[:, mine, r, c] += x[:, own, i, j] @ w[own, :, a, b]
    return y


def unfold_cases() -> Iterator[Case]:
    for size, k, s, p, d in windows():
        yield {
            "x": numbers((2, 2, *size)),
            "kernel_size": k,
            "dilation": d,
            "padding": p,
            "stride": s,
        }


@law("unfold", unfold_cases, ["x"])
def unfold(x: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    args = list(zip(x.shape[2:], kernel_size, stride, padding, dilation, strict=True))
    out = [count(*a) for a in args]
    if min(out) < 1:
        raise ValueError("empty")
    y = np.zeros((*x.shape[:2], *kernel_size, *out), x.dtype)
    for i, j in np.ndindex(*out):
        for (a, r), (b, c) in itertools.product(taps(i, *args[0]), taps(j, *args[1])):
            y[:, :, a, b, i, j] = x[:, :, r, c]
    return y.reshape(x.shape[0], -1, out[0] * out[1])


def fold_cases() -> Iterator[Case]:
    for size, k, s, p, d in windows():
        out = [count(*a) for a in zip(size, k, s, p, d, strict=True)]
        if min(out) >= 1:
            yield {
                "x": numbers((2, 2 * k[0] * k[1], out[0] * out[1])), "output_size": size,
                "kernel_size": k, "dilation": d, "padding": p, "stride": s,
            }  # fmt: skip


@law("fold", fold_cases, ["x"])
def fold(
    x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    args = list(zip(output_size, kernel_size, stride, padding, dilation, strict=True))
    out = [count(*a) for a in args]
    v = x.reshape(x.shape[0], -1, *kernel_size, *out)
    y = np.zeros((x.shape[0], v.shape[1], *output_size), x.dtype)
    for i, j in np.ndindex(*out):
        for (a, r), (b, c) in itertools.product(taps(i, *args[0]), taps(j, *args[1])):
            y[:, :, r, c] += v[:, :, a, b, i, j]
    return y


# -- volumes --------------------------------------------------------------------------------------


def volumes() -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Sizes, kernels, strides, pads and dilations of three axes."""
    ways = along()
    rng = random.Random(6)
    for a in ways:
        for b, c in zip(rng.sample(ways, 6), rng.sample(ways, 6), strict=True):
            yield tuple(zip(a, b, c, strict=True))  # type: ignore[misc]


def places(
    out: Sequence[int], args: Sequence[tuple[int, ...]]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """(place of the output, tap, place of the input) of all taps inside the input."""
    for at in np.ndindex(*out):
        inside = [taps(i, *a) for i, a in zip(at, args, strict=True)]  # type: ignore[call-arg]
        for found in itertools.product(*inside):
            yield at, tuple(t for t, _ in found), tuple(x for _, x in found)


def conv3d_cases() -> Iterator[Case]:
    rng = random.Random(7)
    for size, k, s, p, d in volumes():
        groups, per, outputs = rng.choice([(1, 1, 1), (1, 3, 2), (2, 1, 1), (2, 2, 3)])
        yield {
            "x": numbers((rng.choice((1, 2)), groups * per, *size)),
            "w": numbers((groups * outputs, per, *k)),
            "stride": s, "padding": p, "dilation": d, "groups": groups,
        }  # fmt: skip


@law("conv3d", conv3d_cases, ["x", "w"])
def conv3d(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    args = list(zip(x.shape[2:], w.shape[2:], stride, padding, dilation, strict=True))
    out = [count(*a) for a in args]
    if min(out) < 1:
        raise ValueError("empty")
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    per, outputs = w.shape[1], w.shape[0] // groups
    for at, tap, place in places(out, args):
        for g in range(groups):
            own, mine = slice(g * per, (g + 1) * per), slice(g * outputs, (g + 1) * outputs)
            y[:, mine, *at] += x[:, own, *place] @ w[mine, :, *tap].T
    return y


def transpose3d_cases() -> Iterator[Case]:
    rng = random.Random(8)
    for size, k, s, p, d in volumes():
        groups, per, outputs = rng.choice([(1, 1, 1), (1, 3, 2), (2, 1, 1), (2, 2, 3)])
        more = tuple(rng.randrange(max(a, b)) for a, b in zip(s, d, strict=True))
        yield {
            "x": numbers((rng.choice((1, 2)), groups * per, *size)),
            "w": numbers((groups * per, outputs, *k)),
            "stride": s, "padding": p, "output_padding": more, "groups": groups, "dilation": d,
        }  # fmt: skip


@law("conv_transpose3d", transpose3d_cases, ["x", "w"])
def conv_transpose3d(
    x: Any, w: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Any:
    ways = list(
        zip(x.shape[2:], w.shape[2:], stride, padding, dilation, output_padding, strict=True)
    )
    full = [(n - 1) * s - 2 * p + d * (k - 1) + more + 1 for n, k, s, p, d, more in ways]
    if min(full) < 1:
        raise ValueError("empty")
    per, outputs = w.shape[0] // groups, w.shape[1]
    y = np.zeros((x.shape[0], groups * outputs, *full), x.dtype)
    for at in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*w.shape[2:]):
            place = [
                i * s - p + t * d for i, t, (_, _, s, p, d, _) in zip(at, tap, ways, strict=True)
            ]
            if all(0 <= i < n for i, n in zip(place, full, strict=True)):
                for g in range(groups):
                    own = slice(g * per, (g + 1) * per)
                    mine = slice(g * outputs, (g + 1) * outputs)
                    y[:, mine, *place] += x[:, own, *at] @ w[own, :, *tap]
    return y


def pool3d_cases() -> Iterator[Case]:
    for size, k, s, p, d in volumes():
        yield {
            "x": numbers((1, 2, *size)), "kernel_size": k, "stride": s, "padding": p, "dilation": d,
        }  # fmt: skip


@law("max_pool3d", pool3d_cases)
def max_pool3d(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    for k, p, d in zip(kernel_size, padding, dilation, strict=True):
        if 2 * p > d * (k - 1) + 1:
            raise ValueError("a pad above half of the reach")
    args = list(zip(x.shape[2:], kernel_size, stride, padding, dilation, strict=True))
    out = [count(*a) for a in args]
    if min(out) < 1:
        raise ValueError("empty")
    y = np.full((*x.shape[:2], *out), -np.inf, x.dtype)
    for at, _, place in places(out, args):
        y[..., *at] = np.maximum(y[..., *at], x[..., *place])
    return y


def mean3d_cases() -> Iterator[Case]:
    for size, k, s, p, d in volumes():
        if d == (1, 1, 1):
            for include in (False, True):
                yield {
                    "x": numbers((1, 2, *size)), "kernel_size": k, "stride": s, "padding": p,
                    "count_include_pad": include,
                }  # fmt: skip


@law("avg_pool3d", mean3d_cases, ["x"])
def avg_pool3d(x: Any, kernel_size: Any, stride: Any, padding: Any, count_include_pad: bool) -> Any:
    args = [(*a, 1) for a in zip(x.shape[2:], kernel_size, stride, padding, strict=True)]
    out = [count(*a) for a in args]
    if min(out) < 1:
        raise ValueError("empty")
    y = np.zeros((*x.shape[:2], *out), x.dtype)
    seen = np.zeros(out, x.dtype)
    for at, _, place in places(out, args):
        y[..., *at] += x[..., *place]
        seen[at] += 1
    return y / (np.prod(kernel_size) if count_include_pad else np.maximum(seen, 1))


# -- moves ----------------------------------------------------------------------------------------


def ranked(*ranks: int) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(shapes(r) for r in ranks)


def axes_of(rank: int) -> Iterator[Any]:
    yield None
    for n in range(rank + 1):
        yield from itertools.combinations(range(rank), n)
    yield from range(-rank, rank)


def pad_cases() -> Iterator[Case]:
    ends = list(itertools.product((0, 1, 2, 4), repeat=2))
    rng = random.Random(5)
    for shape in ranked(1, 2, 3):
        widths = [(w,) for w in ends] if len(shape) == 1 else []
        while len(widths) < 16:
            widths.append(tuple(rng.choice(ends) for _ in shape))
        for width in widths:
            for mode in ("constant", "edge", "reflect", "wrap"):
                yield {"x": numbers(shape), "pad_width": width, "mode": mode}


@law("pad", pad_cases, ["x"])
def pad(x: Any, pad_width: Any, mode: str) -> Any:
    return np.pad(x, pad_width, mode)


def roll_cases() -> Iterator[Case]:
    for shape in ranked(1, 2, 3):
        for axis in axes_of(len(shape)):
            for shift in (-5, -1, 0, 1, 2, 7):
                if axis != ():
                    yield {"x": numbers(shape), "shift": shift, "axis": axis}


@law("roll", roll_cases, ["x"])
def roll(x: Any, shift: int, axis: Any) -> Any:
    return np.roll(x, shift, axis)


def axis_cases(also_tuples: bool = True) -> Callable[[], Iterator[Case]]:
    def cases() -> Iterator[Case]:
        for shape in ranked(0, 1, 2, 3):
            for axis in axes_of(len(shape)):
                if also_tuples or not isinstance(axis, tuple):
                    yield {"x": numbers(shape), "axis": axis}

    return cases


@law("flip", axis_cases(), ["x"])
def flip(x: Any, axis: Any) -> Any:
    return np.flip(x, axis)


@law("cumsum", axis_cases(False), ["x"])
def cumsum(x: Any, axis: Any) -> Any:
    return np.cumsum(x, axis)


def kept(cases: Callable[[], Iterator[Case]]) -> Callable[[], Iterator[Case]]:
    return lambda: ({**case, "keepdims": k} for case in cases() for k in (False, True))


def reduction(name: str, linear: Sequence[str] = (), tuples: bool = True) -> None:
    def f(x: Any, axis: Any, keepdims: bool) -> Any:
        return getattr(np, name)(x, axis=axis, keepdims=keepdims)

    LAWS[name] = Law(kept(axis_cases(tuples)), getattr(pk, name), f, linear)


for _name in ("sum", "mean"):
    reduction(_name, ["x"])
for _name in ("prod", "max", "min", "any", "all"):
    reduction(_name)
for _name in ("argmax", "argmin"):
    reduction(_name, tuples=False)


def sort_cases() -> Iterator[Case]:
    for case in axis_cases(False)():
        yield {**case, "descending": False}
        yield {**case, "descending": True}


@law("sort", sort_cases)
def sort(x: Any, axis: Any, descending: bool) -> Any:
    y = np.sort(x, axis)
    return np.flip(y, -1 if axis is None else axis) if descending else y


@law("argsort", sort_cases)
def argsort(x: Any, axis: Any, descending: bool) -> Any:
    return np.argsort(-x if descending else x, axis, kind="stable").astype(np.int32)


def diagonal_cases() -> Iterator[Case]:
    for shape in ranked(2, 3):
        for k in range(-5, 6):
            yield {"x": numbers(shape), "k": k}


@law("tril", diagonal_cases, ["x"])
def tril(x: Any, k: int) -> Any:
    return np.tril(x, k)


@law("triu", diagonal_cases, ["x"])
def triu(x: Any, k: int) -> Any:
    return np.triu(x, k)


def diag_cases() -> Iterator[Case]:
    for shape in ranked(1, 2):
        for k in range(-5, 6):
            yield {"x": numbers(shape), "k": k}


@law("diag", diag_cases, ["x"])
def diag(x: Any, k: int) -> Any:
    return np.diag(x, k)


def tile_cases() -> Iterator[Case]:
    for shape in ranked(0, 1, 2, 3):
        for n in range(4):
            for reps in itertools.product((0, 1, 2, 3), repeat=n):
                yield {"x": numbers(shape), "reps": reps}


@law("tile", tile_cases, ["x"])
def tile(x: Any, reps: Any) -> Any:
    return np.tile(x, reps)


def repeat_cases() -> Iterator[Case]:
    for case in axis_cases(False)():
        for n in range(4):
            yield {**case, "repeats": n}


@law("repeat", repeat_cases, ["x"])
def repeat(x: Any, repeats: int, axis: Any) -> Any:
    return np.repeat(x, repeats, axis)


def concatenate_cases() -> Iterator[Case]:
    rng = random.Random(4)
    for shape in ranked(1, 2, 3):
        for axis in (None, *range(-len(shape), len(shape))):
            for n in (1, 2, 3, 9):
                parts = []
                for _ in range(n):
                    own = list(shape)
                    if axis is not None:
                        own[axis] = rng.randrange(4)
                    parts.append(numbers(own))
                yield {"x": parts, "axis": axis}


@law("concatenate", concatenate_cases)
def concatenate(x: Any, axis: Any) -> Any:
    return np.concatenate(x, axis)


def matmul_cases() -> Iterator[Case]:
    batches: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), ()), ((2,), ()), ((), (3,)), ((2,), (2,)), ((2, 1), (3,)), ((0,), (1,)),
        ((1, 3), (2, 1)),
    ]  # fmt: skip
    for m, k, n in itertools.product((0, 1, 2, 3, 4, 5, 17), repeat=3):
        for a, b in batches:
            yield {"a": numbers((*a, m, k)), "b": numbers((*b, k, n))}
        yield {"a": numbers((k,)), "b": numbers((k, n))}
        yield {"a": numbers((m, k)), "b": numbers((k,))}


@law("matmul", matmul_cases, ["a", "b"])
def matmul(a: Any, b: Any) -> Any:
    return np.matmul(a, b)


def take_cases() -> Iterator[Case]:
    for shape in ranked(1, 2, 3):
        for axis in range(-len(shape), len(shape)):
            for n in (0, 1, 3):
                own = list(shape)
                own[axis] = n
                if shape[axis]:
                    index = RNG.integers(-shape[axis], shape[axis], own).astype(np.int32)
                    yield {"x": numbers(shape), "indices": index, "axis": axis}


@law("take_along_axis", take_cases, ["x"])
def take_along_axis(x: Any, indices: Any, axis: int) -> Any:
    return np.take_along_axis(x, indices, axis)


def slice_cases() -> Iterator[Case]:
    ends = (None, -5, -2, -1, 0, 1, 3, 6)
    for n in range(5):
        for start, stop, step in itertools.product(ends, ends, (None, -3, -1, 1, 2)):
            yield {"x": numbers((n, 3)), "s": slice(start, stop, step)}
            yield {"x": numbers((2, n)), "s": (slice(None), slice(start, stop, step))}


LAWS["slices"] = Law(slice_cases, lambda x, s: x[s].copy(), lambda x, s: x[s], ["x"])


# -- the comparison -------------------------------------------------------------------------------


@dataclass
class Outcome:
    right: int = 0
    refused: int = 0
    adjoint: int = 0
    wrong: list[str] = field(default_factory=list)
    only: Counter[str] = field(default_factory=Counter)


def _on(dev: pk.Device, value: Any) -> Any:
    if isinstance(value, list):
        return [_on(dev, v) for v in value]
    return dev.tensor(value) if isinstance(value, np.ndarray) else value


def _shown(case: Case) -> str:
    def one(v: Any) -> str:
        if isinstance(v, list):
            return f"[{', '.join(map(one, v))}]"
        return f"{v.dtype}{v.shape}" if isinstance(v, np.ndarray) else repr(v)

    return ", ".join(f"{k}={one(v)}" for k, v in case.items())


def _arguments(name: str, case: Case) -> tuple[list[Any], Case]:
    return ([case[k] for k in case], {}) if name in ("slices", "concatenate") else ([], case)


def sampled(name: str, most: int, seed: int) -> tuple[list[Case], int]:
    """At most so many cases of a law, and how many it has."""
    cases = list(LAWS[name].cases())
    return (random.Random(seed).sample(cases, most) if len(cases) > most else cases), len(cases)


def compare(dev: pk.Device, name: str, case: Case, seen: Outcome) -> None:
    """Ask both sides about one case, and count what they said."""
    rule = LAWS[name]
    given = {k: _on(dev, v) for k, v in case.items()}
    want: Any = None
    refused = ""
    try:
        with np.errstate(all="ignore"):
            want = np.asarray(rule.numpy(**case))
    except (ValueError, IndexError) as e:
        refused = str(e) or type(e).__name__
    args, named = _arguments(name, given)
    try:
        with pk.Tape() as tape:
            got = rule.ours(*args, **named)
        value = got.numpy()
    except (pk.PyKernelsError, ValueError, TypeError) as e:
        seen.refused += bool(refused)
        if not refused:
            seen.only[f"ours refuses: {e}"[:150]] += 1
        return
    if refused:
        seen.only[f"numpy refuses: {refused}"[:150]] += 1
        return
    # Means of integers are rounded once; all else is exact.
    if value.shape != want.shape or not np.allclose(value, want, 1e-6, 1e-6, equal_nan=True):
        seen.wrong.append(f"{name}({_shown(case)}): {value.tolist()} for {want.tolist()}")
        return
    seen.right += 1
    if not rule.linear or not want.size or not np.isfinite(want).all():
        return
    dy = numbers(want.shape)
    sources = [given[k] for k in rule.linear]
    gradients = tape.gradient(got, sources, dev.tensor(dy), unused="zeros")
    total = float((dy.astype(np.float64) * want).sum())
    for k, g in zip(rule.linear, gradients, strict=True):
        mine = g.numpy().astype(np.float64)
        if mine.shape != case[k].shape or abs((mine * case[k]).sum() - total) > 1e-4 * (
            1 + abs(dy * want).sum()
        ):
            seen.wrong.append(f"gradient of {name} by {k} ({_shown(case)})")
            return
    seen.adjoint += 1


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--most", default=2000)
@click.option("--seed", default=0)
def main(names: Sequence[str], most: int, seed: int) -> None:
    wrong = 0
    with pk.Device() as dev:
        for name in names or LAWS:
            seen = Outcome()
            cases, listed = sampled(name, most, seed)
            for case in cases:
                compare(dev, name, case, seen)
            wrong += len(seen.wrong)
            print(
                f"{name}: {len(cases)} of {listed} cases: {seen.right} right, "
                f"{seen.refused} refused by both, {seen.adjoint} adjoints, {len(seen.wrong)} wrong"
            )
            for line in seen.wrong[:5]:
                print("   WRONG", line)
            for reason, n in seen.only.most_common(4):
                print(f"   {n}: {reason}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
