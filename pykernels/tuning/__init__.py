"""Tuning tables: the speeds of a device for plans, one TOML file for each kind of device.

A table is chosen once, when a device is made, from the adapter's name and type; plans read it
through `Caps.tuning`. The same call has the same bits with the same table; another table may cut a
sum into other splits. `PYKERNELS_TUNING` names a file of the user, or a shipped table.

A file contains its changes to another table, its `base`:

    base = "generic-large"
    [device]
    units = 40
    [matmul.gemm_tile]
    rate = 12e12
"""

from __future__ import annotations

import functools
import importlib.resources
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pykernels.errors import ArgumentError

from ._read import matches, merged, typed
from .schema import Gemv, Matmul, Tuning

__all__ = ["TABLES", "Found", "Gemv", "Matmul", "Tuning", "as_data", "for_adapter", "load", "named"]

TABLES = ("generic-large", "generic-small", "nvidia-h200", "software", "swiftshader")
VARIABLE = "PYKERNELS_TUNING"
# The table that has every key.
_ROOT = "nvidia-h200"


class Found(NamedTuple):
    """The table of a device, and the reason for the choice."""

    tuning: Tuning
    why: str


def for_adapter(name: str, kind: str) -> Found:
    """The table for an adapter of this name and type, or the user's own table."""
    given = os.environ.get(VARIABLE, "")
    if given:
        return Found(load(given), f"{VARIABLE}={given}")
    best, most, why = "generic-large", 0, "no table names this adapter"
    for table in TABLES:
        found = matches(_raw(table).get("match", {}), name, kind, _where(table))
        if len(found) > most:
            best, most, why = table, len(found), " and ".join(found)
    return Found(named(best), why)


def load(given: str) -> Tuning:
    """A shipped table by its name, or a table from a file; ArgumentError names a fault.

    The same text gives the same object.
    """
    if given in TABLES:
        return named(given)
    try:
        text = Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ArgumentError(
            f"[tuning] {given} must be a file that can be read, or one of {', '.join(TABLES)}: {e}"
        ) from None
    return _from_text(given, text)


@functools.lru_cache(maxsize=64)
def _from_text(file: str, text: str) -> Tuning:
    return typed(Path(file).stem, _complete(_parsed(text, file), file), _data(_ROOT), file)


@functools.cache
def named(name: str) -> Tuning:
    """One of the tables that are shipped."""
    return typed(name, _data(name), _data(_ROOT), _where(name))


def as_data(tuning: Any) -> Any:
    """A table as JSON holds it."""
    if isinstance(tuning, Mapping):
        return {k: as_data(v) for k, v in tuning.items()}
    if isinstance(tuning, tuple):
        return list(tuning)
    fields = getattr(tuning, "__dataclass_fields__", None)
    return {k: as_data(getattr(tuning, k)) for k in fields} if fields else tuning


def _where(name: str) -> str:
    return f"pykernels/tuning/{name}.toml"


@functools.cache
def _raw(name: str) -> dict[str, Any]:
    file = importlib.resources.files("pykernels.tuning") / f"{name}.toml"
    return _parsed(file.read_text(encoding="utf-8"), _where(name))


@functools.cache
def _data(name: str) -> dict[str, Any]:
    return _complete(_raw(name), _where(name))


def _parsed(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise ArgumentError(f"[tuning] {file} is not TOML: {e}") from None


def _complete(raw: dict[str, Any], file: str) -> dict[str, Any]:
    """The values of a file over the values of its base."""
    own = {k: v for k, v in raw.items() if k not in ("base", "match")}
    base = raw.get("base")
    if base is None:
        return own
    if base not in TABLES:
        names = ", ".join(map(repr, TABLES))
        raise ArgumentError(f"[tuning] {file}: base must be one of {names} but is {base!r}")
    return merged(_data(base), own, file)
