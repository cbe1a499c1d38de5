"""Reads the spec block of a kernel source, with the file and line of each key.

A line `// include NAME` stands for the lines of the table NAME of `blocks.toml` in the family's
folder, or else in `kernels/lib`. A key of several names, such as `params."across down"`, stands for
each of these names. An axis may have its pick beside its values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pykernels.export._expressions import NotTranslated, spec_expression
from pykernels.wgsl import expr
from pykernels.wgsl.interface import CONFIG

from .errors import BuildError
from .keys import TABLES, contradictions, meant

__all__ = ["BLOCKS", "Reader"]

BLOCKS = "blocks.toml"  # a file of a family, or of lib, with lines that several specs include
INCLUDE = re.compile(r"// include (\w+)")
# tables in which one key may list several names
_NAMED = ("axes", "inputs", "outputs", "params", "options")


class Reader:
    """Reads one spec, with the line of each key."""

    def __init__(self, path: Path, file: str) -> None:
        self.path, self.file = path, file
        # the file and line that each line of the block comes from
        self.places: list[tuple[str, int]] = []
        try:
            self.text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as e:
            raise BuildError(file, 1, f"a kernel source must be UTF-8, but {e}") from None
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
        self.block, self.places = self._included(lines[1:end])
        self.body_line = end + 2
        self.fields: tuple[str, ...] = ()  # fields of a configuration
        try:
            self.data: dict[str, Any] = tomllib.loads("\n".join(self.block))
        except (tomllib.TOMLDecodeError, RecursionError) as e:
            found = re.search(r"at line (\d+)", str(e))
            at = min(int(found[1]), len(self.block)) + 1 if found else 1
            self.fail(at, f"the spec block is no TOML: {e}")
        for table in _NAMED:
            if isinstance(self.data.get(table), dict):
                self.data[table] = self._each(table, self.data[table])
        self._pick_of_axes()

    def _each(self, table: str, given: dict[str, Any]) -> dict[str, Any]:
        """The table with one key for each name; in a source file, a key may list several names."""
        found: dict[str, Any] = {}
        for key, value in given.items():
            for name in key.split() or [key]:
                if name in found:
                    self.fail(self.line(table, name), f"{table}.{name} is given twice")
                found[name] = dict(value) if isinstance(value, dict) else value
        return found

    def _pick_of_axes(self) -> None:
        """Move the pick that an axis has beside its values to the table of picks."""
        axes = self.data.get("axes")
        if not isinstance(axes, dict):
            return
        for name, value in axes.items():
            if not isinstance(value, dict):
                continue
            self.checked(value, "an axis", "axes", name)
            for key in ("values", "pick"):
                if key not in value:
                    self.fail(self.line("axes", name), f"axes.{name} has no {key!r}")
            picks = self.data.setdefault("pick", {})
            if isinstance(picks, dict) and name in picks:
                self.fail(self.line("pick", name), f"pick.{name} is given twice")
            axes[name], picks[name] = value["values"], value["pick"]

    def _included(self, lines: Sequence[str]) -> tuple[list[str], list[tuple[str, int]]]:
        """The text of the block with its included lines, and the file and line of each line."""
        texts: list[str] = []
        places = [(self.file, 1)]
        for i, line in enumerate(lines, 2):
            found = INCLUDE.fullmatch(line.rstrip())
            if not found:
                texts.append(line[3:])
                places.append((self.file, i))
                continue
            for folder in (self.path.parent, self.path.parents[1] / "lib"):
                block = _blocks(folder / BLOCKS).get(found[1])
                if block is not None:
                    first, text = block
                    texts += text
                    file = f"{Path(self.file).parents[1].as_posix()}/{folder.name}/{BLOCKS}"
                    places += [(file, first + k) for k in range(len(text))]
                    break
            else:
                raise BuildError(
                    self.file, i, f"there is no [{found[1]}] in {BLOCKS} of the family or of lib"
                )
        return texts, places

    def line(self, *keys: str) -> int:
        """The line of a key, counted from the start of the file after lines are included."""
        *tables, last = map(re.escape, keys)
        named = rf'(?:{last}|"(?:[^"]* )?{last}(?: [^"]*)?")'
        dotted = r"\s*\.\s*".join([*tables, named])
        starts = re.compile(rf"\s*{dotted}\s*[.=]").match
        for i, text in enumerate(self.block, 2):
            if starts(text):
                return i
        if keys[0] == "pick" and len(keys) == 2:  # `pick` may stand in the axis's own table
            return self.line("axes", last)
        return self.line(*keys[:-1]) if len(keys) > 1 else 1

    def fail(self, line: int, message: str) -> NoReturn:
        file, at = self.file, line
        if line <= len(self.places):
            file, at = self.places[line - 1]
        raise BuildError(file, at, message)

    def known(self, table: Any, allowed: Collection[str], *keys: str, kind: str = "") -> None:
        """Fail unless all keys of a table are known; `kind` is its name in `keys.TABLES`."""
        if not isinstance(table, dict):
            self.fail(self.line(*keys), f"{'.'.join(keys)} must be a table")
        for k in table:
            if k not in allowed:
                where = ".".join((*keys, k))
                self.fail(self.line(*keys, k), f"unknown key {where!r}{meant(k, allowed, kind)}")

    def checked(self, table: Any, kind: str, *keys: str) -> None:
        """Fail unless all keys of a table are known, have the right type, and go together."""
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

    def step_expr(self, text: Any, names: set[str], *keys: str) -> str:
        """An expression that `step` evaluates, in Python and in JavaScript."""
        checked = self.expr(text, names, *keys)
        try:
            spec_expression(checked)
        except NotTranslated as e:
            self.fail(
                self.line(*keys), f"{'.'.join(keys)}: {checked!r} has no JavaScript: {e.args[0]}"
            )
        return checked


def _blocks(path: Path) -> dict[str, tuple[int, list[str]]]:
    """The tables of a file of blocks, by name; each has its lines and the number of its first
    line."""
    found: dict[str, tuple[int, list[str]]] = {}
    if not path.is_file():
        return found
    lines: list[str] = []
    for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if head := re.fullmatch(r"\[(\w+)\]", line.rstrip()):
            lines = []
            found[head[1]] = (i + 1, lines)
        else:
            lines.append(line)
    return found
