"""Calls that pykernels and torch both have: for each function samples of arguments.

    for sample in samples("roll", seed):  sample.ours(pk, *tensors)   sample.theirs(torch, *tensors)

A row says how torch spells the call, and which arguments a seed draws. EXEMPT names the functions
without a row and why they have none.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pykernels.reference.elementwise import OPS

__all__ = ["EXEMPT", "ROWS", "Draw", "Sample", "samples"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    arrays: tuple[Array, ...]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    said: str


class Draw:
    """What a seed draws."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(self.rng.randrange(1 << 32))
        self.dtype = self.rng.choice(["float32", "float32", "float16"])

    def shape(
        self, least: int = 0, most: int = 4, sizes: Sequence[int] = (1, 2, 3, 5, 8, 17)
    ) -> tuple[int, ...]:
        return tuple(self.rng.choice(sizes) for _ in range(self.rng.randint(least, most)))

    def array(self, *shape: int, low: float = -4, high: float = 4, dtype: str = "") -> Array:
        """Numbers, sometimes in another order in memory."""
        x = self.numbers.uniform(low, high, shape).astype(dtype or self.dtype)
        if len(shape) > 1 and self.rng.random() < 0.4:
            x = np.ascontiguousarray(x.T).T
        return x

    def ints(self, below: int, *shape: int, least: int = 0) -> Array:
        return self.numbers.integers(least, below, shape).astype(np.int32)

    def axis(self, ndim: int) -> int:
        return self.rng.randrange(-ndim, ndim)

    def yes(self) -> bool:
        return self.rng.random() < 0.5

    def of(self, *values: Any) -> Any:
        return self.rng.choice(values)


Made = tuple[tuple[Array, ...], Callable[..., Any], Callable[..., Any]]
ROWS: dict[str, Callable[[Draw], Made]] = {}


def row(*names: str) -> Any:
    """The decorated function draws a call of these functions: (arrays, ours, theirs)."""

    def add(f: Callable[..., Made]) -> Any:
        for name in names:
            ROWS[name] = (lambda d, n=name: f(d, n)) if f.__code__.co_argcount == 2 else f
        return f

    return add


def samples(name: str, count: int, seed: int) -> Iterator[Sample]:
    for number in range(count):
        arrays, ours, theirs = ROWS[name](Draw(f"{name}/{seed}/{number}"))
        shapes = ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in arrays)
        yield Sample(arrays, ours, theirs, f"{name} {number}: {shapes}")


# -- elementwise ----------------------------------------------------------------------------------

# torch's name, where it is another one.
SPELLED = {
    "gelu_tanh": lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
    "gelu_quick": lambda t, x: x * t.sigmoid(1.702 * x),
    "power": "pow", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "equal": "eq", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "reglu": lambda t, a, b: a * t.relu(b),
    "swiglu": lambda t, a, b: a * t.nn.functional.silu(b),
    "geglu": lambda t, a, b: a * t.nn.functional.gelu(b),
    "prelu": lambda t, a, b: t.where(a >= 0, a, a * b), "mod": "remainder",
    "floor_divide": lambda t, a, b: t.floor(a / b) if a.is_floating_point() else a // b,
    "around": "round", "rint": "round", "invert": "bitwise_not", "bitwise_invert": "bitwise_not",
    "bitwise_left_shift": "bitwise_left_shift", "arctan2": "atan2",
}  # fmt: skip


def torch_function(torch: Any, name: str) -> Any:
    """torch's function of this name, in torch or in torch.nn.functional."""
    spelled = SPELLED.get(name, name)
    if callable(spelled):
        return lambda *x, **named: spelled(torch, *x, **named)
    for module in (torch.nn.functional, torch, torch.special):
        if spelled and hasattr(module, spelled):
            return getattr(module, spelled)
    return None


def _elementwise(d: Draw, name: str) -> Made:
    op = OPS[ALIASES.get(name, name)]
    kinds = [k for k in ("float32", "float16", "int32", "bool") if k in op.dtypes]
    dtype = d.of(*kinds)
    shape = d.shape()
    arrays = []
    for n, input_ in enumerate(op.inputs):
        own = shape
        if n and d.yes():  # broadcast
            own = tuple(1 if d.rng.random() < 0.4 else s for s in shape)[
                d.rng.randrange(len(shape) + 1) :
            ]
        if input_ in op.conditions or dtype == "bool":
            arrays.append(d.numbers.random(own) < 0.5)
            continue
        low, high = op.domain[n - len(op.conditions) * (n >= len(op.conditions))]
        low, high = max(low, -20.0), min(high, 20.0)
        x = d.array(*own, low=low, high=high, dtype="float64")
        if dtype == "int32":
            x = np.round(x)
            if n and name in ("remainder", "mod", "fmod", "floor_divide"):
                x = np.where(x == 0, 3, x)
            if (
                name in ("left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift")
                and n
            ):
                x = np.abs(x)
            if name in ("pow", "power"):
                x = np.abs(x) % 4
        arrays.append(x.astype(dtype))
    return (
        tuple(arrays),
        lambda pk, *x: getattr(pk, name)(*x),
        lambda torch, *x: torch_function(torch, name)(*x),
    )


ALIASES = {alias: op.name for op in OPS.values() for alias in op.aliases}
for _name in (*(n for n, op in OPS.items() if op.public), *ALIASES):
    if SPELLED.get(_name, "") is not None:
        ROWS[_name] = lambda d, n=_name: _elementwise(d, n)


@row("isclose")
def _isclose(d: Draw) -> Made:
    x = d.array(4, 5, dtype="float32")
    y = np.where(d.numbers.random((4, 5)) < 0.5, x, x + 1).astype("f4")
    return (x, y), lambda pk, a, b: pk.isclose(a, b), lambda t, a, b: t.isclose(a, b)


@row("clip", "clamp")
def _clip(d: Draw, name: str) -> Made:
    low, high = d.of(None, -1.5), d.of(0.5, 2)
    return (
        (d.array(*d.shape()),), lambda pk, x: getattr(pk, name)(x, low, high),
        lambda t, x: t.clamp(x, low, high),
    )  # fmt: skip


# -- reductions -----------------------------------------------------------------------------------


@row("sum", "mean", "prod", "max", "min", "any", "all", "logsumexp", "count_nonzero", "norm")
def _reduction(d: Draw, name: str) -> Made:
    shape = d.shape(1)
    keep = d.yes()
    axes = d.of(None, d.axis(len(shape)), tuple(range(len(shape)))[-2:])
    x = d.array(*shape, low=-2, high=2)
    if name in ("any", "all", "count_nonzero"):
        x = d.numbers.random(shape) < (0.9 if name == "all" else 0.2)
    full = tuple(range(len(shape))) if axes is None else axes

    def theirs(t: Any, x: Any) -> Any:
        if name in ("sum", "mean", "logsumexp"):
            return getattr(t, name)(x, full, keepdim=keep)
        if name in ("max", "min"):
            return getattr(t, f"a{name}")(x, full, keepdim=keep)
        if name == "norm":
            return t.linalg.vector_norm(x, dim=full, keepdim=keep)
        many = (full,) if isinstance(full, int) else full
        for axis in sorted((a % len(shape) for a in many), reverse=True):
            if name == "count_nonzero":
                x = (
                    (x != 0).sum(axis, keepdim=True)
                    if x.dtype == t.bool
                    else x.sum(axis, keepdim=True)
                )
            else:
                x = getattr(t, name)(x, axis, keepdim=True)
        return x if keep else x.squeeze(tuple(a % len(shape) for a in many))

    return (x,), lambda pk, x: getattr(pk, name)(x, axes, keepdims=keep), theirs


@row("var", "std")
def _var(d: Draw, name: str) -> Made:
    shape, keep, by = d.shape(1, 4, (2, 3, 5, 9)), d.yes(), d.of(0, 1)
    axis = d.axis(len(shape))
    return (
        (d.array(*shape),), lambda pk, x: getattr(pk, name)(x, axis, keepdims=keep, ddof=by),
        lambda t, x: getattr(t, name)(x, axis, correction=by, keepdim=keep),
    )  # fmt: skip


@row("argmax", "argmin")
def _arg(d: Draw, name: str) -> Made:
    shape, keep = d.shape(1), d.yes()
    axis = d.axis(len(shape))
    x = d.numbers.permutation(int(np.prod(shape))).reshape(shape).astype("f4")
    return (
        (x,), lambda pk, x: getattr(pk, name)(x, axis, keepdims=keep),
        lambda t, x: getattr(t, name)(x, axis, keepdim=keep),
    )  # fmt: skip


@row("cumsum", "cumprod")
def _scan(d: Draw, name: str) -> Made:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    return (
        (d.array(*shape, low=-1.5, high=1.5),), lambda pk, x: getattr(pk, name)(x, axis),
        lambda t, x: getattr(t, name)(x, axis),
    )  # fmt: skip


@row("quantile")
def _quantile(d: Draw) -> Made:
    shape, q = d.shape(1), d.of(0.0, 0.25, 0.5, 0.9, 1.0)
    axis = d.axis(len(shape))
    return (
        (d.array(*shape, dtype="float32"),), lambda pk, x: pk.quantile(x, q, axis),
        lambda t, x: t.quantile(x, q, axis),
    )  # fmt: skip


# -- shapes ---------------------------------------------------------------------------------------


def _one(ours: Callable[..., Any], theirs: Callable[..., Any], x: Array) -> Made:
    return (x,), ours, theirs


@row("flip")
def _flip(d: Draw) -> Made:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    return _one(lambda pk, x: pk.flip(x, axis), lambda t, x: t.flip(x, (axis,)), d.array(*shape))


@row("roll")
def _roll(d: Draw) -> Made:
    shape, by = d.shape(1), d.rng.randint(-9, 9)
    axis = d.axis(len(shape))
    return _one(
        lambda pk, x: pk.roll(x, by, axis), lambda t, x: t.roll(x, by, axis), d.array(*shape)
    )


@row("permute")
def _permute(d: Draw) -> Made:
    shape = d.shape(1)
    order = d.rng.sample(range(len(shape)), len(shape))
    return _one(
        lambda pk, x: pk.permute(x, order), lambda t, x: t.permute(x, order), d.array(*shape)
    )


@row("moveaxis", "swapaxes")
def _moved(d: Draw, name: str) -> Made:
    shape = d.shape(1)
    a, b = d.axis(len(shape)), d.axis(len(shape))
    return _one(
        lambda pk, x: getattr(pk, name)(x, a, b),
        lambda t, x: getattr(t, name)(x, a, b),
        d.array(*shape),
    )


@row("squeeze", "unsqueeze", "expand_dims", "flatten")
def _axes(d: Draw, name: str) -> Made:
    shape = d.shape(1, 4, (1, 1, 2, 3))
    axis = d.axis(len(shape))
    if name == "squeeze":
        shape = tuple(1 if n == axis % len(shape) else s for n, s in enumerate(shape))
    given = () if name == "flatten" else (axis,)
    spelled = {"expand_dims": "unsqueeze"}.get(name, name)
    return _one(
        lambda pk, x: getattr(pk, name)(x, *given),
        lambda t, x: getattr(t, spelled)(x, *given), d.array(*shape),
    )  # fmt: skip


@row("expand", "broadcast_to", "tile")
def _repeated(d: Draw, name: str) -> Made:
    shape = d.shape(1, 3, (1, 1, 4))
    if name == "tile":
        to = tuple(d.rng.randint(1, 3) for _ in shape)
        return _one(lambda pk, x: pk.tile(x, to), lambda t, x: t.tile(x, to), d.array(*shape))
    to = (2, *(5 if s == 1 else s for s in shape))
    return _one(
        lambda pk, x: getattr(pk, name)(x, to), lambda t, x: t.broadcast_to(x, to), d.array(*shape)
    )


@row("repeat")
def _repeat(d: Draw) -> Made:
    shape, n = d.shape(1), d.rng.randint(1, 4)
    axis = d.axis(len(shape))
    return _one(
        lambda pk, x: pk.repeat(x, n, axis),
        lambda t, x: t.repeat_interleave(x, n, axis),
        d.array(*shape),
    )


@row("cat", "concatenate", "stack")
def _joined(d: Draw, name: str) -> Made:
    shape = d.shape(1)
    axis = d.axis(len(shape))
    arrays = tuple(d.array(*shape) for _ in range(d.rng.randint(1, 4)))
    spelled = "stack" if name == "stack" else "cat"
    return (
        arrays, lambda pk, *x: getattr(pk, name)(list(x), axis),
        lambda t, *x: getattr(t, spelled)(list(x), axis),
    )  # fmt: skip


@row("split", "chunk")
def _parted(d: Draw, name: str) -> Made:
    shape, n = d.shape(1, 3, (4, 8, 12)), d.of(1, 2, 4)
    axis = d.axis(len(shape))
    return _one(
        lambda pk, x: list(getattr(pk, name)(x, n, axis)),
        lambda t, x: list(t.tensor_split(x, n, axis) if name == "split" else t.chunk(x, n, axis)),
        d.array(*shape),
    )  # fmt: skip


@row("diag", "tril", "triu")
def _triangle(d: Draw, name: str) -> Made:
    k = d.rng.randint(-3, 3)
    shape = (d.of(1, 4, 7),) if name == "diag" and d.yes() else (d.of(3, 5), d.of(4, 6))
    return _one(
        lambda pk, x: getattr(pk, name)(x, k), lambda t, x: getattr(t, name)(x, k), d.array(*shape)
    )


@row("diagonal")
def _diagonal(d: Draw) -> Made:
    k = d.rng.randint(-2, 2)
    a, b = d.rng.sample(range(3), 2)
    return _one(
        lambda pk, x: pk.diagonal(x, k, a, b), lambda t, x: t.diagonal(x, k, a, b), d.array(4, 5, 6)
    )


@row("meshgrid")
def _meshgrid(d: Draw) -> Made:
    how = d.of("xy", "ij")
    return (
        (d.array(3), d.array(5)), lambda pk, *x: list(pk.meshgrid(*x, indexing=how)),
        lambda t, *x: list(t.meshgrid(*x, indexing=how)),
    )  # fmt: skip


@row("pixel_shuffle", "pixel_unshuffle")
def _pixels(d: Draw, name: str) -> Made:
    r = d.of(1, 2, 3)
    shape = (2, 2 * r * r, 3, 5) if name == "pixel_shuffle" else (2, 3, 3 * r, 2 * r)
    return _one(
        lambda pk, x: getattr(pk, name)(x, r),
        lambda t, x: getattr(t.nn.functional, name)(x, r), d.array(*shape),
    )  # fmt: skip


@row("pad")
def _pad(d: Draw) -> Made:
    mode = d.of("constant", "reflect", "edge")
    width = [(d.rng.randint(0, 3), d.rng.randint(0, 3)) for _ in range(2)]
    flat = [n for pair in reversed(width) for n in pair]
    spelled = {"edge": "replicate"}.get(mode, mode)
    return _one(
        lambda pk, x: pk.pad(x, [(0, 0), (0, 0), *width], mode),
        lambda t, x: t.nn.functional.pad(x, flat, spelled), d.array(2, 3, 5, 6),
    )  # fmt: skip


@row("unfold", "fold")
def _unfold(d: Draw, name: str) -> Made:
    named = {"dilation": d.of(1, 2), "padding": d.of(0, 1), "stride": d.of(1, 2)}
    if name == "unfold":
        return _one(
            lambda pk, x: pk.unfold(x, (3, 2), **named),
            lambda t, x: t.nn.functional.unfold(x, (3, 2), **named), d.array(2, 3, 8, 9),
        )  # fmt: skip
    h, w = (
        (n + 2 * named["padding"] - named["dilation"] * (k - 1) - 1) // named["stride"] + 1
        for n, k in ((8, 3), (9, 2))
    )
    return _one(
        lambda pk, x: pk.fold(x, (8, 9), (3, 2), **named),
        lambda t, x: t.nn.functional.fold(x, (8, 9), (3, 2), **named), d.array(2, 3 * 6, h * w),
    )  # fmt: skip


# -- indices --------------------------------------------------------------------------------------


@row("gather", "take_along_axis", "scatter", "scatter_add")
def _along(d: Draw, name: str) -> Made:
    shape = d.shape(1, 3, (3, 5, 8))
    axis = d.axis(len(shape))
    n = shape[axis]
    x = d.array(*shape)
    index = np.argsort(d.numbers.random(shape), axis).astype(np.int32)  # each place once
    if name in ("gather", "take_along_axis", "scatter_add"):
        index = index % max(n - 1, 1)
    if name == "gather":
        return (
            (x, index),
            lambda pk, x, i: pk.gather(x, axis, i),
            lambda t, x, i: t.gather(x, axis, i.long()),
        )
    if name == "take_along_axis":
        return (
            (x, index), lambda pk, x, i: pk.take_along_axis(x, i, axis),
            lambda t, x, i: t.take_along_dim(x, i.long(), axis),
        )  # fmt: skip
    return (
        (x, index, d.array(*shape)), lambda pk, x, i, s: getattr(pk, name)(x, axis, i, s),
        lambda t, x, i, s: getattr(t, name)(x, axis, i.long(), s),
    )  # fmt: skip


@row("index_select", "embedding")
def _select(d: Draw, name: str) -> Made:
    axis, index = d.axis(3), d.ints(4, 6)
    x = d.array(4, 4, 4)
    if name == "embedding":
        return (
            (d.array(7, 5), d.ints(7, 2, 3)), lambda pk, w, i: pk.embedding(w, i),
            lambda t, w, i: t.nn.functional.embedding(i.long(), w),
        )  # fmt: skip
    return (
        (x, index), lambda pk, x, i: pk.index_select(x, axis, i),
        lambda t, x, i: t.index_select(x, axis, i.long()),
    )  # fmt: skip


@row("masked_fill", "masked_select")
def _masked(d: Draw, name: str) -> Made:
    shape = d.shape(1)
    given = (2.5,) if name == "masked_fill" else ()
    return (
        (d.array(*shape), d.numbers.random(shape) < 0.4),
        lambda pk, x, m: getattr(pk, name)(x, m, *given),
        lambda t, x, m: getattr(t, name)(x, m, *given),
    )  # fmt: skip


@row("sort", "argsort", "topk", "top_k")
def _sorted(d: Draw, name: str) -> Made:
    shape = d.shape(1)
    axis, down = d.axis(len(shape)), d.yes()
    x = d.numbers.permutation(int(np.prod(shape))).reshape(shape).astype("f4")
    if name in ("topk", "top_k"):
        k = d.rng.randint(1, shape[axis])
        return _one(
            lambda pk, x: list(getattr(pk, name)(x, k, axis, largest=down)),
            lambda t, x: list(t.topk(x, k, axis, largest=down)), x,
        )  # fmt: skip
    return _one(
        lambda pk, x: getattr(pk, name)(x, axis, descending=down),
        lambda t, x: t.sort(x, dim=axis, descending=down)[name == "argsort"], x,
    )  # fmt: skip


@row("searchsorted")
def _searchsorted(d: Draw) -> Made:
    side = d.of("left", "right")
    return (
        (np.sort(d.ints(9, 20)), d.ints(11, 3, 7, least=-1)),
        lambda pk, s, v: pk.searchsorted(s, v, side),
        lambda t, s, v: t.searchsorted(s, v, side=side),
    )  # fmt: skip


@row("bincount", "one_hot", "nonzero", "unique")
def _counted(d: Draw, name: str) -> Made:
    x = d.ints(6, *((d.of(1, 30, 300),) if name != "nonzero" else (4, 7)))
    if name == "nonzero":
        x = x % 2

    def theirs(t: Any, x: Any) -> Any:
        x = x.long()
        if name == "one_hot":
            return t.nn.functional.one_hot(x, 6)
        if name == "nonzero":
            return t.nonzero(x)
        return t.unique(x) if name == "unique" else t.bincount(x, minlength=8)

    named = {"one_hot": {"num_classes": 6}, "bincount": {"minlength": 8}}.get(name, {})

    def ours(pk: Any, x: Any) -> Any:
        found = getattr(pk, name)(x, **named)
        return pk.stack(list(found), 1) if isinstance(found, tuple) else found

    return _one(ours, theirs, x)


# -- networks -------------------------------------------------------------------------------------


@row("softmax", "log_softmax", "glu")
def _softmax(d: Draw, name: str) -> Made:
    shape = d.shape(1, 4, (2, 4, 18))
    axis = d.axis(len(shape))
    return _one(
        lambda pk, x: getattr(pk, name)(x, axis),
        lambda t, x: getattr(t.nn.functional, name)(x, dim=axis), d.array(*shape),
    )  # fmt: skip


@row("layer_norm", "rms_norm")
def _layer_norm(d: Draw, name: str) -> Made:
    shape = d.shape(2, 4, (2, 3, 8, 33))
    own = shape[-d.rng.randint(1, 2) :]
    weights = tuple(
        d.array(*own) for _ in range(d.of(0, 1, 2) if name == "layer_norm" else d.of(0, 1))
    )
    return (
        (d.array(*shape), *weights), lambda pk, x, *w: getattr(pk, name)(x, own, *w, eps=1e-5),
        lambda t, x, *w: getattr(t.nn.functional, name)(x, own, *w, eps=1e-5),
    )  # fmt: skip


@row("group_norm", "instance_norm", "batch_norm", "local_response_norm")
def _norms(d: Draw, name: str) -> Made:
    x = d.array(3, 6, *d.of((5,), (4, 3)))
    if name == "local_response_norm":
        size = d.of(1, 2, 3, 5)
        return _one(
            lambda pk, x: pk.local_response_norm(x, size),
            lambda t, x: t.nn.functional.local_response_norm(x, size), x,
        )  # fmt: skip
    w, b = d.array(6), d.array(6)
    if name == "batch_norm":
        return (
            (x, d.array(6, dtype="float32"), d.array(6, low=0.5, dtype="float32"), w, b),
            lambda pk, x, m, v, w, b: pk.batch_norm(x, m, v, w, b),
            lambda t, x, m, v, w, b: t.nn.functional.batch_norm(x, m, v, w, b),
        )  # fmt: skip
    if name == "instance_norm":
        return (
            (x, w, b), lambda pk, x, w, b: pk.instance_norm(x, weight=w, bias=b),
            lambda t, x, w, b: t.nn.functional.instance_norm(x, weight=w, bias=b),
        )  # fmt: skip
    groups = d.of(1, 2, 3, 6)
    return (
        (x, w, b), lambda pk, x, w, b: pk.group_norm(x, groups, w, b),
        lambda t, x, w, b: t.nn.functional.group_norm(x, groups, w, b),
    )  # fmt: skip


@row("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv(d: Draw, name: str) -> Made:
    n, groups = int(name[-2]), d.of(1, 1, 2)
    transposed = "transpose" in name
    image = tuple(d.of(5, 6, 9) for _ in range(n))
    taps = tuple(d.of(1, 2, 3) for _ in range(n))
    named = {"stride": d.of(1, 2), "padding": d.of(0, 1), "dilation": d.of(1, 2), "groups": groups}
    named["padding"] = min(named["padding"], min(taps) // 2)
    w = d.array(4, 6 // groups, *taps) if transposed else d.array(6, 4 // groups, *taps)
    arrays = (d.array(2, 4, *image), w, *((d.array(6),) if d.yes() else ()))
    return (
        arrays, lambda pk, *x: getattr(pk, name)(*x, **named),
        lambda t, *x: getattr(t.nn.functional, name)(*x, **named),
    )  # fmt: skip


@row("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d")
def _pool(d: Draw, name: str) -> Made:
    n = int(name[-2])
    image, taps = tuple(d.of(5, 6, 9) for _ in range(n)), d.of(1, 2, 3)
    named: dict[str, Any] = {"stride": d.of(1, 2, None), "padding": d.rng.randint(0, taps // 2)}
    if name.startswith("avg"):
        named["count_include_pad"] = d.yes()
    else:
        named["dilation"] = d.of(1, 2)
    if n < 3:
        named["ceil_mode"] = d.yes()
    return _one(
        lambda pk, x: getattr(pk, name)(x, taps, **named),
        lambda t, x: getattr(t.nn.functional, name)(x, taps, **named), d.array(2, 3, *image),
    )  # fmt: skip


@row("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d")
def _adaptive(d: Draw, name: str) -> Made:
    n = int(name[-2])
    image, to = (tuple(d.of(*sizes) for _ in range(n)) for sizes in ((4, 7, 9), (1, 2, 3, 4)))
    size: Any = to[0] if n == 1 else to
    return _one(
        lambda pk, x: getattr(pk, name)(x, size),
        lambda t, x: getattr(t.nn.functional, name)(x, size), d.array(2, 3, *image),
    )  # fmt: skip


@row("interpolate")
def _interpolate(d: Draw) -> Made:
    mode = d.of("nearest", "bilinear", "bicubic")
    size = (d.of(3, 7, 12), d.of(4, 9))
    named = {} if mode == "nearest" else {"align_corners": d.yes()}
    return _one(
        lambda pk, x: pk.interpolate(x, size, mode=mode, **named),
        lambda t, x: t.nn.functional.interpolate(x, size, mode=mode, **named), d.array(2, 3, 6, 5),
    )  # fmt: skip


@row("grid_sample")
def _grid_sample(d: Draw) -> Made:
    named = {
        "mode": d.of("bilinear", "nearest"), "align_corners": d.yes(),
        "padding_mode": d.of("zeros", "border", "reflection"),
    }  # fmt: skip
    grid = d.array(2, 4, 5, 2, low=-1.4, high=1.4, dtype="float32")
    return (
        (d.array(2, 3, 6, 7, dtype="float32"), grid), lambda pk, *x: pk.grid_sample(*x, **named),
        lambda t, *x: t.nn.functional.grid_sample(*x, **named),
    )  # fmt: skip


@row("linear", "matmul", "dot", "tensordot", "einsum")
def _products(d: Draw, name: str) -> Made:
    m, n, k = d.of(1, 5, 33), d.of(1, 4, 20), d.of(1, 7, 64)
    if name == "linear":
        arrays = (d.array(2, m, k), d.array(n, k), *((d.array(n),) if d.yes() else ()))
        return arrays, lambda pk, *x: pk.linear(*x), lambda t, *x: t.nn.functional.linear(*x)
    if name == "dot":
        return (d.array(k), d.array(k)), lambda pk, *x: pk.dot(*x), lambda t, *x: t.dot(*x)
    if name == "tensordot":
        return (
            (d.array(m, 3, k), d.array(3, k, n)), lambda pk, *x: pk.tensordot(*x, axes=2),
            lambda t, *x: t.tensordot(*x, dims=2),
        )  # fmt: skip
    if name == "einsum":
        text = d.of("bmk,bkn->bmn", "bmk,bkn->nm", "bmk,bkn->b")
        return (
            (d.array(2, m, k), d.array(2, k, n)), lambda pk, *x: pk.einsum(text, *x),
            lambda t, *x: t.einsum(text, *x),
        )  # fmt: skip
    left, right = d.of(
        ((m, k), (k, n)), ((3, m, k), (k, n)), ((3, 1, m, k), (2, k, n)), ((k,), (k, n))
    )
    return (
        (d.array(*left), d.array(*right)),
        lambda pk, *x: pk.matmul(*x),
        lambda t, *x: t.matmul(*x),
    )


@row("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy",
     "binary_cross_entropy_with_logits")  # fmt: skip
def _losses(d: Draw, name: str) -> Made:
    shape, how = d.shape(1), d.of("mean", "sum", "none")
    unit = name in ("binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
    low, high = (0.05, 0.95) if unit else (-3, 3)
    return (
        (d.array(*shape, low=low, high=high), d.array(*shape, low=low, high=high)),
        lambda pk, *x: getattr(pk, name)(*x, reduction=how),
        lambda t, *x: getattr(t.nn.functional, name)(*x, reduction=how),
    )  # fmt: skip


@row("cross_entropy", "nll_loss")
def _class_losses(d: Draw, name: str) -> Made:
    n, c, how = d.of(1, 5, 40), d.of(2, 7, 33), d.of("mean", "sum", "none")
    named = {"label_smoothing": d.of(0.0, 0.1)} if name == "cross_entropy" else {}
    target = d.ints(c, n)
    target[:1] = -100 if n > 1 and d.yes() else target[0]
    weights = (d.array(c, low=0.1),) if d.yes() else ()
    return (
        (d.array(n, c), target, *weights),
        lambda pk, x, y, *w: getattr(pk, name)(x, y, *w, reduction=how, **named),
        lambda t, x, y, *w: getattr(t.nn.functional, name)(x, y.long(), *w, reduction=how, **named),
    )  # fmt: skip


@row("cosine_similarity")
def _cosine(d: Draw) -> Made:
    shape = d.shape(1, 3, (2, 3, 8))
    axis = d.axis(len(shape))
    return (
        (d.array(*shape), d.array(*shape)), lambda pk, *x: pk.cosine_similarity(*x, dim=axis),
        lambda t, *x: t.nn.functional.cosine_similarity(*x, dim=axis),
    )  # fmt: skip


@row("scaled_dot_product_attention")
def _attention(d: Draw) -> Made:
    q, k, depth = d.of(1, 5, 17), d.of(1, 7, 40), d.of(8, 16, 24)
    causal = d.yes() and q == k
    arrays = (d.array(2, 3, q, depth), d.array(2, 3, k, depth), d.array(2, 3, k, depth))
    return (
        arrays, lambda pk, *x: pk.scaled_dot_product_attention(*x, is_causal=causal),
        lambda t, *x: t.nn.functional.scaled_dot_product_attention(*x, is_causal=causal),
    )  # fmt: skip


@row("rnn_cell", "gru_cell", "lstm_cell")
def _cells(d: Draw, name: str) -> Made:
    n, size, out = d.of(1, 4), d.of(3, 8), d.of(2, 6)
    gates = {"rnn_cell": 1, "gru_cell": 3, "lstm_cell": 4}[name] * out
    sizes = ((n, size), (n, out), (gates, size), (gates, out), (gates,), (gates,))
    arrays = tuple(d.array(*s, low=-1, high=1, dtype="float32") for s in sizes)
    if name == "lstm_cell":
        c = d.array(n, out, dtype="float32")
        return (
            (*arrays, c), lambda pk, x, h, *w: list(pk.lstm_cell(x, (h, w[-1]), *w[:-1])),
            lambda t, x, h, *w: list(t.lstm_cell(x, (h, w[-1]), *w[:-1])),
        )  # fmt: skip
    spelled = {"rnn_cell": "rnn_tanh_cell"}.get(name, name)
    return (arrays, lambda pk, *x: getattr(pk, name)(*x), lambda t, *x: getattr(t, spelled)(*x))


@row("solve_triangular")
def _triangular(d: Draw) -> Made:
    upper, n = d.yes(), d.of(1, 4, 9)
    a = d.array(n, n, dtype="float32") / n + 3 * np.eye(n, dtype="f4")
    a = np.triu(a) if upper else np.tril(a)
    return (
        (a, d.array(n, 3, dtype="float32")),
        lambda pk, a, b: pk.solve_triangular(a, b, upper=upper),
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=upper),
    )  # fmt: skip


@row("cholesky")
def _cholesky(d: Draw) -> Made:
    upper, n = d.yes(), d.of(1, 4, 9)
    a = d.array(n, n, dtype="float32")
    a = a @ a.T + np.eye(n, dtype="f4")
    return (
        (a,),
        lambda pk, a: pk.cholesky(a, upper=upper),
        lambda t, a: t.linalg.cholesky(a, upper=upper),
    )


@row("cholesky_solve")
def _cholesky_solve(d: Draw) -> Made:
    upper, n = d.yes(), d.of(1, 4, 9)
    a = d.array(n, n, dtype="float32") / n + 3 * np.eye(n, dtype="f4")
    a = np.triu(a) if upper else np.tril(a)
    return (
        (d.array(n, 3, dtype="float32"), a),
        lambda pk, b, a: pk.cholesky_solve(b, a, upper=upper),
        lambda t, b, a: t.cholesky_solve(b, a, upper=upper),
    )


def _systems(d: Draw, n: int) -> Any:
    """Invertible, with rows in another order."""
    a = d.array(*[2] * d.yes(), n, n, dtype="float32") / n + 3 * np.eye(n, dtype="f4")
    return np.roll(a, 1, -2)


@row("solve")
def _solve(d: Draw) -> Made:
    n = d.of(1, 4, 9)
    b = d.array(*([n] if d.yes() else [n, 3]), dtype="float32")
    return (
        (_systems(d, n), b), lambda pk, a, b: pk.solve(a, b),
        lambda t, a, b: t.linalg.solve(a, b.expand(*a.shape[:-1]) if b.ndim == 1 else b),
    )  # fmt: skip


@row("lu_factor")
def _lu_factor(d: Draw) -> Made:
    def torchs(t: Any, a: Any) -> Any:
        lu, pivots = t.linalg.lu_factor(a)
        return [lu, pivots - 1]

    return (_systems(d, d.of(1, 4, 9)),), lambda pk, a: list(pk.lu_factor(a)), torchs


@row("inv", "det")
def _of_a_matrix(d: Draw, name: str) -> Made:
    return (
        (_systems(d, d.of(1, 4, 9)),), lambda pk, a: getattr(pk, name)(a),
        lambda t, a: getattr(t.linalg, name)(a),
    )  # fmt: skip


@row("slogdet")
def _slogdet(d: Draw) -> Made:
    return (
        (_systems(d, d.of(1, 4, 9)),), lambda pk, a: list(pk.slogdet(a)),
        lambda t, a: list(t.linalg.slogdet(a)),
    )  # fmt: skip


# -- the rest -------------------------------------------------------------------------------------

EXEMPT = {
    "memory and devices":
        "asarray astype copy copyto default_device empty empty_like fill from_dlpack full "
        "full_like list_adapters memset narrow ones ones_like tensor zeros zeros_like supports "
        "stop_gradient flatten_parameters load_kernels raw_kernel arange linspace eye allclose",
    "other numbers for the same seed":
        "bernoulli categorical dropout dropout_mask kaiming_normal kaiming_uniform manual_seed "
        "rand rand_like randint randn randn_like random_state randperm xavier_normal "
        "xavier_uniform",
    "derivatives: tests/gradients compares them":
        "adaptive_avg_pool2d_backward adaptive_max_pool2d_backward autocast avg_pool2d_backward "
        "check_gradients checkpoint conv1d_backward_bias conv1d_backward_input "
        "conv1d_backward_weight conv2d_backward_bias conv2d_backward_input conv2d_backward_weight "
        "cross_entropy_backward custom_gradient embedding_backward flash_attn_backward grad "
        "hessian hvp jacobian jvp l2_norm_backward layer_norm_backward max_pool2d_backward no_grad "
        "rms_norm_backward softmax_backward value_and_grad vjp",
    "steps of optimisers: tests/kernels/optim compares them":
        "adam_step adamw_step clip_grad_norm clip_grad_value sgd_step",
    "complex numbers: tests/kernels/fft compares them with numpy":
        "angle complex conj conjugate imag real view_as_complex view_as_real",
    "torch has no such function":
        "add_layer_norm add_rms_norm csr_matmul diag_mask_inf diag_mask_zero dequantize "
        "elementwise expert_linear flash_attn gated_delta_net gated_linear_attn get_rel_pos "
        "get_rows l2_norm quantize reduction resize rwkv6 rwkv7 ssm_scan "
        "rms_norm_linear rope rope_append rope_table scaled_matmul set_rows timestep_embedding "
        "win_part win_unpart histogram",
    "another rule: numpy's median is the mean of two": "median",
    "in torchvision: the files of tests/kernels/resize compare them with references":
        "deform_conv2d nms roi_align",
    "stored values of torch: tests/gradients/torch":
        "ctc_loss gru lstm rnn max_unpool1d max_unpool2d",
}  # fmt: skip
