"""Operations of ai.onnx.ml on features, defined by several operations of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .errors import ModelError
from .graph import Array
from .ml_parts import Parts
from .operators.inner import INNER

__all__ = ["FEATURES"]

_INTS = (TensorProto.INT32, TensorProto.INT64)


def _array_feature_extractor(p: Parts) -> None:
    index = p.add("Reshape", p.node.input[1], p.constant(np.array([-1])))
    x = p.node.input[0]
    if p.kind == TensorProto.STRING:
        known = p.values.known.get(x)
        if known is None or known.size != p.shape[-1]:
            raise ModelError("strings: not supported")
        names = [n.decode() if isinstance(n, bytes) else str(n) for n in known.reshape(-1).tolist()]
        p.names(p.add("Unsqueeze", index, p.constant(np.array([0]))), names)
        return
    if len(p.shape) == 1:
        x = p.add("Unsqueeze", x, p.constant(np.array([0])))
    p.add("Gather", x, index, axis=-1, out=0)


def _binarizer(p: Parts) -> None:
    limit = p.constant(np.float32(p.given.get("threshold", 0.0)))
    p.cast(p.add("Greater", p.floats(), limit), p.kind, out=0)


def _feature_vectorizer(p: Parts) -> None:
    parts = []
    sizes = p.given.get("inputdimensions", [])
    for i, name in enumerate(p.node.input):
        shape, x = p.values.shape(name), p.floats(i)
        if len(shape) not in (1, 2):
            raise ModelError(f"an input of {len(shape)} axes: not supported")
        if len(shape) == 1:
            x, shape = p.add("Unsqueeze", x, p.constant(np.array([1]))), (*shape, 1)
        more = (sizes[i] if i < len(sizes) else shape[1]) - shape[1]
        parts.append(p.add("Pad", x, p.constant(np.array([0, 0, 0, more]))) if more else x)
    p.add("Concat", *parts, axis=1, out=0)


def _imputer(p: Parts) -> None:
    x = p.node.input[0]
    if p.kind in _INTS:
        kind = helper.tensor_dtype_to_np_dtype(p.kind)
        old = np.array(p.given.get("replaced_value_int64", 0), kind)
        new = np.array(p.given.get("imputed_value_int64s", []), kind)
    else:
        x, old = p.floats(), np.array(p.given.get("replaced_value_float", 0.0), np.float32)
        new = np.array(p.given.get("imputed_value_floats", []), np.float32)
    if new.size not in (1, p.shape[-1]):
        raise ModelError(f"{new.size} values in place of missing ones, for {p.shape[-1]} features")
    missing = p.add("IsNaN", x) if np.isnan(old) else p.add("Equal", x, p.constant(old))
    y = p.add("Where", missing, p.constant(new), x)
    p.cast(y, p.kind, out=0)


def _label_encoder(p: Parts) -> None:
    keys = _column(p, "keys")
    names = p.given.get("values_strings")
    values = _column(p, "values") if names is None else np.array([n.decode() for n in names])
    if len(keys) != len(values) or not len(keys):
        raise ModelError(f"{len(keys)} keys and {len(values)} values")
    is_float = p.kind not in _INTS
    at = np.arange(len(keys))
    if p.values.versions.get(p.node.domain, 1) >= 4:  # the last of equal keys counts
        at = at[::-1]
    at = at if is_float else at[np.abs(keys[at]) <= np.iinfo(np.int32).max]
    if not len(at):  # all keys are outside of int32, so no element equals a key
        _all_usual(p, names, values)
        return
    keys, first = np.unique(keys[at] + keys.dtype.type(0), return_index=True)  # -0.0 becomes 0.0
    x = p.floats() if is_float else p.node.input[0]
    kind = np.dtype(np.float32) if is_float else helper.tensor_dtype_to_np_dtype(p.kind)
    sorted_keys = p.constant(keys.astype(kind))
    place = p.add("Search", sorted_keys, x, domain=INNER)
    last = p.add("Min", place, p.constant(np.array(len(keys) - 1, np.int32)))
    found = p.add("Gather", sorted_keys, last)
    same = p.add("Equal", found, x)
    if is_float:
        same = p.add("Or", same, p.add("And", p.add("IsNaN", found), p.add("IsNaN", x)))
    row = p.add("Where", same, last, p.constant(np.array(len(keys), np.int32)))
    if names is not None:
        p.names(row, [*values[at][first].tolist(), p.text("default_string", "_Unused")])
        return
    table = np.append(values[at][first], _usual(p, values.dtype)).astype(values.dtype)
    p.add("Gather", p.constant(table), row, out=0)


def _all_usual(p: Parts, names: Any, values: Array) -> None:
    """Replace every element by the default, because no element equals a key."""
    x = p.node.input[0]
    row = p.add("Sub", x, x)
    if names is not None:
        p.names(row, [p.text("default_string", "_Unused")])
    else:
        p.add("Gather", p.constant(_usual(p, values.dtype)), row, out=0)


def _column(p: Parts, name: str) -> Array:
    if f"{name}_strings" in p.given:
        raise ModelError("strings: not supported")
    if f"{name}_tensor" in p.given:
        found = numpy_helper.to_array(p.given[f"{name}_tensor"]).reshape(-1)
    elif f"{name}_int64s" in p.given:
        found = np.array(p.given[f"{name}_int64s"], np.int64)
    else:
        found = np.array(p.given.get(f"{name}_floats", []), np.float32)
    if found.dtype.kind not in "fi":
        raise ModelError(f"{name} of dtype {found.dtype}: not supported")
    return found


def _usual(p: Parts, kind: Any) -> Array:
    if "default_tensor" in p.given:
        return numpy_helper.to_array(p.given["default_tensor"]).reshape(-1)[:1].astype(kind)
    number = p.given.get("default_float", -0.0) if kind.kind == "f" else \
        p.given.get("default_int64", -1)  # fmt: skip
    return np.array([number], kind)


def _normalizer(p: Parts) -> None:
    x, kind = p.floats(), p.text("norm", "MAX")
    if kind == "MAX":
        size = p.along("ReduceMax", x)
    elif kind == "L1":
        size = p.along("ReduceL1", x)
    elif kind == "L2":
        size = p.along("ReduceL2", x)
    else:
        raise ModelError(f"norm {kind!r:.40}: not supported")
    zero = p.add("Equal", size, p.constant(0.0))
    p.add("Div", x, p.add("Where", zero, p.constant(1.0), size), out=0)


def _one_hot_encoder(p: Parts) -> None:
    if "cats_strings" in p.given:
        raise ModelError("strings: not supported")
    kind = helper.tensor_dtype_to_np_dtype(p.kind) if p.kind in _INTS else np.dtype(np.float32)
    x = p.node.input[0] if p.kind in _INTS else p.floats()
    wide = p.add("Unsqueeze", x, p.constant(np.array([-1])))
    found = p.add("Equal", wide, p.constant(np.array(p.given.get("cats_int64s", []), kind)))
    p.cast(found, TensorProto.FLOAT, out=0)


def _scaler(p: Parts) -> None:
    y = p.floats()
    offset, scale = (np.array(p.given.get(n, []), np.float32) for n in ("offset", "scale"))
    for name, numbers in (("offset", offset), ("scale", scale)):
        if numbers.size not in (0, 1, p.shape[-1]):
            raise ModelError(f"{name} has {numbers.size} numbers for {p.shape[-1]} features")
    if offset.size:
        y = p.add("Sub", y, p.constant(offset))
    y = p.add("Mul", y, p.constant(scale if scale.size else np.float32(1)), out=0)


FEATURES = {
    "ArrayFeatureExtractor": _array_feature_extractor, "Binarizer": _binarizer,
    "FeatureVectorizer": _feature_vectorizer, "Imputer": _imputer, "LabelEncoder": _label_encoder,
    "Normalizer": _normalizer, "OneHotEncoder": _one_hot_encoder, "Scaler": _scaler,
}  # fmt: skip
