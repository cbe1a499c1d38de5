"""Reads reductions from a family's `reductions.toml`: the rows with shader texts, and the kernels
that they make.

Every key is described in docs/reference/spec.md.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from pykernels.wgsl.rows import CLASSES, class_of, typed, value_type

from .errors import BuildError
from .keys import meant
from .ops import Text

__all__ = ["FILE", "Reduced", "Reduction", "emit_reductions", "load_reductions", "read_table"]

FILE = "reductions.toml"
# Values of a kernel's `output`: how the dtype of the result follows from the dtype of x.
OUTPUTS = ("same", "wide", "float", "int32", "bool")
_TEXTS = ("init", "one", "combine", "follow")
_ROW = {
    "classes": str, "state": dict, "init": str, "one": (str, dict), "combine": str, "follow": str,
    "batch": str, "finish": dict, "helpers": str, "typed_helpers": str,
}  # fmt: skip
_KERNEL = {"doc": str, "output": str, "empty": bool, "option": dict, "operations": int}
_OPTION = {"name": str, "type": str, "default": (int, float), "doc": str}
# V, U and I have a value for each component; f32 has one value for all components
_FIELD_TYPES = ("V", "U", "I", "f32")


@dataclass(frozen=True)
class Reduction:
    """One reduction: its state, the code that makes and combines states, and the result."""

    name: str
    classes: tuple[str, ...]
    state: Mapping[str, str]  # the type of each field
    texts: Mapping[str, Mapping[str, Text]]  # the text for each key and class of dtypes
    finishes: Mapping[str, Mapping[str, Text]]  # the text for each name and class of dtypes
    batch: str = ""  # the macro of lib/reductions that reduces several values at once
    helpers: Text | None = None
    typed_helpers: Text | None = None
    outputs: tuple[str, ...] = ()  # the values of `output` of the kernels that it makes

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Short names of the dtypes that it reads."""
        return tuple(d for c in self.classes for d in CLASSES[c])

    def packed(self, dtype: str) -> bool:
        """True if a result may be narrower than a word when x is read as this dtype."""
        outputs = set(self.outputs)
        return bool(outputs & {"same", "bool"} or (dtype == "f16" and outputs - {"int32"}))

    def value(self, dtype: str, vec: int) -> str:
        """The type of a value."""
        return value_type("V", dtype, vec)

    def fields(self, dtype: str) -> list[tuple[str, str]]:
        """The fields of a state of one component, with their types."""
        return [(name, _scalar(kind, dtype)) for name, kind in self.state.items()]

    def functions(self, dtype: str, vec: int, reads: bool = True) -> str:
        """The WGSL of the reduction: the state S of `vec` components, the state Z of one component,
        functions that combine states, and `finish`; if the body reads values, also `one` and
        `follow`."""
        lines = self._states(dtype, vec, "S", "")
        if vec == 1:
            lines += ["alias Z = S;", "fn combine_z(a: Z, b: Z) -> Z { return combine(a, b); }"]
        else:
            lines += self._states(dtype, 1, "Z", "_z")
            for e in range(vec):
                parts = ", ".join(
                    f"s.{name}" if kind == "f32" else f"s.{name}[{e}]"
                    for name, kind in self.state.items()
                )
                lines.append(f"fn component_{e}(s: S) -> Z {{ return Z({parts}); }}")
        if reads and "one" in self.texts:
            one = self.texts["one"][class_of(dtype)]
            lines += _function("one(x: V, i: U) -> S", one, dtype, vec)
        if reads:
            follow = self.texts.get("follow", self.texts["combine"])[class_of(dtype)]
            lines += _function("follow(a: S, b: S) -> S", follow, dtype, vec)
        if self.helpers:
            lines += _lines(self.helpers, dtype, 1)
        return "\n".join([*lines, *self._finish(dtype)])

    def _states(self, dtype: str, vec: int, name: str, suffix: str) -> list[str]:
        """The struct, its helpers, `init` and `combine`; `suffix` makes their names unique."""
        members = ", ".join(
            f"{field}: {kind if kind == 'f32' else value_type(kind, dtype, vec)}"
            for field, kind in self.state.items()
        )
        lines = [f"struct {name} {{ {members} }}"]
        lines += _lines(self.typed_helpers, dtype, vec) if self.typed_helpers else []
        for key, head in (("init", "init() -> S"), ("combine", "combine(a: S, b: S) -> S")):
            lines += _function(head, self.texts[key][class_of(dtype)], dtype, vec)
        if not suffix:
            return lines
        renamed = {n: n + suffix for n in ("init", "combine", *_names(self.typed_helpers))}
        renamed["S"] = name
        words = re.compile(rf"\b({'|'.join(renamed)})\b")
        return [words.sub(lambda m: renamed[m[0]], line) for line in lines]

    def _finish(self, dtype: str) -> list[str]:
        """The function `finish`, which returns the bits of the result that `p.finish` selects."""
        kind = class_of(dtype)
        found = [(i, n, t[kind]) for i, (n, t) in enumerate(self.finishes.items()) if kind in t]
        lines = []
        for _, name, text in found:
            lines += _function(f"{name}_of(a: Z) -> u32", text, dtype, 1)
        *others, (_, last, _) = found
        chosen = [f"  if (p.finish == {i}u) {{ return {n}_of(a); }}" for i, n, _ in others]
        return [*lines, "fn finish(a: Z) -> u32 {", *chosen, f"  return {last}_of(a);", "}"]


@dataclass(frozen=True)
class Reduced:
    """A public kernel, which is a finish of one or more reductions."""

    name: str
    file: str
    line: int
    doc: str
    output: str
    empty: bool  # True if a reduction of no elements has a result
    option: Mapping[str, Any] | None
    operations: int  # operations for each element
    rows: tuple[str, ...]  # the reductions that have the finish of this kernel


def _lines(text: Text, dtype: str, vec: int) -> list[str]:
    """The lines of a text for values of a dtype, with their marks."""
    return [typed(line, dtype, vec) for line in text.lines()]


def _scalar(kind: str, dtype: str) -> str:
    return kind if kind == "f32" else value_type(kind, dtype, 1)


def _names(text: Text | None) -> list[str]:
    """The functions that a text declares."""
    return re.findall(r"\bfn (\w+)", text.text) if text else []


def _function(head: str, text: Text, dtype: str, vec: int) -> list[str]:
    """A WGSL function whose text is an expression or a list of statements."""
    lines = _lines(text, dtype, vec)
    if not any(line.lstrip().startswith("return ") for line in lines):
        body, mark, where = lines[0].partition(" //@")
        lines = [f"return {body};{mark}{where}"]
    return [typed(f"fn {head} {{", dtype, vec), *lines, "}"]


class _Table:
    """One reductions.toml, with the line of each key."""

    def __init__(self, path: Path, file: str) -> None:
        self.file = file
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as e:
            found = re.search(r"at line (\d+)", str(e))
            self.fail(int(found[1]) if found else 1, f"no TOML: {e}")
        for key in self.data:
            if key not in ("reductions", "kernels"):
                self.fail(1, f"unknown table {key!r}: there are reductions and kernels")

    def fail(self, line: int, message: str) -> NoReturn:
        raise BuildError(self.file, line, message)

    def line(self, table: str, row: str, *keys: str) -> int:
        """The line of a row's header, or of one of its keys."""
        header = rf"\[{table}\.{re.escape(row)}\]"
        at = next((i for i, t in enumerate(self.lines, 1) if re.match(header, t)), 1)
        dotted = r"\.".join(map(re.escape, keys))
        for i, text in enumerate(self.lines[at:], at + 1):
            if not keys or text.startswith("["):
                break
            if re.match(rf"{dotted}\s*[.=]", text):
                return i
        return at if len(keys) < 2 else self.line(table, row, *keys[:-1])

    def text(self, row: str, *keys: str) -> Text:
        value: Any = self.data["reductions"][row]
        for key in keys:
            value = value[key]
        line = self.line("reductions", row, *keys)
        opens = self.lines[line - 1].rstrip().endswith(("'''", '"""'))
        return Text(value, self.file, line + opens)

    def check(self, table: str, row: str, known: Mapping[str, Any], needed: Sequence[str]) -> None:
        data = self.data[table][row]
        for key, value in data.items():
            if key not in known:
                line = self.line(table, row, key)
                self.fail(line, f"{row}: unknown key {key!r}{meant(key, known)}")
            if not isinstance(value, known[key]):
                self.fail(self.line(table, row, key), f"{row}: {key} cannot be {value!r}")
        for key in needed:
            if key not in data:
                self.fail(self.line(table, row), f"{row} has no {key!r}")


def load_reductions(root: Path) -> tuple[list[Reduction], list[Reduced]]:
    """The reductions of all families and the kernels that they make."""
    rows: list[Reduction] = []
    kernels: list[Reduced] = []
    for path in sorted((root / "kernels").glob(f"*/{FILE}")):
        found, named = read_table(path, path.relative_to(root).as_posix())
        rows += found
        kernels += named
    return rows, kernels


def read_table(path: Path, file: str) -> tuple[list[Reduction], list[Reduced]]:
    """The reductions and kernels of one table. A BuildError names the file and line of a
    mistake."""
    table = _Table(path, file)
    rows = [_reduction(table, name) for name in table.data.get("reductions", {})]
    kernels = [_kernel(table, name, rows) for name in table.data.get("kernels", {})]
    return [replace(row, outputs=_outputs(row, kernels)) for row in rows], kernels


def _outputs(row: Reduction, kernels: Sequence[Reduced]) -> tuple[str, ...]:
    return tuple(k.output for k in kernels if row.name in k.rows)


def _is_of(finish: str, kernel: str) -> bool:
    """True if a finish belongs to this kernel. A norm has one finish for each order."""
    return finish == kernel or finish.startswith(f"{kernel}_")


def _reduction(t: _Table, name: str) -> Reduction:
    t.check("reductions", name, _ROW, ("classes", "state", "init", "combine", "finish"))
    data = t.data["reductions"][name]
    classes = tuple(data["classes"].split())
    if not classes or not set(classes) <= set(CLASSES):
        line = t.line("reductions", name, "classes")
        t.fail(line, f"{name}: classes must be some of {', '.join(CLASSES)}")
    if ("one" in data) == ("batch" in data):
        t.fail(t.line("reductions", name), f"{name} must have either 'one' or 'batch'")
    for field, kind in data["state"].items():
        if kind not in _FIELD_TYPES:
            line = t.line("reductions", name, "state")
            t.fail(line, f"{name}: {field} must be one of {', '.join(_FIELD_TYPES)}")

    def by_class(*keys: str) -> dict[str, Text]:
        value = data
        for key in keys:
            value = value[key]
        if isinstance(value, str):
            return dict.fromkeys(classes, t.text(name, *keys))
        for kind in value:
            if kind not in classes:
                t.fail(t.line("reductions", name, *keys), f"{name} has no class {kind!r}")
        return {kind: t.text(name, *keys, kind) for kind in value}

    texts = {key: by_class(key) for key in _TEXTS if key in data}
    if "one" in texts and set(texts["one"]) != set(classes):
        t.fail(t.line("reductions", name, "one"), f"{name}: one must have every class")
    helpers, typed = (t.text(name, k) if k in data else None for k in ("helpers", "typed_helpers"))
    finishes = {k: by_class("finish", k) for k in data["finish"]}
    return Reduction(
        name, classes, data["state"], texts, finishes, data.get("batch", ""), helpers, typed
    )


def _kernel(t: _Table, name: str, rows: Sequence[Reduction]) -> Reduced:
    t.check("kernels", name, _KERNEL, ("doc", "output"))
    data = t.data["kernels"][name]
    line = t.line("kernels", name)
    if data["output"] not in OUTPUTS:
        t.fail(line, f"{name}: output must be one of {', '.join(OUTPUTS)}")
    own = tuple(row.name for row in rows if any(_is_of(f, name) for f in row.finishes))
    if not own:
        t.fail(line, f"{name}: there is no finish of this name")
    option = data.get("option")
    if option is not None and (option.keys() != _OPTION.keys()):
        t.fail(t.line("kernels", name, "option"), f"{name}: an option has {', '.join(_OPTION)}")
    return Reduced(
        name,
        t.file,
        line,
        data["doc"].strip(),
        data["output"],
        data.get("empty", False),
        option,
        data.get("operations", 1),
        own,
    )


def emit_reductions(rows: Sequence[Reduction], kernels: Sequence[Reduced]) -> str:
    """`_generated/ops/reductions.py`: the facts about each finish for plans, as tuples."""
    lines = [
        f'"""Generated from kernels/*/{FILE} by codegen; do not edit."""', "",
        "from __future__ import annotations", "",
        "# By name of a finish: the reduction, the number of the finish, words of a state, and the",
        "# classes of dtypes that the reduction reads.",
        "FINISHES: dict[str, tuple[str, int, int, tuple[str, ...]]] = {",
    ]  # fmt: skip
    for row in rows:
        for number, (name, texts) in enumerate(row.finishes.items()):
            entry = (row.name, number, len(row.state), tuple(texts))
            lines.append(f"    {name!r}: {entry!r},")
    lines += [
        "}", "",
        "# By kernel: the dtype of the result, and may there be no elements?",
        "RESULTS: dict[str, tuple[str, bool]] = {",
    ]  # fmt: skip
    lines += [f"    {k.name!r}: {(k.output, k.empty)!r}," for k in kernels]
    return "\n".join([*lines, "}", ""])
