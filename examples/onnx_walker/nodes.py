"""Operations of ONNX as calls of pykernels' functions: one entry each, by the operation's name.

An entry takes the node and its inputs, None for one that is not there, and gives the output or a
list of them. Inputs are tensors, but for those that `host` numbers: they say what is computed
(axes, sizes), so they must be constants and come as numpy arrays. Those in `either` do so if they
are constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pykernels as pk

from .graph import Array, ModelError, Node

Entry = Callable[..., Any]
ENTRIES: dict[str, Entry] = {}
HOST: dict[str, tuple[int, ...]] = {}
EITHER: dict[str, tuple[int, ...]] = {}


def op(
    *names: str, host: tuple[int, ...] = (), either: tuple[int, ...] = ()
) -> Callable[[Entry], Entry]:
    """Makes a function the entry of these operations."""

    def enter(entry: Entry) -> Entry:
        for name in names:
            ENTRIES[name], HOST[name], EITHER[name] = entry, host, either
        return entry

    return enter


def refuse(node: Node, what: str) -> ModelError:
    return ModelError(f"missing: {node.op} with {what} ({node.name or node.outputs[0]})")


def numbers(node: Node, name: str, given: Array | None = None, default: Any = None) -> Any:
    """Integers that are an input, or in older files an attribute."""
    if given is not None:
        return [int(v) for v in given.reshape(-1)]
    return node.attributes.get(name, default)


def text(node: Node, name: str, default: str) -> str:
    return node.attributes.get(name, default.encode()).decode()


def kept(node: Node, name: str, device: pk.Device, array: Array) -> pk.Tensor:
    """A constant array of the entry on the device, uploaded by the first call."""
    if name not in node.kept:
        node.kept[name] = device.tensor(array)
    return node.kept[name]


# -- windows --------------------------------------------------------------------------------------


def pads(node: Node, size: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """How much is around an image: (in front, ...; behind, ...)."""
    mode = text(node, "auto_pad", "NOTSET")
    if mode == "NOTSET":
        return list(node.attributes.get("pads", [0] * 2 * len(size)))
    if mode == "VALID":
        return [0] * 2 * len(size)
    steps, gaps = spaced(node, len(size))
    front, behind = [], []
    for n, k, step, gap in zip(size, kernel, steps, gaps, strict=True):
        total = max((math.ceil(n / step) - 1) * step + (k - 1) * gap + 1 - n, 0)
        less, more = total // 2, total - total // 2
        front.append(less if mode == "SAME_UPPER" else more)
        behind.append(more if mode == "SAME_UPPER" else less)
    return front + behind


def spaced(node: Node, axes: int) -> tuple[list[int], list[int]]:
    """Strides and dilations."""
    attributes = node.attributes
    return attributes.get("strides", [1] * axes), attributes.get("dilations", [1] * axes)


def as_image(node: Node, x: Any, *more: Any) -> list[Any]:
    """Signals as images of one row; images as they are."""
    if x.ndim not in (3, 4):
        raise refuse(node, f"{x.ndim - 2} axes of space")
    return [t if t is None or x.ndim == 4 else t[:, :, None] for t in (x, *more)]


def doubled(pair: Sequence[int], rank: int, first: int) -> tuple[int, ...]:
    """Numbers of each axis of an image, from those of a signal."""
    return tuple(pair) if rank == 4 else (first, *pair)


def edges(around: Sequence[int], rank: int) -> tuple[int, int, int, int]:
    """Top, bottom, left, right."""
    half = len(around) // 2
    front, behind = doubled(around[:half], rank, 0), doubled(around[half:], rank, 0)
    return front[0], behind[0], front[1], behind[1]


@op("Conv")
def conv(node: Node, x: Any, w: Any, bias: Any = None, residual: Any = None) -> Any:
    """`residual`, `activation` and a product's `scale` come from fusion.py."""
    rank = x.ndim
    steps, gaps = spaced(node, rank - 2)
    around = pads(node, x.shape[2:], w.shape[2:])
    x, w = as_image(node, x, w)
    if residual is not None and rank == 3:
        residual = residual[:, :, None]
    y = pk.conv2d(
        x, w, bias, stride=doubled(steps, rank, 1), padding=edges(around, rank),
        dilation=doubled(gaps, rank, 1), groups=node.attributes.get("group", 1),
        residual=residual, activation=node.attributes.get("activation"),
    )  # fmt: skip
    return y if rank == 4 else y[:, :, 0]


@op("ConvTranspose")
def conv_transpose(node: Node, x: Any, w: Any, bias: Any = None) -> Any:
    if text(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise refuse(node, "auto_pad")
    rank, axes = x.ndim, x.ndim - 2
    steps, gaps = spaced(node, axes)
    around = pads(node, x.shape[2:], w.shape[2:])
    more = node.attributes.get("output_padding", [0] * axes)
    if "output_shape" in node.attributes:
        raise refuse(node, "output_shape")
    x, w = as_image(node, x, w)
    y = pk.conv_transpose2d(
        x, w, bias, stride=doubled(steps, rank, 1), padding=edges(around, rank),
        output_padding=doubled(more, rank, 0), dilation=doubled(gaps, rank, 1),
        groups=node.attributes.get("group", 1), activation=node.attributes.get("activation"),
    )  # fmt: skip
    return y if rank == 4 else y[:, :, 0]


@op("MaxPool")
def max_pool(node: Node, x: Any) -> Any:
    if len(node.outputs) > 1:
        raise refuse(node, "indices")
    return _pool(node, x, -math.inf)


@op("AveragePool")
def average_pool(node: Node, x: Any) -> Any:
    return _pool(node, x, 0.0)


def _pool(node: Node, x: Any, border: float) -> Any:
    """Pools with a border that may be of any width."""
    rank = x.ndim
    size = node.attributes["kernel_shape"]
    steps, gaps = (doubled(v, rank, 1) for v in spaced(node, rank - 2))
    top, bottom, left, right = edges(pads(node, x.shape[2:], size), rank)
    kernel = doubled(size, rank, 1)
    ceil = bool(node.attributes.get("ceil_mode", 0))
    (x,) = as_image(node, x)
    inside = (top, left) == (bottom, right) and 2 * top <= kernel[0] and 2 * left <= kernel[1]
    padding, counted = (
        (top, left) if inside else (0, 0),
        bool(node.attributes.get("count_include_pad")),
    )
    rows, cols = x.shape[2:]
    if not inside:
        x = pk.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=border)
    if border:
        y = pk.max_pool2d(x, kernel, steps, padding, gaps, ceil)
    elif gaps != (1, 1):
        raise refuse(node, "dilations")
    elif inside or counted:
        y = pk.avg_pool2d(x, kernel, steps, padding, ceil, counted)
    else:  # sums, divided by the elements that are no border
        y = pk.avg_pool2d(x, kernel, steps, 0, ceil, divisor_override=1)
        counts = [
            np.array([min(i * s + k, f + n) - max(i * s, f) for i in range(m)])
            for m, s, k, f, n in zip(
                y.shape[2:], steps, kernel, (top, left), (rows, cols), strict=True
            )
        ]
        y = y / kept(node, "counts", y.device, np.outer(*counts).astype(np.float32))
    if not inside:  # no window begins behind the image
        y = y[:, :, : -(-(rows + top) // steps[0]), : -(-(cols + left) // steps[1])]
    return y if rank == 4 else y[:, :, 0]


@op("GlobalAveragePool")
def global_average_pool(node: Node, x: Any) -> Any:
    return pk.mean(x, tuple(range(2, x.ndim)), keepdims=True)


@op("GlobalMaxPool")
def global_max_pool(node: Node, x: Any) -> Any:
    return pk.max(x, tuple(range(2, x.ndim)), keepdims=True)


@op("LRN")
def local_response_norm(node: Node, x: Any) -> Any:
    given = node.attributes
    alpha, beta, k = (given.get(n, d) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    if given["size"] % 2 == 0:  # the channel more is behind in ONNX, in front in torch
        raise refuse(node, "an even size")
    return pk.local_response_norm(x, given["size"], alpha, beta, k)


# -- products -------------------------------------------------------------------------------------


@op("MatMul")
def matmul(node: Node, a: Any, b: Any, bias: Any = None, residual: Any = None) -> Any:
    scale, kind = node.attributes.get("scale", 1.0), node.attributes.get("activation")
    return pk.matmul(a, b, bias=bias, residual=residual, scale=scale, activation=kind)


@op("Gemm")
def gemm(node: Node, a: Any, b: Any, c: Any = None, residual: Any = None) -> Any:
    given = node.attributes
    a = a.T if given.get("transA", 0) else a
    b = b.T if given.get("transB", 0) else b
    beta = given.get("beta", 1.0)
    if c is not None and beta != 1.0:
        c = c * beta
    scale, kind = given.get("alpha", 1.0), given.get("activation")
    return pk.matmul(a, b, bias=c, residual=residual, scale=scale, activation=kind)


@op("Einsum")
def einsum(node: Node, *operands: Any) -> Any:
    if len(operands) != 2:
        raise refuse(node, f"{len(operands)} operands")
    return pk.einsum(text(node, "equation", "").replace(" ", ""), *operands)


@op("LSTM", host=(1, 2, 3))
def lstm(
    node: Node, x: Any, w: Array, r: Array, b: Array | None = None, lengths: Any = None,
    h: Any = None, c: Any = None, peepholes: Any = None,
) -> Any:  # fmt: skip
    given, width = node.attributes, r.shape[-1]
    for name in ("activations", "clip", "input_forget", "layout"):
        if given.get(name):
            raise refuse(node, name)
    if lengths is not None or peepholes is not None:
        raise refuse(node, "lengths or peepholes")

    def ours(name: str, array: Array, side: int) -> pk.Tensor:
        i, o, f, g = np.split(array[side], 4)  # ONNX's order of gates
        return kept(node, f"{name}{side}", x.device, np.concatenate([i, f, g, o]))

    order = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    sides = []
    for side, back in enumerate(order[text(node, "direction", "forward")]):
        weights = ours("w", w, side), ours("r", r, side)
        biases = [None, None]
        if b is not None:
            biases = [ours("b", b[:, : 4 * width], side), ours("u", b[:, 4 * width :], side)]
        state = None if h is None or c is None else (h[side], c[side])
        if state is None and (h is not None or c is not None):
            zeros = kept(node, "zeros", x.device, np.zeros((x.shape[1], width), np.float32))
            state = (zeros, c[side]) if h is None else (h[side], zeros)
        y, last = pk.lstm(x, *weights, *biases, hx=state, reverse=back)
        sides.append((y, *last))
    ys, hs, cs = zip(*sides, strict=True)
    return pk.stack(ys, 1), pk.stack(hs), pk.stack(cs)


# -- norms and reductions -------------------------------------------------------------------------


@op("BatchNormalization")
def batch_norm(node: Node, x: Any, weight: Any, bias: Any, mean: Any, variance: Any) -> Any:
    if len([n for n in node.outputs if n]) > 1 or node.attributes.get("training_mode", 0):
        raise refuse(node, "training_mode")
    return pk.batch_norm(x, mean, variance, weight, bias, eps=node.attributes.get("epsilon", 1e-5))


@op("InstanceNormalization")
def instance_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    eps = node.attributes.get("epsilon", 1e-5)
    return pk.instance_norm(x, weight=weight, bias=bias, eps=eps)


@op("LayerNormalization")
def layer_norm(node: Node, x: Any, weight: Any = None, bias: Any = None) -> Any:
    if len([n for n in node.outputs if n]) > 1:
        raise refuse(node, "mean and variance")
    axis = node.attributes.get("axis", -1) % x.ndim
    eps = node.attributes.get("epsilon", 1e-5)
    return pk.layer_norm(x, x.shape[axis:], weight, bias, eps)


@op("GroupNormalization")
def group_norm(node: Node, x: Any, weight: Any, bias: Any) -> Any:
    eps = node.attributes.get("epsilon", 1e-5)
    return pk.group_norm(x, node.attributes["num_groups"], weight, bias, eps)


def _flat(node: Node, x: Any, function: Any) -> Any:
    """Over one axis; before version 13 over all axes from there on."""
    if node.version >= 13:
        return function(x, node.attributes.get("axis", -1))
    axis = node.attributes.get("axis", 1) % x.ndim
    y = function(x.reshape(math.prod(x.shape[:axis]), -1), -1)
    return y.reshape(x.shape)


@op("Softmax")
def softmax(node: Node, x: Any) -> Any:
    return _flat(node, x, pk.softmax)


@op("LogSoftmax")
def log_softmax(node: Node, x: Any) -> Any:
    return _flat(node, x, pk.log_softmax)


def _norm2(x: Any, axis: Any, keepdims: bool) -> Any:
    return pk.reduction("x * x", "sum", axis=axis, keepdims=keepdims, x=x)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": pk.sum, "ReduceMean": pk.mean, "ReduceMax": pk.max, "ReduceMin": pk.min,
    "ReduceProd": pk.prod, "ReduceLogSumExp": pk.logsumexp, "ReduceSumSquare": _norm2,
    "ReduceL1": lambda x, a, k: pk.reduction("abs(x)", "sum", axis=a, keepdims=k, x=x),
    "ReduceL2": lambda x, a, k: pk.sqrt(_norm2(x, a, k)),
    "ReduceLogSum": lambda x, a, k: pk.log(pk.sum(x, a, k)),
}  # fmt: skip


@op(*REDUCTIONS, host=(1,))
def reduce(node: Node, x: Any, axes: Array | None = None) -> Any:
    found = numbers(node, "axes", axes)
    if not found:
        found = () if node.attributes.get("noop_with_empty_axes", 0) else range(x.ndim)
    return REDUCTIONS[node.op](x, tuple(found), bool(node.attributes.get("keepdims", 1)))


@op("ArgMax", "ArgMin")
def arg_max(node: Node, x: Any) -> Any:
    if node.attributes.get("select_last_index", 0):
        raise refuse(node, "select_last_index")
    function = pk.argmax if node.op == "ArgMax" else pk.argmin
    return function(x, node.attributes.get("axis", 0), bool(node.attributes.get("keepdims", 1)))


@op("CumSum", host=(1,))
def cumsum(node: Node, x: Any, axis: Array) -> Any:
    if node.attributes.get("exclusive", 0):
        raise refuse(node, "exclusive")
    at = int(axis.item())
    if node.attributes.get("reverse", 0):
        return pk.flip(pk.cumsum(pk.flip(x, at), at), at)
    return pk.cumsum(x, at)


@op("TopK", host=(1,))
def top_k(node: Node, x: Any, k: Array | None = None) -> Any:
    count = numbers(node, "k", k)
    largest = bool(node.attributes.get("largest", 1))
    at = node.attributes.get("axis", -1)
    return pk.top_k(x, count[0] if k is not None else count, at, largest=largest)
