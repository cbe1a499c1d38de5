"""Definitions of operations by other operations, from ONNX or from a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx

from .order import first_output, renamed
from .values import Values

__all__ = ["body_nodes", "definition"]


def definition(values: Values, node: onnx.NodeProto) -> onnx.FunctionProto | None:
    """ONNX's definition of an operation by other operations; None if there is none."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = values.versions.get(node.domain, 1)
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        found = _newest(schema.function_opset_versions, version)
        return _parsed(schema.get_function_with_opset_version(found))
    if schema.has_context_dependent_function:
        types = [(values.types[n] if n else onnx.TypeProto()) for n in node.input]
        text = schema.get_context_dependent_function_with_opset_version(
            _newest(schema.context_dependent_function_opset_versions, version),
            node.SerializeToString(),
            [t.SerializeToString() for t in types],
        )
        return _parsed(text) if text else None
    return None


def body_nodes(
    values: Values, node: onnx.NodeProto, body: onnx.FunctionProto
) -> list[onnx.NodeProto]:
    """The nodes of a definition, with names and attributes of the node that they replace."""
    prefix = f"{first_output(node)}/"
    names = {o: prefix + o for inner in body.node for o in inner.output if o}
    names |= dict.fromkeys(body.input, "") | dict(zip(body.input, node.input, strict=False))
    names |= {a: b for a, b in zip(body.output, node.output, strict=False) if b}
    schema = values.schema(node)
    usual = [a.default_value for a in schema.attributes.values() if a.default_value.name]
    given = {a.name: a for a in (*usual, *body.attribute_proto, *node.attribute)}
    return [renamed(inner, names, given) for inner in body.node]


def _parsed(text: bytes) -> onnx.FunctionProto:
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return body


def _newest(versions: Iterable[int], most: int) -> int:
    """The newest version that is not above `most`; if there is none, the oldest version."""
    return max((v for v in versions if v <= most), default=min(versions))
