"""The part of onnxruntime's `InferenceSession` that most code uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnx

from pykernels.device import Device

from .errors import ModelError, blamed
from .model import load
from .shapes import Value

__all__ = ["InferenceSession", "NodeArg"]

_TYPES = {"float32": "float", "float64": "double"}


class NodeArg(NamedTuple):
    """An input or output, as onnxruntime describes it."""

    name: str
    shape: list[int | str | None]
    type: str


class InferenceSession:
    """A network with the methods of onnxruntime's sessions.

        session = pk.onnx.InferenceSession("file.onnx")
        (y,) = session.run(None, {"x": image})

    Args:
        path_or_bytes: A path, or the bytes of a file.
        device: The device that runs the network; None is the default device.
        others: Options of onnxruntime (`providers`, `sess_options`), which are ignored.
    """

    def __init__(
        self, path_or_bytes: str | Path | bytes, sess_options: Any = None,
        providers: Sequence[Any] | None = None, *, device: Device | None = None, **others: Any,
    ) -> None:  # fmt: skip
        file: str | Path | onnx.ModelProto
        if isinstance(path_or_bytes, bytes):
            with blamed("file"):
                file = onnx.load_from_string(path_or_bytes)
        else:
            file = path_or_bytes
        self.model = load(file, device=device)

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:  # fmt: skip
        """The outputs of these names, in this order; with None, all outputs."""
        names = [v.name for v in self.model.outputs] if output_names is None else output_names
        known = {v.name for v in self.model.outputs}
        for name in names:
            if name not in known:
                raise ModelError(f"there is no output {name}: outputs are {', '.join(known)}")
        found = self.model(input_feed)
        return [found[n] for n in names]

    def get_inputs(self) -> list[NodeArg]:
        """Names, shapes and types of the inputs."""
        return [_arg(v) for v in self.model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Names, shapes and types of the outputs."""
        return [_arg(v) for v in self.model.outputs]

    def get_providers(self) -> list[str]:
        """A list with one name, because there is one way to run a network."""
        return ["PyKernelsExecutionProvider"]


def _arg(value: Value) -> NodeArg:
    kind = re.sub(r"\w+(?=\)*$)", lambda m: f"tensor({_TYPES.get(m[0], m[0])})", value.dtype)
    for ours, its in (("sequence(", "seq("), ("str, ", "string,"), (", ", ",")):
        kind = kind.replace(ours, its)
    return NodeArg(value.name, list(value.shape or ()), kind)
