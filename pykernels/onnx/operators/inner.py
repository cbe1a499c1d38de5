"""Operations of our own, which only our definitions of ai.onnx.ml use."""

from __future__ import annotations

from typing import Any

import pykernels as pk

from ..graph import Node
from .contrib import SHAPES, Kind
from .table import op

__all__ = ["INNER"]

INNER = "pykernels"  # their domain


def _places(_given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    values = kinds[1]
    return [None if values is None else (values[0], "int32")]


def _rows(_given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    table, rows = kinds[:2]
    if table is None or rows is None:
        return [None]
    return [((*rows[0], *table[0][1:]), table[1])]


def _features(_given: dict[str, Any], kinds: list[Kind | None], *_known: Any) -> list[Kind | None]:
    x, places = kinds[:2]
    return [None if x is None or places is None else (places[0], x[1])]


SHAPES |= {"Search": _places, "Rows": _rows, "Features": _features}


@op(f"{INNER}.Search")
def search(_node: Node, keys: Any, x: Any) -> Any:
    """The number of keys below each element of x."""
    return pk.searchsorted(keys, x)


@op(f"{INNER}.Rows")
def rows(_node: Node, table: Any, places: Any) -> Any:
    """Rows of a table, by places that count from 0."""
    found = pk.index_select(table, 0, places.reshape(-1))
    return found.reshape((*places.shape, *table.shape[1:]))


@op(f"{INNER}.Features")
def features(_node: Node, x: Any, places: Any) -> Any:
    """For each row of x (n, f), the elements at places (n, t), which count from 0."""
    return pk.gather(x, 1, places)
