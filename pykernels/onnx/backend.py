"""ONNX's own interface to programs that run files, for its test suite and for other tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx.backend.base import Backend as _Backend
from onnx.backend.base import BackendRep

from pykernels.device import Device

from .model import Model, load

__all__ = ["Backend", "Prepared"]


class Prepared(BackendRep):
    """A network, ready to run."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **options: Any) -> tuple[Any, ...]:
        """The outputs in the order of the file. Inputs come in the order of the file, or by
        name."""
        if not isinstance(inputs, Mapping):
            rows = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            names = [v.name for v in self.model.inputs]
            inputs = dict(zip(names, rows, strict=True))
        found = self.model(inputs)
        return tuple(found[v.name] for v in self.model.outputs)


class Backend(_Backend):
    """`onnx.backend.test` runs its tests through this class."""

    device: Device | None = None

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Prepared:
        """A network, ready to run on `Backend.device`."""
        return Prepared(load(model, device=cls.device))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Sequence[Any], device: str = "CPU", **options: Any
    ) -> tuple[Any, ...]:
        """The outputs of a network."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for the CPU and for CUDA, which ONNX's tests ask for; all tests run on
        `Backend.device`."""
        return device == "CPU"
