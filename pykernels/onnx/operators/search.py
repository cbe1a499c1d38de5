"""Places in sorted constants, for the definitions of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import pykernels as pk

from ..graph import Node
from .contrib import SHAPES, Kind
from .table import op

__all__ = ["INNER"]

INNER = "pykernels"  # the domain of operations that only our definitions write


def _places(_given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    values = kinds[1]
    return [None if values is None else (values[0], "int32")]


SHAPES["Search"] = _places


@op(f"{INNER}.Search")
def search(_node: Node, keys: Any, x: Any) -> Any:
    """The number of keys below each element of x."""
    return pk.searchsorted(keys, x)
