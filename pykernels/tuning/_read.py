"""Reads tables: checks the keys of a file by the types of the schema."""

from __future__ import annotations

import functools
import math
import re
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from pykernels.errors import ArgumentError

from .schema import Match, Tuning

__all__ = ["matches", "merged", "section", "typed"]

# Keys that must not be 0, for example because they are divisors.
_POSITIVE = (
    "units", "copy", "rate", "rates", "direct_rate", "resident", "most", "shortest",
    "shortest_rows", "cache_waves", "lane_splits", "side", "band_side", "room",
)  # fmt: skip


def _wrong(file: str, key: str, rule: str, value: object) -> ArgumentError:
    return ArgumentError(f"[tuning] {file}: {key} must be {rule} but is {value!r}")


def merged(base: Mapping[str, Any], own: Any, file: str, at: str = "") -> dict[str, Any]:
    """`base` with the values of `own`, which may have only keys of `base`."""
    if not isinstance(own, dict):
        raise _wrong(file, at, "a table", own)
    out = dict(base)
    for key, value in own.items():
        path = f"{at}.{key}" if at else key
        if key not in base:
            known = ", ".join(base)
            raise ArgumentError(f"[tuning] {file}: there is no {path}; known here: {known}")
        inner = base[key]
        out[key] = merged(inner, value, file, path) if isinstance(inner, dict) else value
    return out


def typed(name: str, data: Mapping[str, Any], root: Mapping[str, Any], file: str) -> Tuning:
    """The table `name` from its keys and values; `root` has every key and all names of bodies."""
    made: Tuning = _value(Tuning, {"name": name, **data}, {"name": name, **root}, file, "")
    return made


def section(name: str, data: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """One section of a table from its keys and values."""
    return _value(_hints(Tuning)[name], data, root[name], "a table", name)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _value(kind: Any, value: Any, root: Any, file: str, at: str) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, dict):
            raise _wrong(file, at, "a table", value)
        names = [f.name for f in fields(kind)]
        for key in names:
            if key not in value:
                raise ArgumentError(f"[tuning] {file}: {_path(at, key)} is missing")
        for key in value:
            if key not in names:
                known = ", ".join(names)
                raise ArgumentError(
                    f"[tuning] {file}: there is no {_path(at, key)}; known here: {known}"
                )
        hints = _hints(kind)
        inner = {k: _value(hints[k], value[k], root.get(k, {}), file, _path(at, k)) for k in names}
        return kind(**inner)
    if get_origin(kind) is not None and get_origin(kind) is not tuple:  # a mapping
        if not isinstance(value, dict):
            raise _wrong(file, at, "a table", value)
        inner = get_args(kind)[1]
        return types.MappingProxyType(
            {k: _value(inner, v, root.get(k, {}), file, _path(at, k)) for k, v in value.items()}
        )
    if kind is str:
        return value
    if get_origin(kind) is tuple:
        return _list(get_args(kind)[0], value, root, file, at)
    whole = kind is int
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    above = any(part in _POSITIVE for part in at.split("."))
    if not number or not math.isfinite(value) or value < 0 or (above and value == 0):
        word = "integer" if whole else "number"
        least = "above 0" if above else "of at least 0"
        raise _wrong(file, at, f"{'an' if whole else 'a'} {word} {least}", value)
    return int(value) if whole else float(value)


def _list(kind: Any, value: Any, root: Any, file: str, at: str) -> tuple[Any, ...]:
    if kind is float:  # a partial wave
        steps = isinstance(value, list) and all(isinstance(v, int | float) for v in value)
        if not steps or len(value) < 2 or value[0] != 0 or value[-1] != 1:
            raise _wrong(file, at, "a list of numbers from 0.0 to 1.0", value)
        return tuple(map(float, value))
    if not isinstance(value, list) or not all(v in root for v in value):
        raise _wrong(file, at, f"a list of some of {', '.join(map(repr, root))}", value)
    return tuple(value)


def _path(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key


def matches(raw: Any, name: str, kind: str, workgroup_bytes: int, file: str) -> list[str]:
    """The conditions of a `[match]` that hold, in words; an empty list if one of them fails."""
    if not isinstance(raw, dict):
        raise _wrong(file, "match", "a table, or several", raw)
    unknown = raw.keys() - {f.name for f in fields(Match)}
    if unknown:
        raise ArgumentError(f"[tuning] {file}: there is no match.{min(unknown)}")
    for key in ("names", "types"):
        value = raw.get(key, [])
        if not isinstance(value, list) or not all(isinstance(s, str) for s in value):
            raise _wrong(file, f"match.{key}", "a list of strings", value)
    least = raw.get("workgroup_bytes", 0)
    if not isinstance(least, int) or isinstance(least, bool) or least < 0:
        raise _wrong(file, "match.workgroup_bytes", "an integer of at least 0", least)
    asked = Match(tuple(raw.get("names", ())), tuple(raw.get("types", ())), least)
    found = []
    if asked.names:
        pattern = next((p for p in asked.names if re.search(p, name)), None)
        if pattern is None:
            return []
        found.append(f"its name contains {pattern}")
    if asked.types:
        if kind not in asked.types:
            return []
        found.append(f"its type is {kind}")
    if asked.workgroup_bytes:
        if not 0 < workgroup_bytes <= asked.workgroup_bytes:
            return []
        found.append(f"its workgroups have {workgroup_bytes} bytes")
    return found
