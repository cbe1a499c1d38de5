"""Tuning tables: the speeds of a device, which plans use; one TOML file for each kind of device.

A table is chosen once, when a device is created: the table that `pykernels tune` measured on this
adapter with this driver, or a shipped table by the adapter's name, type and limits. Plans read it
through `Caps.tuning`. With the same table, a call returns the same bits; another table may split a
sum in another way. `PYKERNELS_TUNING` names a file of the user, or a shipped table; with "off",
measured tables are ignored.

A file contains the changes to another table, which it names as its `base`:

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
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pykernels.errors import ArgumentError

from ._read import matches, merged, section, typed
from ._user import MARK, OFF, Adapter, is_of, path_of, save
from ._write import as_toml, changes
from .schema import Gemv, Matmul, Tuning

__all__ = [
    "OFF", "TABLES", "Adapter", "Found", "Gemv", "Matmul", "Tuning", "as_data", "as_file",
    "as_toml", "changes", "for_adapter", "load", "measured", "named", "of_data", "path_of", "save",
    "shipped", "with_section",
]  # fmt: skip

TABLES = (
    "generic-large", "generic-laptop", "generic-small", "nvidia-h200", "software", "swiftshader",
)  # fmt: skip
VARIABLE = "PYKERNELS_TUNING"
# The table that has every key.
_ROOT = "nvidia-h200"


class Found(NamedTuple):
    """The table of a device, and the reason why this table was chosen."""

    tuning: Tuning
    why: str


def for_adapter(
    name: str, kind: str, *, driver: str | None = None, engine: str = "", workgroup_bytes: int = 0
) -> Found:
    """The table for an adapter of this name and type: the table that VARIABLE names, else the table
    that was measured on this adapter with this driver and engine, else a shipped table.

    driver: None skips measured tables.
    workgroup_bytes: the bytes of the adapter's workgroup memory, 0 if unknown.
    """
    given = os.environ.get(VARIABLE, "")
    if given not in ("", "off"):
        return Found(load(given), f"{VARIABLE}={given}")
    if driver is not None and given != "off":
        found = measured(Adapter(name, driver, engine))
        if found is not None:
            return found
    return shipped(name, kind, workgroup_bytes)


def shipped(name: str, kind: str, workgroup_bytes: int = 0) -> Found:
    """The shipped table whose conditions hold. If there are several such tables, it is the table
    with the most conditions."""
    best, most, why = "generic-large", 0, "no table names this adapter"
    for table in TABLES:
        asked = _raw(table).get("match", {})
        for each in asked if isinstance(asked, list) else [asked]:
            found = matches(each, name, kind, workgroup_bytes, _where(table))
            if len(found) > most:
                best, most, why = table, len(found), " and ".join(found)
    return Found(named(best), why)


def measured(adapter: Adapter) -> Found | None:
    """The table that `pykernels tune` measured on this adapter. A table that cannot be used is
    ignored, with a warning."""
    file = path_of(adapter)
    try:
        if not file.is_file():
            return None
        text = file.read_text(encoding="utf-8")
        other = is_of(_parsed(text, str(file)), adapter)
        if not other:
            return Found(_from_text(str(file), text), f"measured by pykernels tune: {file}")
    except (OSError, UnicodeDecodeError, ArgumentError) as e:
        other = " ".join(str(e).split())
    warnings.warn(
        f"the tuning table {file} is ignored: {other}. `pykernels tune` measures a new one, "
        "`pykernels tune --off` puts this one aside", stacklevel=2,
    )  # fmt: skip
    return None


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
    """The shipped table of this name."""
    return typed(name, _data(name), _data(_ROOT), _where(name))


def as_data(tuning: Any) -> Any:
    """The table as data for JSON."""
    if isinstance(tuning, Mapping):
        return {k: as_data(v) for k, v in tuning.items()}
    if isinstance(tuning, tuple):
        return list(tuning)
    fields = getattr(tuning, "__dataclass_fields__", None)
    return {k: as_data(getattr(tuning, k)) for k in fields} if fields else tuning


def of_data(name: str, data: Mapping[str, Any]) -> Tuning:
    """The table with these values; none may be missing."""
    return typed(name, data, _data(_ROOT), name)


def with_section(tuning: Tuning, name: str, data: Mapping[str, Any]) -> Tuning:
    """A table with new values of one section; none may be missing."""
    return replace(tuning, **{name: section(name, data, _data(_ROOT))})


def as_file(tuning: Tuning, base: str, adapter: Adapter, notes: Mapping[str, str]) -> str:
    """The text of a table's file: the values that differ from the base, and the adapter on which
    they were measured."""
    head = {"base": base, MARK: {**adapter._asdict(), **notes}}
    own, before = as_data(tuning), as_data(named(base))
    return as_toml(head | changes(own | {"name": ""}, before | {"name": ""}))


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
    """The values of a file, merged over the values of its base."""
    own = {k: v for k, v in raw.items() if k not in ("base", "match", MARK)}
    base = raw.get("base")
    if base is None:
        return own
    if base not in TABLES:
        names = ", ".join(map(repr, TABLES))
        raise ArgumentError(f"[tuning] {file}: base must be one of {names} but is {base!r}")
    return merged(_data(base), own, file)
