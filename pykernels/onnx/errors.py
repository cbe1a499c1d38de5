"""The errors of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pykernels.errors import DeviceLostError, OutOfMemoryError, PyKernelsError

__all__ = ["ModelError", "ModelMemoryError", "NeedsValues", "blamed"]


class ModelError(PyKernelsError, ValueError):
    """A file that cannot be run, or inputs that it does not take.

    Attributes:
        reason: What is wrong.
        operator: The operation, "" where it is none.
        node: The node's name, or its first output's.
    """

    def __init__(self, reason: str, operator: str = "", node: str = "") -> None:
        self.reason, self.operator, self.node = reason, operator, node
        label = " ".join(filter(None, (operator, node)))
        super().__init__(f"[{label}] {reason}" if label else reason)


class NeedsValues(ModelError):
    """What a node computes depends on the values of these inputs of the graph; none where it
    depends on what is computed."""

    def __init__(self, reason: str, operator: str, node: str, inputs: frozenset[str]) -> None:
        super().__init__(reason, operator, node)
        self.inputs = inputs


class ModelMemoryError(ModelError, OutOfMemoryError):
    """A network for which the device, or the byte budget, has no room."""


@contextmanager
def blamed(operator: str = "", node: str = "") -> Iterator[None]:
    """Whatever goes wrong inside is a ModelError of this node, but for a lost device."""
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
