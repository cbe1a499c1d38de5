"""Operations as rows of a family's `ops.toml`: their shader text, numpy meaning and rules.

Every key is described in docs/reference/spec.md.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pykernels.wgsl import expr

from .errors import BuildError
from .keys import meant

__all__ = ["CLASSES", "ROW", "Row", "Text", "all_rows", "gated", "load_rows", "value_type"]

ROW = "ROW"  # the name of a variant's operation in templates and in `when`

# The dtypes of a class, by their short names; what is stored in 16 bits is computed in f32.
CLASSES = {"float": ("f32", "f16"), "int": ("i32",), "uint": ("u32",)}
SPECIAL = ("erf",)  # functions of pykernels.special
_KEYS = {
    "doc": str, "body": str, "inputs": str, "output": str, "wgsl": dict, "gate": str,
    "helpers": list, "numpy": str, "grad": dict, "domain": dict, "ulp": (int, float),
    "special": list, "operations": int, "activation": int, "source": str,
}  # fmt: skip
_REQUIRED = ("doc", "inputs", "output", "numpy", "grad", "domain", "operations")
_OUTPUTS = ("same",)
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_TYPE_WORD = re.compile(r"\b[VUIB]\b")


def value_type(kind: str, dtype: str, vec: int) -> str:
    """What V, U, I or B stands for: the type of a value, and those of its bits and conditions."""
    value = "f32" if dtype == "f16" else dtype
    scalar = {"V": value, "U": "u32", "I": "i32", "B": "bool"}[kind]
    return scalar if vec == 1 else f"vec{vec}<{scalar}>"


def gated(dtype: str, vec: int) -> str:
    """The statement that returns x times the logistic function of u."""
    limit = f"{value_type('V', dtype, vec)}(88.0f)"
    return f"return x / (1.0f + exp(min(-u, {limit})));"


@dataclass(frozen=True)
class Text:
    """A text of the table and the line of the file that it begins on."""

    text: str
    file: str
    line: int

    def lines(self, dtype: str, vec: int) -> list[str]:
        """Its lines for values of a dtype, each with the mark that leads an error back to it."""
        out = []
        for number, line in enumerate(self.text.rstrip("\n").split("\n"), self.line):
            if line.strip():
                typed = _TYPE_WORD.sub(lambda m: value_type(m[0], dtype, vec), line)
                out.append(f"{typed} //@{self.file}:{number}@")
        return out


@dataclass(frozen=True)
class Row:
    """One operation."""

    name: str
    file: str
    line: int
    doc: str
    inputs: tuple[str, ...]
    output: str  # the dtype rule
    numpy: str
    grad: Mapping[str, str]
    domain: Mapping[str, tuple[float, float]]
    ulp: float
    operations: int
    body: str = ""  # the shader that makes a kernel of it; "" where only epilogues use it
    wgsl: Mapping[str, Text] = field(default_factory=dict)  # by class of dtypes
    gate: Text | None = None
    helpers: tuple[str, ...] = ()
    special: tuple[tuple[float, ...], ...] = ()
    activation: int = 0  # its number in epilogues
    source: str = ""

    @property
    def classes(self) -> tuple[str, ...]:
        return ("float",) if self.gate else tuple(self.wgsl)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Short names of the dtypes that it takes."""
        return tuple(d for c in CLASSES if c in self.classes for d in CLASSES[c])

    def statements(self, dtype: str, vec: int) -> str:
        """The body of a function of the inputs: what computes the value, and its return."""
        [kind] = [c for c, dtypes in CLASSES.items() if dtype in dtypes]
        if self.gate is not None:
            first, *rest = self.gate.lines(dtype, vec)
            lines = [f"let u = {first}", *rest]
            lines[-1] = _ended(lines[-1], ";")
            return "\n".join([*lines, gated(dtype, vec)])
        lines = self.wgsl[kind].lines(dtype, vec)
        if not any(line.lstrip().startswith("return ") for line in lines):
            lines[0] = f"return {lines[0]}"
            lines[-1] = _ended(lines[-1], ";")
        return "\n".join(lines)

    def function(self, dtype: str, vec: int) -> str:
        """The operation as a WGSL function of its inputs, `NAME_of`."""
        kind = value_type("V", dtype, vec)
        args = ", ".join(f"{name}: {kind}" for name in self.inputs)
        return f"fn {self.name}_of({args}) -> {kind} {{\n{self.statements(dtype, vec)}\n}}"

    def value(self, dtype: str, vec: int) -> str:
        """The type of its inputs and output."""
        return value_type("V", dtype, vec)


def _ended(line: str, end: str) -> str:
    """A marked line with something behind its text."""
    text, mark, rest = line.partition(" //@")
    return text.rstrip() + end + mark + rest


class _Table:
    """One ops.toml, and the line of each of its keys."""

    def __init__(self, path: Path, file: str) -> None:
        self.file = file
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        try:
            self.rows: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as e:
            found = re.search(r"at line (\d+)", str(e))
            self.fail(int(found[1]) if found else 1, f"no TOML: {e}")

    def fail(self, line: int, message: str) -> NoReturn:
        raise BuildError(self.file, line, message)

    def line(self, row: str, *keys: str) -> int:
        """The line of a row's header, or of one of its keys."""
        header = next(
            (i for i, t in enumerate(self.lines, 1) if re.match(rf"\s*\[{re.escape(row)}\]", t)), 1
        )
        if not keys:
            return header
        dotted = r"\s*\.\s*".join(map(re.escape, keys))
        for i, text in enumerate(self.lines[header:], header + 1):
            if text.startswith("["):
                break
            if re.match(rf"\s*{dotted}\s*[.=]", text):
                return i
        return self.line(row, *keys[:-1])

    def text(self, row: str, *keys: str) -> Text:
        value: Any = self.rows[row]
        for key in keys:
            value = value[key]
        line = self.line(row, *keys)
        # TOML drops a line break right behind the opening quotes.
        quoted = self.lines[line - 1].rstrip()
        opens = quoted.endswith(('"""', "'''")) and quoted.count(quoted[-3:]) == 1
        return Text(str(value), self.file, line + opens)


def load_rows(path: Path, file: str) -> list[Row]:
    """The rows of one `ops.toml`; BuildError names file and line of what is wrong."""
    table = _Table(path, file)
    return [_row(table, name) for name in table.rows]


def all_rows(kernels: Path) -> list[Row]:
    """The rows of all families; each name and each number of an activation is there once."""
    out: list[Row] = []
    for path in sorted(kernels.glob("*/ops.toml")):
        out += load_rows(path, path.relative_to(kernels.parent).as_posix())
    for i, row in enumerate(out):
        for other in out[:i]:
            if other.name == row.name:
                raise BuildError(row.file, row.line, f"{other.file} has a row {row.name} already")
            if row.activation and row.activation == other.activation:
                number = f"activation {row.activation} is {other.name} already"
                raise BuildError(row.file, row.line, f"{row.name}: {number}")
        for helper in row.helpers:
            library, _, macro = str(helper).rpartition(".")
            path = kernels / "lib" / f"{library}.wgsl"
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            if not re.search(rf"//%-? macro {re.escape(macro)}\(", text):
                raise BuildError(
                    row.file, row.line, f"{row.name}: no macro {helper} in kernels/lib"
                )
        if row.body and not (kernels.parent / row.file).with_name(f"{row.body}.wgsl").is_file():
            raise BuildError(
                row.file, row.line, f"{row.name}: there is no {row.body}.wgsl beside it"
            )
    return out


def _row(t: _Table, name: str) -> Row:
    data = t.rows[name]
    if not _NAME.match(name) or not isinstance(data, dict):
        t.fail(t.line(name), f"{name!r} must be a name in lower case and a table")
    for key, value in data.items():
        if key not in _KEYS:
            t.fail(t.line(name, key), f"{name}: unknown key {key!r}{meant(key, _KEYS)}")
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):  # type: ignore[arg-type]
            t.fail(t.line(name, key), f"{name}: {key} cannot be {value!r}")
    for key in _REQUIRED:
        if key not in data:
            t.fail(t.line(name), f"{name} has no {key!r}")
    inputs = tuple(data["inputs"].split())
    if not inputs or not all(map(_NAME.match, inputs)) or {"y", "dy", "np"} & set(inputs):
        t.fail(t.line(name, "inputs"), f"{name}: inputs must be names but are {data['inputs']!r}")
    if data["output"] not in _OUTPUTS:
        t.fail(t.line(name, "output"), f"{name}: output must be one of {', '.join(_OUTPUTS)}")
    if "body" in data and "ulp" not in data:
        t.fail(t.line(name), f"{name} has a body and no 'ulp'")
    if ("wgsl" in data) == ("gate" in data):
        t.fail(t.line(name), f"{name} must have either 'wgsl' or 'gate'")
    for kind in data.get("wgsl", ()):
        if kind not in CLASSES:
            t.fail(
                t.line(name, "wgsl", kind), f"{name}: wgsl.{kind}: classes are {', '.join(CLASSES)}"
            )
    if "gate" in data and inputs != ("x",):
        t.fail(t.line(name, "gate"), f"{name}: a gate has the one input x")
    _check_numpy(t, name, set(inputs))
    _check_numbers(t, name, inputs)
    return Row(
        name=name, file=t.file, line=t.line(name), doc=data["doc"].strip(), inputs=inputs,
        output=data["output"], numpy=data["numpy"].strip(), grad=data["grad"],
        domain={k: (float(v[0]), float(v[1])) for k, v in data["domain"].items()},
        ulp=float(data.get("ulp", 0)), operations=data["operations"], body=data.get("body", ""),
        wgsl={kind: t.text(name, "wgsl", kind) for kind in data.get("wgsl", ())},
        gate=t.text(name, "gate") if "gate" in data else None,
        helpers=tuple(data.get("helpers", ())),
        special=tuple(tuple(float(v) for v in one) for one in data.get("special", ())),
        activation=data.get("activation", 0), source=data.get("source", ""),
    )  # fmt: skip


def _check_numpy(t: _Table, name: str, inputs: set[str]) -> None:
    """numpy and grad are expressions over the inputs; grad reads the output y and dy too."""
    data = t.rows[name]
    if set(data["grad"]) != inputs:
        t.fail(t.line(name, "grad"), f"{name}: grad must have {', '.join(sorted(inputs))}")
    known = inputs | {"np", *SPECIAL}
    texts: list[tuple[tuple[str, ...], Any, set[str]]] = [(("numpy",), data["numpy"], known)]
    texts += [(("grad", k), v, known | {"y", "dy"}) for k, v in data["grad"].items()]
    for keys, text, names in texts:
        try:
            expr.check(text, names)
        except (expr.ExprError, TypeError) as e:
            t.fail(t.line(name, *keys), f"{name}: {'.'.join(keys)}: {e}")


def _check_numbers(t: _Table, name: str, inputs: Sequence[str]) -> None:
    data = t.rows[name]
    if set(data["domain"]) != set(inputs):
        t.fail(t.line(name, "domain"), f"{name}: domain must have {', '.join(inputs)}")
    for key, value in data["domain"].items():
        if not (_numbers(value) and len(value) == 2 and value[0] < value[1]):
            t.fail(t.line(name, "domain", key), f"{name}: domain.{key} must be [low, high]")
    for one in data.get("special", ()):
        if not (_numbers(one) and len(one) == len(inputs) + 1):
            t.fail(
                t.line(name, "special"),
                f"{name}: special must be lists of the inputs and the value, but has {one!r}",
            )


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) in (int, float) for v in value)
