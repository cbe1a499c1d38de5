"""Reads the spec block of a kernel source and knows the line of each key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

from pykernels.wgsl import expr
from pykernels.wgsl.interface import CONFIG

from .errors import BuildError
from .keys import TABLES, contradictions, meant

__all__ = ["Reader"]


class Reader:
    """Reads one spec and knows the line of each of its keys."""

    def __init__(self, path: Path, file: str) -> None:
        self.path, self.file = path, file
        self.text = path.read_text(encoding="utf-8")
        lines = self.text.splitlines()
        if not lines or lines[0].strip() != "// /// kernel":
            self.fail(1, "a kernel source starts with the line '// /// kernel'")
        try:
            end = next(i for i, line in enumerate(lines[1:], 1) if line.strip() == "// ///")
        except StopIteration:
            self.fail(1, "the spec block has no closing line '// ///'")
        for i, line in enumerate(lines[1:end], 2):
            if line.strip() != "//" and not line.startswith("// "):
                self.fail(i, "a line of the spec block does not start with '// '")
        self.block = [line[3:] for line in lines[1:end]]
        self.body_line = end + 2
        self.fields: tuple[str, ...] = ()  # of a configuration
        try:
            self.data: dict[str, Any] = tomllib.loads("\n".join(self.block))
        except tomllib.TOMLDecodeError as e:
            found = re.search(r"at line (\d+)", str(e))
            self.fail(1 + int(found[1]) if found else 1, f"the spec block is no TOML: {e}")

    def line(self, *keys: str) -> int:
        dotted = r"\s*\.\s*".join(re.escape(k) for k in keys)
        starts = re.compile(rf"\s*{dotted}\s*[.=]").match
        for i, text in enumerate(self.block, 2):
            if starts(text):
                return i
        return self.line(*keys[:-1]) if len(keys) > 1 else 1

    def fail(self, line: int, message: str) -> NoReturn:
        raise BuildError(self.file, line, message)

    def known(self, table: Any, allowed: Collection[str], *keys: str, kind: str = "") -> None:
        """All keys of a table are known; `kind` names the table of `keys.TABLES` that it is."""
        if not isinstance(table, dict):
            self.fail(self.line(*keys), f"{'.'.join(keys)} must be a table")
        for k in table:
            if k not in allowed:
                where = ".".join((*keys, k))
                self.fail(self.line(*keys, k), f"unknown key {where!r}{meant(k, allowed, kind)}")

    def checked(self, table: Any, kind: str, *keys: str) -> None:
        """All keys of a table are known, have a value of their type, and go together."""
        types = TABLES[kind]
        self.known(table, types, *keys, kind=kind)
        where = "".join(f"{k}." for k in keys)
        for k, value in table.items():
            if not isinstance(value, types[k].kinds):
                self.fail(
                    self.line(*keys, k), f"{where}{k} must be {types[k].words} but is {value!r}"
                )
        for one, other, why in contradictions(kind, table):
            self.fail(
                self.line(*keys, other),
                f"{where}{one} and {where}{other} exclude each other: {why}",
            )

    def expr(self, text: Any, names: set[str], *keys: str) -> str:
        if not isinstance(text, str):
            self.fail(self.line(*keys), f"{'.'.join(keys)} must be an expression in quotes")
        try:
            return expr.check(text, names, {CONFIG: self.fields})
        except expr.ExprError as e:
            self.fail(self.line(*keys), f"{'.'.join(keys)}: {e}")
