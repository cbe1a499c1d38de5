"""Calls whose gradients are compared with torch's, three and more of each kind.

A case is (name, ours, torch's, inputs, others): `ours` and `torch's` take the inputs, whose
gradients are asked for, then the others. `make_operations.py` keeps torch's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
ROWS = {
    "neg": "neg", "abs": "abs", "sign": "sign", "square": "square", "reciprocal": "reciprocal",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "sin": "sin", "cos": "cos", "tan": "tan",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "erf": "erf",
    "floor": "floor", "ceil": "ceil", "round": "round", "trunc": "trunc", "relu": "relu",
    "sigmoid": "sigmoid", "silu": "nn.functional.silu", "gelu": "nn.functional.gelu",
    "logsigmoid": "nn.functional.logsigmoid", "mish": "nn.functional.mish",
    "softsign": "nn.functional.softsign", "hardsigmoid": "nn.functional.hardsigmoid",
    "hardswish": "nn.functional.hardswish", "selu": "nn.functional.selu",
    "leaky_relu": "nn.functional.leaky_relu", "elu": "nn.functional.elu",
    "celu": "nn.functional.celu", "hardtanh": "nn.functional.hardtanh",
    "softplus": "nn.functional.softplus",
}  # fmt: skip
POSITIVE = {"sqrt": "sqrt", "rsqrt": "rsqrt", "log": "log", "log2": "log2", "log10": "log10",
            "log1p": "log1p"}  # fmt: skip
SMALL = {"asin": "asin", "acos": "acos", "atanh": "atanh"}
TWO = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "minimum": "minimum",
    "maximum": "maximum", "atan2": "atan2", "remainder": "remainder", "fmod": "fmod",
}  # fmt: skip


class Call(NamedTuple):
    name: str
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    inputs: tuple[Array, ...]
    others: tuple[Array, ...] = ()


def calls(pk: Any, torch: Any) -> Iterator[Call]:
    """All cases; where one of the modules is None, its functions are not called."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return rng.normal(0, 1, shape).astype(np.float32)

    def points(low: float, high: float, *shape: int) -> Array:
        return rng.uniform(low, high, shape).astype(np.float32)

    yield from _rows(pk, torch, rng)
    for axis in (None, 0, (0, 2)):
        x = normal(3, 2, 4)
        axes = (0, 1, 2) if axis is None else axis
        yield Call("sum", lambda t, a=axis: pk.sum(t, a), lambda t, a=axes: t.sum(a), (x,))
        yield Call("mean", lambda t, a=axis: pk.mean(t, a), lambda t, a=axes: t.mean(a), (x,))
        yield Call("max", lambda t, a=axis: pk.max(t, a), lambda t, a=axes: t.amax(a), (x.round(),))
        yield Call("min", lambda t, a=axis: pk.min(t, a), lambda t, a=axes: t.amin(a), (x.round(),))
        yield Call("var", lambda t, a=axis: pk.var(t, a, ddof=1), lambda t, a=axes: t.var(a), (x,))
        yield Call("std", lambda t, a=axis: pk.std(t, a), lambda t, a=axes: t.std(a, correction=0),
                   (x,))  # fmt: skip
        yield Call("norm", lambda t, a=axis: pk.norm(t, a),
                   lambda t, a=axes: torch.linalg.vector_norm(t, 2, a), (x,))  # fmt: skip
        yield Call("logsumexp", lambda t, a=axis: pk.logsumexp(t, a),
                   lambda t, a=axes: t.logsumexp(a), (x,))  # fmt: skip
    for axis in (0, 1, 2):
        x = normal(3, 2, 4)
        x[0, 1, 2] = x[1, 0, 1] = x[1, 1, 1] = 0
        for name in ("prod", "cumsum", "cumprod"):
            yield Call(name, lambda t, n=name, a=axis: getattr(pk, n)(t, a),
                       lambda t, n=name, a=axis: getattr(t, n)(a), (x,))  # fmt: skip
        y = normal(3, 2, 4)
        yield Call("softmax", lambda t, a=axis: pk.softmax(t, a), lambda t, a=axis: t.softmax(a),
                   (y,))  # fmt: skip
        yield Call("log_softmax", lambda t, a=axis: pk.log_softmax(t, a),
                   lambda t, a=axis: t.log_softmax(a), (y,))  # fmt: skip
        yield Call("sort", lambda t, a=axis: pk.sort(t, a), lambda t, a=axis: t.sort(a).values,
                   (y,))  # fmt: skip
        yield Call("top_k", lambda t, a=axis: pk.top_k(t, 2, a)[0],
                   lambda t, a=axis: t.topk(2, a).values, (y,))  # fmt: skip
        yield Call("flip", lambda t, a=axis: pk.flip(t, a), lambda t, a=axis: t.flip(a), (y,))
        index = rng.integers(0, y.shape[axis], (2, 2, 2)).astype(np.int64)
        yield Call("gather", lambda t, i, a=axis: pk.gather(t, a, i),
                   lambda t, i, a=axis: t.gather(a, i), (y,), (index,))  # fmt: skip
        yield Call("scatter_add", lambda t, s, i, a=axis: pk.scatter_add(t, a, i, s),
                   lambda t, s, i, a=axis: t.scatter_add(a, i, s), (y, normal(2, 2, 2)), (index,)
                   )  # fmt: skip
        place = rng.permuted(np.tile(np.arange(2)[:, None, None], (1, 2, 2)), axis=0)
        place = np.moveaxis(place, 0, axis)
        yield Call("scatter", lambda t, s, i, a=axis: pk.scatter(t, a, i, s),
                   lambda t, s, i, a=axis: t.scatter(a, i, s), (y, normal(2, 2, 2)), (place,)
                   )  # fmt: skip
        rows = rng.integers(0, y.shape[axis], 5).astype(np.int64)
        yield Call("index_select", lambda t, i, a=axis: pk.index_select(t, a, i),
                   lambda t, i, a=axis: t.index_select(a, i), (y,), (rows,))  # fmt: skip
    for shape in ((4,), (2, 3), (2, 1, 2)):
        index = rng.integers(0, 5, shape).astype(np.int64)
        yield Call("embedding", lambda w, i: pk.embedding(w, i),
                   lambda w, i: torch.nn.functional.embedding(i, w), (normal(5, 3),), (index,)
                   )  # fmt: skip
    for k in (-1, 0, 2):
        yield Call("tril", lambda t, k=k: pk.tril(t, k), lambda t, k=k: t.tril(k), (normal(3, 4),))
        yield Call("triu", lambda t, k=k: pk.triu(t, k), lambda t, k=k: t.triu(k), (normal(3, 4),))
        yield Call("diagonal", lambda t, k=k: pk.diagonal(t, k), lambda t, k=k: t.diagonal(k),
                   (normal(3, 4),))  # fmt: skip
    for mode in ("constant", "reflect", "replicate", "circular"):
        for wide in ((1, 2), (2, 0), (0, 3)):
            yield Call(f"pad {mode}", lambda t, m=mode, w=wide: pk.pad(t, ((0, 0), w), mode=m),
                       lambda t, m=mode, w=wide: torch.nn.functional.pad(t, w, m), (normal(2, 4),)
                       )  # fmt: skip
    yield from _moved(pk, torch, normal)
    yield from _products(pk, torch, normal)
    yield from _images(pk, torch, normal)
    low, high = points(-0.5, 0, 4), points(0.1, 0.5, 4)
    for x in (normal(3, 4), np.array([[-1, 1, 0, 2]], np.float32), normal(4)):
        yield Call("clamp", lambda t: pk.clamp(t, -1, 1), lambda t: t.clamp(-1, 1), (x,))
        yield Call("clamp by tensors", lambda t, a, b: pk.clamp(t, a, b),
                   lambda t, a, b: t.clamp(a, b), (x, low, high))  # fmt: skip
        yield Call("median", lambda t: pk.median(t[..., :3], -1),
                   lambda t: t[..., :3].median(-1).values, (x,))  # fmt: skip


def _moved(pk: Any, torch: Any, normal: Callable[..., Array]) -> Iterator[Call]:
    """Joined and repeated, and rows with arguments of their own."""
    for axis in (0, 1, -1):
        pair = normal(2, 3, 2), normal(2, 3, 2)
        for name in ("concatenate", "stack"):
            yield Call(name, lambda a, b, n=name, k=axis: getattr(pk, n)([a, b], k),
                       lambda a, b, n=name, k=axis: getattr(torch, n)([a, b], k), pair)  # fmt: skip
        yield Call("roll", lambda t, k=axis: pk.roll(t, 2, k),
                   lambda t, k=axis: t.roll(2, k), pair[:1])  # fmt: skip
        yield Call("repeat", lambda t, k=axis: pk.repeat(t, 3, k),
                   lambda t, k=axis: t.repeat_interleave(3, k), pair[:1])  # fmt: skip
        reps = (1, 2, 3) if axis else (2, 1, 1)
        yield Call("tile", lambda t, r=reps: pk.tile(t, r), lambda t, r=reps: t.tile(r), pair[:1])
        x = normal(2, 6) * 3
        yield Call("gelu_tanh", lambda t: pk.gelu_tanh(t),
                   lambda t: torch.nn.functional.gelu(t, approximate="tanh"), (x,))  # fmt: skip
        yield Call("prelu", lambda t, w: pk.prelu(t, w),
                   lambda t, w: torch.nn.functional.prelu(t, w), (x, normal(6)))  # fmt: skip
        x = np.where(np.arange(6) < 3, [np.nan, np.inf, -np.inf, 1, 2, -3], x).astype(np.float32)
        yield Call("nan_to_num", lambda t: pk.nan_to_num(t), lambda t: t.nan_to_num(), (x,))
        q = [normal(1, 2, 3, 4) for _ in range(3)]
        yield Call("bias of attention", lambda q, k, v, m: pk.scaled_dot_product_attention(
                       q, k, v, m), lambda q, k, v, m:
                   torch.nn.functional.scaled_dot_product_attention(q, k, v, m),
                   (*q, normal(*(3, 3) if axis else (2, 3, 3))))  # fmt: skip


def _rows(pk: Any, torch: Any, rng: np.random.Generator) -> Iterator[Call]:
    """Rows of one and two inputs; at 0 and at their edges too."""
    edges = np.array([0, 1, -1, 3, -3, 6, -6, 0.5, -0.5, 2.5], np.float32)
    ranges = ((ROWS, -4.0, 4.0), (POSITIVE, 0.1, 9.0), (SMALL, -0.9, 0.9))
    for names, low, high in ranges:
        inside = edges[(edges >= low) & (edges <= high)]
        for name, other in names.items():
            for x in (rng.uniform(low, high, 12).astype(np.float32), inside, inside[:2, None]):
                if name == "reciprocal":
                    x = x[x != 0]
                yield Call(name, lambda t, n=name: getattr(pk, n)(t),
                           lambda t, n=other: _named(torch, n)(t), (x,))  # fmt: skip
    a = rng.normal(0, 2, (3, 4)).astype(np.float32)
    for name, other in TWO.items():
        for b in (a[::-1].copy() + 0.25, rng.normal(0, 2, 4).astype(np.float32), a.copy()):
            if name in ("remainder", "fmod"):
                b = np.abs(b) + 0.3
            yield Call(name, lambda s, t, n=name: getattr(pk, n)(s, t),
                       lambda s, t, n=other: _named(torch, n)(s, t), (a, b))  # fmt: skip
    power = np.array([0, 1, 2, 0.5], np.float32)
    for base in (np.abs(a), np.zeros((1, 3), np.float32), a):
        exponent = power if base.shape[-1] == 4 else power[1:]
        exponent = exponent.round() if (base < 0).any() else exponent
        yield Call("pow", lambda s, t: pk.pow(s, t), lambda s, t: torch.pow(s, t),
                   (base,) if (base < 0).any() else (base, exponent),
                   (exponent,) if (base < 0).any() else ())  # fmt: skip
        yield Call("where", lambda s, t, c: pk.where(c, s, t),
                   lambda s, t, c: torch.where(c, s, t), (base, exponent), (base > 0.5,)
                   )  # fmt: skip


def _named(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _products(pk: Any, torch: Any, normal: Callable[..., Array]) -> Iterator[Call]:
    pairs = (((3, 4), (4, 2)), ((2, 3, 4), (4, 2)), ((2, 1, 3, 2), (3, 2, 2)), ((4,), (2, 4, 3)))
    for left, right in pairs:
        yield Call("matmul", lambda a, b: pk.matmul(a, b), lambda a, b: a @ b,
                   (normal(*left), normal(*right)))  # fmt: skip
    for text, left, right in (("ij,kj->ik", (2, 3), (4, 3)), ("bij,bjk->ki", (2, 3, 2), (2, 2, 3)),
                              ("i,j->ij", (3,), (2,))):  # fmt: skip
        yield Call("einsum", lambda a, b, t=text: pk.einsum(t, a, b),
                   lambda a, b, t=text: torch.einsum(t, a, b), (normal(*left), normal(*right))
                   )  # fmt: skip
    for causal, scale, heads in ((False, None, 1), (True, 0.5, 2), (True, None, 3)):
        yield Call(
            "scaled_dot_product_attention",
            lambda q, k, v, c=causal, s=scale: pk.scaled_dot_product_attention(
                q, k, v, is_causal=c, scale=s
            ),
            lambda q, k, v, c=causal, s=scale: torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=c, scale=s
            ),
            (normal(1, heads, 3, 4), normal(1, heads, 3, 4), normal(1, heads, 3, 2)),
        )  # fmt: skip


def _images(pk: Any, torch: Any, normal: Callable[..., Array]) -> Iterator[Call]:
    for named in ({}, {"stride": 2, "padding": 1}, {"dilation": (1, 2), "groups": 2}):
        groups = named.get("groups", 1)
        yield Call(
            "conv2d", lambda x, w, b, n=named: pk.conv2d(x, w, b, **n),
            lambda x, w, b, n=named: torch.nn.functional.conv2d(x, w, b, **n),
            (normal(2, 2, 4, 5), normal(4, 2 // groups, 3, 2), normal(4)),
        )  # fmt: skip
    for named in ({}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2}):
        groups = named.get("groups", 1)
        yield Call(
            "conv_transpose2d", lambda x, w, b, n=named: pk.conv_transpose2d(x, w, b, **n),
            lambda x, w, b, n=named: torch.nn.functional.conv_transpose2d(x, w, b, **n),
            (normal(1, 2, 3, 3), normal(2, 4 // groups, 2, 3), normal(4)),
        )  # fmt: skip
    for mode, corners in (("nearest", False), ("bilinear", False), ("bilinear", True),
                          ("bicubic", False)):  # fmt: skip
        kept = {} if mode == "nearest" else {"align_corners": corners}
        yield Call(
            "interpolate", lambda x, m=mode, k=kept: pk.interpolate(x, (5, 3), mode=m, **k),
            lambda x, m=mode, k=kept: torch.nn.functional.interpolate(x, (5, 3), mode=m, **k),
            (normal(1, 2, 3, 4),),
        )  # fmt: skip
    for named in ({}, {"stride": 2}, {"padding": 1, "dilation": 2}):
        yield Call("unfold", lambda x, n=named: pk.unfold(x, 2, **n),
                   lambda x, n=named: torch.nn.functional.unfold(x, 2, **n), (normal(1, 2, 4, 4),)
                   )  # fmt: skip
        count = {"stride": 4, "padding": 16}.get(next(iter(named), ""), 9)
        yield Call("fold", lambda x, n=named: pk.fold(x, 4, 2, **n),
                   lambda x, n=named: torch.nn.functional.fold(x, 4, 2, **n),
                   (normal(1, 8, count),))  # fmt: skip
