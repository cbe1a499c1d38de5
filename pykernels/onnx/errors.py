"""Errors of ONNX files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pykernels.errors import DeviceLostError, OutOfMemoryError, PyKernelsError

__all__ = ["ModelError", "ModelMemoryError", "NeedsValues", "blamed"]


class ModelError(PyKernelsError, ValueError):
    """The file cannot be run, or the inputs do not fit it.

    Attributes:
        reason: What is wrong.
        operator: The operation, or "" if no operation caused the error.
        node: The name of the node, or of its first output.
    """

    def __init__(self, reason: str, operator: str = "", node: str = "") -> None:
        self.reason, self.operator, self.node = reason, operator, node
        label = " ".join(filter(None, (operator, node)))
        super().__init__(f"[{label}] {reason}" if label else reason)


class NeedsValues(ModelError):
    """A node needs the values of some inputs of the graph before anything runs: `inputs` has their
    names. `inputs` is empty if the node needs values that are computed."""

    def __init__(self, reason: str, operator: str, node: str, inputs: frozenset[str]) -> None:
        super().__init__(reason, operator, node)
        self.inputs = inputs


class ModelMemoryError(ModelError, OutOfMemoryError):
    """The network does not fit into the memory of the device, or into the byte budget."""


@contextmanager
def blamed(operator: str = "", node: str = "") -> Iterator[None]:
    """A block in which each error, except a lost device, becomes a ModelError of this node."""
    try:
        yield
    except DeviceLostError:
        raise
    except ModelError as e:
        if e.operator or not operator:
            raise
        raise ModelError(e.reason, operator, node) from e
    except OutOfMemoryError as e:
        raise ModelMemoryError(str(e), operator, node) from e
    except Exception as e:
        said = " ".join(str(e).split())[:500]
        kind = "" if isinstance(e, PyKernelsError) else f"{type(e).__name__}: "
        raise ModelError(kind + said, operator, node) from e
