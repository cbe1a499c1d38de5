"""Operations of onnxruntime's domain com.microsoft, which its optimizer and exporters write:
entries as in table.py, and rules for shapes, because onnx has none for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk

from ..errors import ModelError
from ..graph import Array, Node
from .quantized import dequantize, dynamic_quantize, integer_product, rounded
from .table import Entry, op, refuse

__all__ = [
    "DOMAIN",
    "EXTENSIONS",
    "SHAPES",
    "Kind",
    "Known",
    "contrib",
    "heads_of",
    "like",
    "there",
]

DOMAIN = "com.microsoft"
# Operations that onnxruntime adds to ONNX's own domain.
EXTENSIONS = frozenset(["SimplifiedLayerNormalization"])
# A rule gives the shape and dtype of each output, from attributes, the shapes and dtypes of inputs
# (None for a missing input), and the values of inputs that are constants.
Kind = tuple[tuple[int, ...], str]
Known = list[Array | None]
Rule = Callable[[dict[str, Any], list[Kind | None], Known], list[Kind | None]]
SHAPES: dict[str, Rule] = {}


def contrib(name: str, rule: Rule, **options: Any) -> Callable[[Entry], Entry]:
    """Decorate a function as the entry of an operation whose shapes this rule gives."""
    SHAPES[name] = rule
    return op(f"{DOMAIN}.{name}", **options)


def like(_given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    return [kinds[0]]


SHAPES["SimplifiedLayerNormalization"] = like


# -- activations and norms ------------------------------------------------------------------------


@contrib("Gelu", like)
def gelu(node: Node, x: Any) -> Any:
    return pk.gelu(x)


@contrib("FastGelu", like)
def fast_gelu(node: Node, x: Any, bias: Any = None) -> Any:
    return pk.gelu_tanh(x) if bias is None else pk.elementwise("gelu_tanh(x + b)", x=x, b=bias)


@contrib("BiasGelu", like)
def bias_gelu(node: Node, x: Any, bias: Any) -> Any:
    return pk.elementwise("gelu(x + b)", x=x, b=bias)


@contrib("QuickGelu", like)
def quick_gelu(node: Node, x: Any) -> Any:
    alpha = float(node.attributes.get("alpha", 1.702))
    return pk.elementwise("x * sigmoid(a * x)", x=x, a=alpha)


def _skipped(_given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    """The outputs: the norm, its mean and variance (both not supported), and the sum that is
    normalised."""
    return [kinds[0], None, None, kinds[0]]


def _sum(x: Any, skip: Any, bias: Any) -> Any:
    if bias is None:
        return x + skip
    return pk.elementwise("x + s + b", x=x, s=skip, b=bias)


def _alone(node: Node) -> None:
    if any(node.outputs[1:3]):
        raise refuse(node, "mean and variance as outputs")


@contrib("SkipLayerNormalization", _skipped)
def skip_layer_norm(
    node: Node, x: Any, skip: Any, weight: Any, shift: Any = None, bias: Any = None
) -> Any:
    _alone(node)
    total = _sum(x, skip, bias)
    eps = node.attributes.get("epsilon", 1e-5)
    return pk.layer_norm(total, total.shape[-1:], weight, shift, eps), None, None, total


@contrib("SkipSimplifiedLayerNormalization", _skipped)
def skip_rms_norm(node: Node, x: Any, skip: Any, weight: Any, bias: Any = None) -> Any:
    _alone(node)
    total = _sum(x, skip, bias)
    eps = node.attributes.get("epsilon", 1e-5)
    return pk.rms_norm(total, total.shape[-1:], weight, eps), None, None, total


def _embedded(_given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    ids, words = there(kinds[0]), there(kinds[2])
    shape = (*ids[0], words[0][1])
    return [(shape, words[1]), ((ids[0][0],), "int32"), (shape, words[1])]


@contrib("EmbedLayerNormalization", _embedded)
def embed_layer_norm(
    node: Node, ids: Any, segments: Any, words: Any, places: Any, kinds: Any, weight: Any,
    shift: Any, mask: Any = None, position: Any = None,
) -> Any:  # fmt: skip
    if position is not None:
        raise refuse(node, "position_ids")
    total = pk.embedding(words, ids) + places[: ids.shape[1]]
    if segments is not None:
        total = total + pk.embedding(kinds, segments)
    eps = node.attributes.get("epsilon", 1e-12)
    y = pk.layer_norm(total, total.shape[-1:], weight, shift, eps)
    if mask is not None:
        lengths = pk.sum(mask, 1)
    else:
        lengths = pk.sum(ids * 0, 1)
    return y, lengths, total


# -- products -------------------------------------------------------------------------------------


def there(kind: Kind | None) -> Kind:
    if kind is None:
        raise ModelError("an input is missing")
    return kind


def _matmul(given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    (a, kind), (b, _) = there(kinds[0]), there(kinds[1])
    if given.get("transA"):
        a = (*a[:-2], a[-1], a[-2])
    if given.get("transB"):
        b = (*b[:-2], b[-1], b[-2])
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise ModelError(f"shapes {a} and {b} do not fit each other")
    return [((*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1]), kind)]


@contrib("FusedMatMul", _matmul)
def fused_matmul(node: Node, a: Any, b: Any) -> Any:
    given = node.attributes
    if given.get("transBatchA") or given.get("transBatchB"):
        raise refuse(node, "transposed batches")
    a = pk.swapaxes(a, -1, -2) if given.get("transA") else a
    b = pk.swapaxes(b, -1, -2) if given.get("transB") else b
    return pk.matmul(a, b, scale=float(given.get("alpha", 1.0)))


def _float_matmul(
    given: dict[str, Any], kinds: list[Kind | None], *_known: Any
) -> list[Kind | None]:
    found = there(_matmul(given, kinds)[0])
    return [(found[0], "float32")]


@contrib("MatMulIntegerToFloat", _float_matmul)
def matmul_integer_to_float(
    node: Node, a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None,
    b_zero: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    return _scaled(integer_product(a, b, a_zero, b_zero), a_scale, b_scale, bias)


@contrib("DynamicQuantizeMatMul", _float_matmul)
def dynamic_quantize_matmul(
    node: Node, a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None
) -> Any:
    rows, scale, zero = dynamic_quantize(node, a)
    return _scaled(integer_product(rows, b, zero, b_zero), scale, b_scale, bias)


def _scaled(y: Any, a_scale: Any, b_scale: Any, bias: Any) -> Any:
    if bias is None:
        return pk.elementwise("float32(y) * (a * b)", y=y, a=a_scale, b=b_scale)
    return pk.elementwise("float32(y) * (a * b) + c", y=y, a=a_scale, b=b_scale, c=bias)


# -- attention ------------------------------------------------------------------------------------


def heads_of(x: Any, heads: int) -> Any:
    """(N, L, H D) as (N, H, L, D)."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def _attention(given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    (x, kind), (w, _) = there(kinds[0]), there(kinds[1])
    sizes = given.get("qkv_hidden_sizes") or [w[1] // 3] * 3
    found: list[Kind | None] = [((*x[:2], sizes[2]), kind)]
    if kinds[4] is not None:
        *before, length, width = kinds[4][0]
        found.append(((*before, length + x[1], width), kind))
    return found


@contrib("Attention", _attention)
def attention(
    node: Node, x: Any, w: Any, bias: Any = None, mask: Any = None, past: Any = None,
    added: Any = None, *others: Any,
) -> Any:  # fmt: skip
    given = node.attributes
    if any(o is not None for o in others) or given.get("do_rotary"):
        raise refuse(node, "a cache that is shared, or rotary positions")
    sizes = given.get("qkv_hidden_sizes") or [w.shape[1] // 3] * 3
    inner = pk.matmul(x, w) if bias is None else pk.matmul(x, w, bias=bias)
    q, k, v = pk.split(inner, np.cumsum(sizes)[:-1].tolist(), 2)
    heads = given["num_heads"]
    q, k, v = (heads_of(t, heads) for t in (q, k, v))
    causal = bool(given.get("unidirectional", 0))
    if past is None:
        return _attended(node, q, k, v, mask, added, causal)
    k, v = (pk.concatenate([old, new], 2) for old, new in zip(past, (k, v), strict=True))
    return _attended(node, q, k, v, mask, added, causal), pk.stack([k, v])


def _attended(node: Node, q: Any, k: Any, v: Any, mask: Any, added: Any, causal: bool) -> Any:
    scale = node.attributes.get("scale", 0.0) or None
    scores = added
    if mask is not None:
        if mask.ndim == 2 and mask.shape == (q.shape[0], k.shape[2]):
            mask = mask[:, None, None, :]
        elif mask.ndim == 3:
            mask = mask[:, None]
        else:
            raise refuse(node, f"a mask of shape {mask.shape}")
        beyond = float(node.attributes.get("mask_filter_value", -10000.0))
        mask = pk.elementwise("0.0 if m > 0 else b", m=mask, b=beyond)
        scores = mask if added is None else mask + added
    if causal:
        rows, cols = q.shape[2], k.shape[2]
        seen = pk.tril(pk.ones((rows, cols), device=q.device), cols - rows)
        shut = pk.elementwise("0.0 if s > 0 else b", s=seen, b=-3e38)
        scores = (
            shut if scores is None else pk.elementwise("maximum(a + b, -3e38)", a=scores, b=shut)
        )
    y = pk.scaled_dot_product_attention(q, k, v, scores, scale=scale)
    y = y.transpose(0, 2, 1, 3)
    return y.reshape(y.shape[0], y.shape[1], -1)


def _multi_head(given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    q, kind = there(kinds[0])
    v, _ = there(kinds[2])
    count = given["num_heads"]
    width = v[2] if len(v) == 3 else v[1] * v[3]
    found: list[Kind | None] = [((*q[:2], width), kind)]
    for place, inner in ((6, q[2]), (7, width)):
        past, new = kinds[place], there(kinds[place - 5])[0]
        length = new[1] if len(new) == 3 else new[2]
        length += 0 if past is None else past[0][2]
        found.append(((q[0], count, length, inner // count), kind))
    return found


@contrib("MultiHeadAttention", _multi_head)
def multi_head_attention(
    node: Node, q: Any, k: Any, v: Any, bias: Any = None, mask: Any = None, added: Any = None,
    past_k: Any = None, past_v: Any = None, *others: Any,
) -> Any:  # fmt: skip
    if any(o is not None for o in others) or any(node.outputs[3:]):
        raise refuse(node, "a cache that is shared, or scores as an output")
    if q.ndim != 3:
        raise refuse(node, "packed inputs")
    heads = node.attributes["num_heads"]
    if bias is not None:
        wide = q.shape[2]
        q = q + bias[:wide]
        if k.ndim == 3:
            k = k + bias[wide : wide + k.shape[2]]
            v = v + bias[wide + k.shape[2] :]
    q, k, v = (t if t.ndim == 4 else heads_of(t, heads) for t in (q, k, v))
    if past_k is not None:
        k, v = (pk.concatenate(pair, 2) for pair in ((past_k, k), (past_v, v)))
    causal = bool(node.attributes.get("unidirectional", 0))
    return _attended(node, q, k, v, mask, added, causal), k, v


# -- bytes ----------------------------------------------------------------------------------------


def _both(_given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    (a, kind), (b, _kind) = there(kinds[0]), there(kinds[3])
    return [(np.broadcast_shapes(a, b), kind)]


@contrib("QLinearAdd", _both)
def qlinear_add(node: Node, *inputs: Any) -> Any:
    return _of_two(node, "(a + b) / s", *inputs)


@contrib("QLinearMul", _both)
def qlinear_mul(node: Node, *inputs: Any) -> Any:
    return _of_two(node, "a * b / s", *inputs)


def _of_two(
    node: Node, text: str, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    y_scale: Any, y_zero: Any = None,
) -> Any:  # fmt: skip
    """The quantised value of an expression of a and b, dequantised, and of the result's scale s."""
    a, b = dequantize(node, a, a_scale, a_zero), dequantize(node, b, b_scale, b_zero)
    return rounded(node, text, y_zero, a=a, b=b, s=y_scale)


@contrib("QLinearSigmoid", like)
def qlinear_sigmoid(
    node: Node, x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None
) -> Any:
    x = dequantize(node, x, x_scale, x_zero)
    return rounded(node, "sigmoid(x) / s", y_zero, x=x, s=y_scale)


@contrib("QLinearLeakyRelu", like)
def qlinear_leaky_relu(
    node: Node, x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None
) -> Any:
    x, alpha = dequantize(node, x, x_scale, x_zero), float(node.attributes.get("alpha", 0.01))
    return rounded(node, "leaky_relu(x, a) / s", y_zero, x=x, s=y_scale, a=alpha)


def _gemm(given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    found, output = there(_matmul(given, [kinds[0], kinds[3]])[0]), kinds[7]
    return [(found[0], "float32" if output is None else found[1])]


@contrib("QGemm", _gemm)
def qgemm(
    node: Node, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    c: Any = None, y_scale: Any = None, y_zero: Any = None,
) -> Any:  # fmt: skip
    given = node.attributes
    a = pk.swapaxes(a, 0, 1) if given.get("transA") else a
    b = pk.swapaxes(b, 0, 1) if given.get("transB") else b
    y = integer_product(a, b, a_zero, b_zero)
    if c is not None:
        y = y + c
    text = "float32(y) * (f * a * b)"
    operands = {"y": y, "a": a_scale, "b": b_scale, "f": float(given.get("alpha", 1.0))}
    if y_scale is None:
        return pk.elementwise(text, **operands)
    return rounded(node, f"{text} / s", y_zero, s=y_scale, **operands)
