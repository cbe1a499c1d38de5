"""Operations of ai.onnx.ml, which exporters of scikit-learn write."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from .errors import ModelError
from .ml_features import FEATURES
from .ml_models import MODELS
from .ml_parts import Parts
from .values import Values

__all__ = ["DOMAIN", "VERSION", "map_labels", "ml_nodes"]

DOMAIN = "ai.onnx.ml"
VERSION = 18  # version of ONNX's own operations in these definitions
_DEFINED = {**FEATURES, **MODELS}


def map_labels(node: onnx.NodeProto) -> list[int] | list[str]:
    """The keys of a ZipMap."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if given.get("classlabels_strings"):
        return [label.decode() for label in given["classlabels_strings"]]
    return list(given.get("classlabels_int64s", []))


def ml_nodes(values: Values, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """The nodes that a node of ai.onnx.ml stands for."""
    if node.op_type not in _DEFINED:
        raise ModelError("this operation is missing")
    kinds = {values.types[n].tensor_type.elem_type for n in node.input}
    if TensorProto.STRING in kinds and node.op_type != "ArrayFeatureExtractor":
        raise ModelError("strings: not supported")
    parts = Parts(values, node)
    _DEFINED[node.op_type](parts)
    return parts.nodes
