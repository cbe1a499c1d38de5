"""Operations of ONNX as calls of pykernels' functions: one entry each, by the operation's name.

An entry takes the node and its inputs, None for a missing input, and returns the output or a list
of outputs. Inputs are tensors, with two exceptions. Inputs numbered in `host` are numpy arrays:
they contain axes or sizes, so they must be constants. Inputs numbered in `either` are numpy arrays
if they are constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pykernels.device import Device, Tensor

from ..errors import ModelError
from ..graph import Array, Node

Entry = Callable[..., Any]
ENTRIES: dict[str, Entry] = {}
HOST: dict[str, tuple[int, ...]] = {}
EITHER: dict[str, tuple[int, ...]] = {}


def op(
    *names: str, host: tuple[int, ...] = (), either: tuple[int, ...] = ()
) -> Callable[[Entry], Entry]:
    """Decorate a function as the entry of these operations."""

    def enter(entry: Entry) -> Entry:
        for name in names:
            ENTRIES[name], HOST[name], EITHER[name] = entry, host, either
        return entry

    return enter


def refuse(node: Node, what: str) -> ModelError:
    """The error for a node that an entry cannot compute."""
    return ModelError(f"{what}: not supported", node.op, node.label)


def numbers(node: Node, name: str, given: Array | None = None, default: Any = None) -> Any:
    """Integers from an input, or in older files from an attribute."""
    if given is not None:
        return [int(v) for v in given.reshape(-1)]
    return node.attributes.get(name, default)


def text(node: Node, name: str, default: str) -> str:
    found: str = node.attributes.get(name, default.encode()).decode()
    return found


def kept(node: Node, name: str, device: Device, array: Array) -> Tensor:
    """A constant array of the entry on the device, uploaded by the first call. If the first call is
    in a capture, the array is written after the capture."""
    if name not in node.kept:
        if node.later is None:
            node.kept[name] = device.tensor(array)
        else:
            if array.dtype == np.float64:
                array = array.astype(np.float32)
            kind: Any = array.dtype.name
            node.kept[name] = device.empty(array.shape, kind)
            node.later.append((node.kept[name], array))
    found: Tensor = node.kept[name]
    return found
