"""Writes tables of numbers that depend on the device as a typed module, for a user's plans.

`tuning/NAME.toml` is for devices for which pykernels uses its table NAME (`pykernels doctor` prints
it). One file has every key. Each other file has `base = "NAME"` and the keys that differ.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import BuildError

__all__ = ["emit_tuning"]

_KINDS = (int, float, bool, str)


def emit_tuning(files: Sequence[Path], folder: str) -> str:
    """`tuning.py`: a class for each section, the tables, and a function for a device's table."""
    given = {p.stem: _read(p, f"{folder}/{p.name}") for p in files}
    roots = [name for name, table in given.items() if "base" not in table]
    if len(roots) != 1:
        told = ", ".join(roots) or "none"
        raise BuildError(folder, 0, f"one table must be without base, but it is {told}")
    root = given[roots[0]]
    tables = {name: _merged(name, given, folder) for name in sorted(given)}
    lines = ["", "from typing import NamedTuple", "", "from pykernels.steps import Caps"]
    for section, row in root.items():
        lines += ["", "", f"class {_class(section)}(NamedTuple):"]
        lines += [f'    """The numbers of {section}."""', ""]
        lines += [f"    {key}: {type(value).__name__}" for key, value in row.items()]
    lines += ["", "", "class Tuning(NamedTuple):", '    """The numbers of a device."""', ""]
    lines += [f"    {section}: {_class(section)}" for section in root]
    lines += ["", "", "TABLES: dict[str, Tuning] = {"]
    for name, table in tables.items():
        parts = ", ".join(
            f"{_class(s)}({', '.join(map(repr, r.values()))})" for s, r in table.items()
        )
        lines.append(f"    {name!r}: Tuning({parts}),")
    return "\n".join([
        *lines, "}", "", "", "def tuning(caps: Caps) -> Tuning:",
        f'    """The table by the name of the device\'s own; that of {roots[0]} if none has it."""',
        f"    return TABLES.get(caps.tuning.name, TABLES[{roots[0]!r}])", "",
    ])  # fmt: skip


def _class(section: str) -> str:
    return "".join(part.capitalize() for part in section.split("_"))


def _read(path: Path, file: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise BuildError(file, 0, f"no TOML: {e}") from None
    for section, row in table.items():
        if section == "base" and isinstance(row, str):
            continue
        if not isinstance(row, dict) or not section.isidentifier():
            raise BuildError(file, 0, f"{section} must be a section with the name of a kernel")
        for key, value in row.items():
            if not isinstance(value, _KINDS) or not key.isidentifier():
                raise BuildError(file, 0, f"{section}.{key} must be a number, a truth or a text")
    return table


def _merged(name: str, given: Mapping[str, dict[str, Any]], folder: str) -> dict[str, Any]:
    """A table merged with its bases, in the order of the table that has every key."""
    chain, at = [name], name
    while "base" in given[at]:
        at = given[at]["base"]
        if at not in given or at in chain:
            told = f"base must be another table of the folder but is {at!r}"
            raise BuildError(f"{folder}/{chain[-1]}.toml", 0, told)
        chain.append(at)
    out = {section: dict(row) for section, row in given[at].items()}
    for other in reversed(chain[:-1]):
        for section, row in given[other].items():
            if section == "base":
                continue
            for key, value in row.items():
                file = f"{folder}/{other}.toml"
                if key not in out.get(section, {}):
                    raise BuildError(file, 0, f"{at} has no {section}.{key}")
                kind = type(out[section][key])
                if type(value) is not kind:
                    raise BuildError(file, 0, f"{section}.{key} must be of type {kind.__name__}")
                out[section][key] = value
    return out
