"""Files and their external data, which must lie in the same folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import external_data_helper

from .errors import ModelError, blamed

__all__ = ["open_file"]


def open_file(path: str | Path) -> onnx.ModelProto:
    """The model of a file, with all its weights.

    Raises:
        ModelError: The file is no ONNX file, is cut off, or names data outside of its folder.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"{path} is no file")
    with blamed("file", str(path)):
        proto = onnx.load(str(path), load_external_data=False)
        if not proto.HasField("graph"):
            raise ModelError(f"{path} is no ONNX file: it has no graph")
        for tensor in _tensors(proto.graph):
            if external_data_helper.uses_external_data(tensor):
                _check_place(tensor, path.parent)
                external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
                tensor.data_location = onnx.TensorProto.DEFAULT
                del tensor.external_data[:]
    return proto


def _check_place(tensor: onnx.TensorProto, folder: Path) -> None:
    """Raise unless the data is in a plain file in the folder, and the file is long enough."""
    told = {e.key: e.value for e in tensor.external_data}
    place = told.get("location", "")
    base = folder.resolve()
    target = (base / place).resolve()
    if not place or Path(place).is_absolute() or not target.is_relative_to(base):
        raise ModelError(f"its data is in {place!r}, outside of the model's folder", "constant",
                         tensor.name)  # fmt: skip
    if not target.is_file():
        raise ModelError(f"its data is in {place!r}, which is no file", "constant", tensor.name)
    start, length = int(told.get("offset", 0)), int(told.get("length", 0))
    if start < 0 or length < 0 or start + length > target.stat().st_size:
        raise ModelError(
            f"its data is at bytes {start} to {start + length} of {place!r}, which has "
            f"{target.stat().st_size}", "constant", tensor.name,
        )  # fmt: skip


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a graph and of the graphs inside it."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _tensors(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors(inner)
