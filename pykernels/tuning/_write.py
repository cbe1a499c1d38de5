"""Tables as TOML: the values in which a table differs from its base."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["as_toml", "changes"]

BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def changes(data: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `data` that differ from the values of `base`."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        before = base.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = changes(value, before)
            if inner:
                found[key] = inner
        elif value != before:
            found[key] = value
    return found


def as_toml(data: Mapping[str, Any]) -> str:
    return "\n".join(_table(data, "")) + "\n"


def _table(data: Mapping[str, Any], at: str) -> Iterator[str]:
    plain = {k: v for k, v in data.items() if not isinstance(v, Mapping)}
    if at and (plain or not data):
        yield from ("", f"[{at}]")
    yield from (f"{_key(k)} = {_value(v)}" for k, v in plain.items())
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _table(value, f"{at}.{_key(key)}" if at else _key(key))


def _key(name: str) -> str:
    return name if name and set(name) <= BARE else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        short = f"{value:.6g}".replace("e+", "e")
        same = math.isfinite(value) and float(short) == value and set(short) & set(".e")
        return short if same else repr(value)
    return json.dumps(value)  # strings, booleans, integers
