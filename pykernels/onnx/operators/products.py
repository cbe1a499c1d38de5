"""Products of matrices."""

from __future__ import annotations

from typing import Any

import pykernels as pk

from ..graph import Node
from .table import op, text


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
    return pk.einsum(text(node, "equation", "").replace(" ", ""), *operands)


@op("Det")
def det(node: Node, x: Any) -> Any:
    return pk.det(x)
