"""The calls of a sweep: their tensors, our function, torch's function, and numpy's result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from pykernels.bench.case import Operand
from pykernels.dtypes import DTypeName
from pykernels.reference import conv, norm, pool, resize, softmax
from pykernels.reference.attention import attention

__all__ = ["FUNCTIONS", "NUMPY", "Function"]

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]


class Function(NamedTuple):
    """A function of pykernels and of torch. `d` is the size of a call; `size` names its numbers.

    shapes: (d) -> the shapes of the tensors that have the call's dtype; picks: (d) -> the shape of
        the second argument, an int32 tensor, and the upper bound of its values; () if there is no
        such argument.
    ours: (pk, d, *tensors); theirs: (torch, d, *tensors); meaning: (d, *float64 arrays) -> the same
    result as float64, or in the dtype of the result if nothing is rounded.
    operations: (d) -> the number of operations in numpy, if numpy takes more than one or two passes
        over memory.
    """

    size: str
    shapes: Callable[[Dims], Sequence[Dims]]
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    meaning: Callable[..., Any]
    picks: Callable[[Dims], tuple[Dims, int] | tuple[()]] = lambda d: ()
    operations: Callable[[Dims], int] = lambda d: 0
    sparse: bool = False  # True if half of the elements are zero

    def operands(self, d: Dims, dtype: str) -> list[Operand]:
        kind = cast(DTypeName, dtype)
        values = _sparse if self.sparse else None
        found = [Operand(s, kind, values=values) for s in self.shapes(d)]
        picked = self.picks(d)
        if picked:
            shape, below = picked
            low = Operand(shape, "int32", values=lambda rng, s: rng.integers(0, below, s))
            found.insert(min(1, len(found)), low)
        return found


def _sparse(rng: np.random.Generator, shape: Dims) -> Array:
    return np.maximum(rng.random(shape, np.float32) * 2 - 1, 0)


def _conv_shapes(d: Dims) -> list[Dims]:
    n, c, h, w, o, k, _, _ = d
    return [(n, c, h, w), (o, c, k, k)]


def _conv_operations(d: Dims) -> int:
    n, c, h, w, o, k, stride, _ = d
    return 2 * n * c * h * w * o * k * k // stride**2


def _depthwise(d: Dims, x: Array, w: Array) -> Array:
    return conv.conv2d(x, w, stride=d[5], padding=d[4] // 2, groups=d[1])


def _pooled(d: Dims) -> Dims:
    n, c, h, w, k, stride, padding = d
    return (n, c, *((v + 2 * padding - k) // stride + 1 for v in (h, w)))


def _scatter_add(d: Dims, x: Array, index: Array, src: Array) -> Array:
    found = x.copy()
    np.add.at(found, index, src)
    return found


def _attention(d: Dims, *qkv: Array) -> Array:
    return attention(*qkv, causal=bool(d[6])).o


def _attend(torch: Any, d: Dims, *qkv: Any) -> Any:
    f = torch.nn.functional.scaled_dot_product_attention
    return f(*qkv, is_causal=bool(d[6]), enable_gqa=d[1] != d[2])


def _rows(d: Dims) -> list[Dims]:
    return [d]


def _along(d: Dims) -> list[Dims]:
    return [d[1:]]


def _permuted(d: Dims) -> tuple[Dims, Dims]:
    half = len(d) // 2
    return d[:half], d[half:]


def _normed(d: Dims) -> list[Dims]:
    return [d, d[-1:], d[-1:]]


def _gelu(d: Dims, x: Array) -> Array:
    erf = np.frompyfunc(math.erf, 1, 1)
    values = np.asarray(erf(x / math.sqrt(2)), np.float64)
    return np.asarray(0.5 * x * (1 + values))


FUNCTIONS: dict[str, Function] = {
    "linear": Function(
        "rows x K x N", lambda d: [(d[0], d[1]), (d[2], d[1]), (d[2],)],
        lambda pk, d, x, w, b: pk.linear(x, w, b),
        lambda torch, d, x, w, b: torch.nn.functional.linear(x, w, b),
        lambda d, x, w, b: x @ w.T + b, operations=lambda d: 2 * math.prod(d),
    ),
    "matmul": Function(
        "batch x M x N x K", lambda d: [(d[0], d[1], d[3]), (d[0], d[3], d[2])],
        lambda pk, d, a, b: pk.matmul(a, b), lambda torch, d, a, b: torch.matmul(a, b),
        lambda d, a, b: a @ b, operations=lambda d: 2 * math.prod(d),
    ),
    "conv2d": Function(
        "N x C x H x W x outputs x kernel x stride x padding", _conv_shapes,
        lambda pk, d, x, w: pk.conv2d(x, w, stride=d[6], padding=d[7]),
        lambda torch, d, x, w: torch.nn.functional.conv2d(x, w, stride=d[6], padding=d[7]),
        lambda d, x, w: conv.conv2d(x, w, stride=d[6], padding=d[7]), operations=_conv_operations,
    ),
    "depthwise": Function(
        "N x C x H x W x kernel x stride",
        lambda d: [(d[0], d[1], d[2], d[3]), (d[1], 1, d[4], d[4])],
        lambda pk, d, x, w: pk.conv2d(x, w, None, d[5], d[4] // 2, groups=d[1]),
        lambda torch, d, x, w: torch.nn.functional.conv2d(
            x, w, None, d[5], d[4] // 2, groups=d[1]
        ),
        _depthwise, operations=lambda d: 2 * math.prod(d[:4]) * d[4] ** 2,
    ),
    "attention": Function(
        "batch x heads x KV heads x queries x keys x head size x causal",
        lambda d: [(d[0], d[1], d[3], d[5]), (d[0], d[2], d[4], d[5]), (d[0], d[2], d[4], d[5])],
        lambda pk, d, *qkv: pk.scaled_dot_product_attention(
            *qkv, is_causal=bool(d[6]), enable_gqa=d[1] != d[2]
        ),
        _attend, _attention, operations=lambda d: 4 * math.prod((d[0], d[1], d[3], d[4], d[5])),
    ),
    "softmax": Function(
        "rows x columns", _rows, lambda pk, d, x: pk.softmax(x),
        lambda torch, d, x: torch.softmax(x, -1), lambda d, x: softmax.softmax(x),
    ),
    "log_softmax": Function(
        "rows x columns", _rows, lambda pk, d, x: pk.log_softmax(x),
        lambda torch, d, x: torch.log_softmax(x, -1), lambda d, x: softmax.log_softmax(x),
    ),
    "sum": Function(
        "axis, then the sizes", _along, lambda pk, d, x: pk.sum(x, d[0]),
        lambda torch, d, x: torch.sum(x, d[0]), lambda d, x: x.sum(d[0]),
    ),
    "max": Function(
        "axis, then the sizes", _along, lambda pk, d, x: pk.max(x, d[0]),
        lambda torch, d, x: torch.amax(x, d[0]), lambda d, x: x.max(d[0]),
    ),
    "argmax": Function(
        "axis, then the sizes", _along, lambda pk, d, x: pk.argmax(x, d[0]),
        lambda torch, d, x: torch.argmax(x, d[0]),
        lambda d, x: x.argmax(d[0]).astype(np.int32),
    ),
    "cumsum": Function(
        "axis, then the sizes", _along, lambda pk, d, x: pk.cumsum(x, d[0]),
        lambda torch, d, x: torch.cumsum(x, d[0]), lambda d, x: x.cumsum(d[0]),
    ),
    "layer_norm": Function(
        "rows x columns", _normed, lambda pk, d, x, w, b: pk.layer_norm(x, d[-1], w, b),
        lambda torch, d, x, w, b: torch.nn.functional.layer_norm(x, d[-1:], w, b),
        lambda d, x, w, b: norm.layer_norm(x, w, b, eps=1e-5),
    ),
    "rms_norm": Function(
        "rows x columns", lambda d: [d, d[-1:]],
        lambda pk, d, x, w: pk.rms_norm(x, d[-1], w, eps=1e-6),
        lambda torch, d, x, w: torch.nn.functional.rms_norm(x, d[-1:], w, 1e-6),
        lambda d, x, w: norm.rms_norm(x, w, eps=1e-6),
    ),
    "add": Function(
        "elements", lambda d: [d, d], lambda pk, d, a, b: pk.add(a, b),
        lambda torch, d, a, b: torch.add(a, b), lambda d, a, b: a + b,
    ),
    "mul": Function(
        "elements", lambda d: [d, d], lambda pk, d, a, b: pk.mul(a, b),
        lambda torch, d, a, b: torch.mul(a, b), lambda d, a, b: a * b,
    ),
    "gelu": Function(
        "elements", _rows, lambda pk, d, x: pk.gelu(x),
        lambda torch, d, x: torch.nn.functional.gelu(x), _gelu,
        operations=lambda d: 100 * math.prod(d),
    ),
    "exp": Function(
        "elements", _rows, lambda pk, d, x: pk.exp(x), lambda torch, d, x: torch.exp(x),
        lambda d, x: np.exp(x),
    ),
    "permute": Function(
        "order of the axes, then the sizes", lambda d: [_permuted(d)[1]],
        lambda pk, d, x: x.permute(*_permuted(d)[0]).copy(),
        lambda torch, d, x: x.permute(*_permuted(d)[0]).clone(
            memory_format=torch.contiguous_format
        ),
        lambda d, x: x.transpose(_permuted(d)[0]),
    ),
    "max_pool2d": Function(
        "N x C x H x W x kernel x stride x padding", lambda d: [d[:4]],
        lambda pk, d, x: pk.max_pool2d(x, *d[4:]),
        lambda torch, d, x: torch.nn.functional.max_pool2d(x, *d[4:]),
        lambda d, x: pool.max_pool2d(x, _pooled(d), *d[4:]),
    ),
    "avg_pool2d": Function(
        "N x C x H x W x kernel x stride x padding", lambda d: [d[:4]],
        lambda pk, d, x: pk.avg_pool2d(x, *d[4:]),
        lambda torch, d, x: torch.nn.functional.avg_pool2d(x, *d[4:]),
        lambda d, x: pool.avg_pool2d(x, _pooled(d), *d[4:]),
    ),
    "resize": Function(
        "N x C x H x W x new H x new W", lambda d: [d[:4]],
        lambda pk, d, x: pk.resize(x, d[4:]),
        lambda torch, d, x: torch.nn.functional.interpolate(x, d[4:], mode="bilinear"),
        lambda d, x: resize.resize(x, (*d[:2], *d[4:])),
    ),
    "pad": Function(
        "N x C x H x W x border", lambda d: [d[:4]],
        lambda pk, d, x: pk.pad(x, ((0, 0), (0, 0), (d[4],) * 2, (d[4],) * 2)),
        lambda torch, d, x: torch.nn.functional.pad(x, (d[4],) * 4),
        lambda d, x: np.pad(x, ((0, 0), (0, 0), (d[4],) * 2, (d[4],) * 2)),
    ),
    "concatenate": Function(
        "rows x columns x parts", lambda d: [d[:2]] * d[2],
        lambda pk, d, *parts: pk.concatenate(parts, 1),
        lambda torch, d, *parts: torch.cat(parts, 1), lambda d, *parts: np.concatenate(parts, 1),
    ),
    "group_norm": Function(
        "N x C x H x W x groups", lambda d: [d[:4], d[1:2], d[1:2]],
        lambda pk, d, x, w, b: pk.group_norm(x, d[4], w, b),
        lambda torch, d, x, w, b: torch.nn.functional.group_norm(x, d[4], w, b),
        lambda d, x, w, b: norm.group_norm(x, w, b, groups=d[4], eps=1e-5),
    ),
    "sort": Function(
        "sizes", _rows, lambda pk, d, x: pk.sort(x), lambda torch, d, x: torch.sort(x).values,
        lambda d, x: np.sort(x),
    ),
    "argsort": Function(
        "sizes", _rows, lambda pk, d, x: pk.argsort(x),
        lambda torch, d, x: torch.argsort(x, stable=True),
        lambda d, x: np.argsort(x, stable=True).astype(np.int32),
    ),
    "gather": Function(
        "rows x columns x taken", lambda d: [d[:2]],
        lambda pk, d, x, i: pk.gather(x, 1, i), lambda torch, d, x, i: torch.gather(x, 1, i),
        lambda d, x, i: np.take_along_axis(x, i.astype(np.int64), 1),
        picks=lambda d: ((d[0], d[2]), d[1]),
    ),
    "embedding": Function(
        "rows x columns x taken", lambda d: [d[:2]],
        lambda pk, d, x, i: pk.embedding(x, i),
        lambda torch, d, x, i: torch.nn.functional.embedding(i, x), lambda d, x, i: x[i],
        picks=lambda d: ((d[2],), d[0]),
    ),
    "scatter_add": Function(
        "values x places", lambda d: [d[1:], d[:1]],
        lambda pk, d, x, i, src: pk.scatter_add(x, 0, i, src),
        lambda torch, d, x, i, src: torch.scatter_add(x, 0, i, src), _scatter_add,
        picks=lambda d: (d[:1], d[1]),
    ),
    "nonzero": Function(
        "sizes", _rows, lambda pk, d, x: pk.nonzero(x),
        lambda torch, d, x: torch.nonzero(x, as_tuple=True),
        lambda d, x: tuple(a.astype(np.int32) for a in np.nonzero(x)), sparse=True,
    ),
    "bincount": Function(
        "values x places", lambda d: [],
        lambda pk, d, i: pk.bincount(i, length=d[1]),
        lambda torch, d, i: torch.bincount(i, minlength=d[1]),
        lambda d, i: np.bincount(i, minlength=d[1]).astype(np.int32),
        picks=lambda d: (d[:1], d[1]),
    ),
    "top_k": Function(
        "rows x columns x k", lambda d: [d[:2]], lambda pk, d, x: pk.top_k(x, d[2]),
        lambda torch, d, x: torch.topk(x, d[2]),
        lambda d, x: (np.sort(x)[:, ::-1][:, : d[2]],),
    ),
}  # fmt: skip

# Functions that numpy has, so that numpy is a peer for them, too.
NUMPY = frozenset(
    "linear matmul sum max argmax cumsum add mul exp permute pad concatenate sort argsort gather "
    "embedding scatter_add nonzero bincount top_k".split()
)
