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
from pykernels.wgsl.rows import CLASSES, class_of, typed

from .errors import BuildError
from .keys import meant

__all__ = ["ROW", "Row", "Text", "all_rows", "gated"]

ROW = "ROW"  # templates and `when` call a variant's operation by this name
_KEYS = {
    "doc": str, "body": str, "inputs": str, "output": str, "wgsl": dict, "gate": str,
    "helpers": list, "numpy": str, "grad": dict, "domain": dict, "ulp": (int, float),
    "special": list, "operations": int, "activation": int, "source": str, "params": dict,
    "aliases": list, "epilogue": str, "half": str,
}  # fmt: skip
_REQUIRED = ("doc", "inputs", "output", "numpy", "domain", "operations")
_OUTPUTS = ("same", "bool")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_INPUT = re.compile(r"([a-z][a-z0-9_]*)(:bool)?\Z")
_GATED = "return x / (1.0f + exp(min(-u, V(88.0f))));"


def gated(dtype: str, vec: int) -> str:
    """The WGSL statement that returns `x` times the logistic function of `u`."""
    return typed(_GATED, dtype, vec)


@dataclass(frozen=True)
class Text:
    """A text of the table, and the line of the file on which it begins."""

    text: str
    file: str
    line: int

    def lines(self) -> list[str]:
        """The lines, each with a mark that names its file and line for errors."""
        numbered = enumerate(self.text.rstrip("\n").split("\n"), self.line)
        return [f"{line} //@{self.file}:{n}@" for n, line in numbered if line.strip()]


@dataclass(frozen=True)
class Row:
    """One operation."""

    name: str
    file: str
    line: int
    doc: str
    inputs: tuple[str, ...]
    conditions: tuple[str, ...]  # the inputs that are always bool
    output: str  # the rule for the dtype of the result
    numpy: str
    grad: Mapping[str, str]
    domain: Mapping[str, tuple[float, float]]
    ulp: float
    operations: int
    body: str = ""  # the shader that runs the operation as a kernel; "" if only epilogues use it
    wgsl: Mapping[str, Text] = field(default_factory=dict)  # the text for each class of dtypes
    gate: Text | None = None
    epilogue: Text | None = None  # replaces wgsl["float"] in epilogues
    half: Text | None = None  # replaces wgsl["float"] if x is f16
    helpers: tuple[str, ...] = ()
    special: tuple[tuple[float, ...], ...] = ()
    activation: int = 0  # the operation's number in epilogues
    source: str = ""
    params: Mapping[str, float] = field(default_factory=dict)  # scalars of a call, with defaults
    aliases: tuple[str, ...] = ()  # other names of the operation in numpy

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.wgsl) or ("float",)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Short names of the dtypes that the operation takes."""
        return tuple(d for c in CLASSES if c in self.classes for d in CLASSES[c])

    def out(self, dtype: str) -> str:
        """The dtype of the result, by its short name."""
        return "bool" if self.output == "bool" else dtype

    def statements(self, kind: str) -> str:
        """The statements of a function of the inputs, which compute and return the value."""
        if self.gate is not None and not self.wgsl:
            first, *rest = self.gate.lines()
            lines = [f"let u = {first}", *rest]
            lines[-1] = _ended(lines[-1], ";")
            return "\n".join([*lines, _GATED])
        return _returned(self.wgsl[kind])

    def text(self, kind: str) -> str:
        """The operation as the WGSL function `NAME_of` of its inputs and params, for a class of
        dtypes."""
        return self._function(self.statements(kind))

    def _function(self, statements: str) -> str:
        args = [f"{name}: {'B' if name in self.conditions else 'V'}" for name in self.inputs]
        args += [f"{name}: f32" for name in self.params]
        result = "B" if self.output == "bool" else "V"
        return f"fn {self.name}_of({', '.join(args)}) -> {result} {{\n{statements}\n}}"

    def function(self, dtype: str, vec: int) -> str:
        """The same function for values of a dtype."""
        if dtype == "f16" and self.half is not None:
            return typed(self._function(_returned(self.half)), dtype, vec)
        return typed(self.text(class_of(dtype)), dtype, vec)

    def inline(self, dtype: str, vec: int) -> str:
        """The statements of an epilogue for values of a dtype."""
        text = (
            self.statements(class_of(dtype)) if self.epilogue is None else _returned(self.epilogue)
        )
        return typed(text, dtype, vec)


def _returned(text: Text) -> str:
    """The lines of a text, which return its value."""
    lines = text.lines()
    if not any(re.match(r"\s*(return|if|switch) ?\b", line) for line in lines):
        lines[0] = f"return {lines[0]}"
        lines[-1] = _ended(lines[-1], ";")
    return "\n".join(lines)


def _ended(line: str, end: str) -> str:
    """A marked line, with `end` added to its text."""
    text, mark, rest = line.partition(" //@")
    return text.rstrip() + end + mark + rest


class _Table:
    """One ops.toml, and the line of each of its keys."""

    def __init__(self, path: Path, file: str) -> None:
        self.file = file
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        headers = ((re.match(r"\s*\[(\w+)\]", t), i) for i, t in enumerate(self.lines, 1))
        self.headers = {m[1]: i for m, i in reversed([*headers]) if m}
        try:
            self.rows: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as e:
            found = re.search(r"at line (\d+)", str(e))
            self.fail(int(found[1]) if found else 1, f"no TOML: {e}")

    def fail(self, line: int, message: str) -> NoReturn:
        raise BuildError(self.file, line, message)

    def line(self, row: str, *keys: str) -> int:
        """The line of a row's header, or of one of its keys."""
        header = self.headers.get(row, 1)
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
    """The rows of one `ops.toml`; BuildError names file and line of the mistake."""
    table = _Table(path, file)
    return [_row(table, name) for name in table.rows]


def all_rows(kernels: Path) -> list[Row]:
    """The rows of all families; names and the numbers of activations must be unique."""
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
    words = data["inputs"].split()
    found = [_INPUT.match(word) for word in words]
    inputs = tuple(word.partition(":")[0] for word in words)
    params = data.get("params", {})
    named = [*inputs, *params]
    if not inputs or not all(found) or {"y", "dy", "np"} & {*named} or len({*named}) < len(named):
        t.fail(t.line(name, "inputs"), f"{name}: inputs must be names but are {data['inputs']!r}")
    for key, value in params.items():
        if not _NAME.match(key) or type(value) not in (int, float):
            t.fail(t.line(name, "params"), f"{name}: params.{key} must be a name with a number")
    for alias in data.get("aliases", ()):
        if not isinstance(alias, str) or not _NAME.match(alias):
            t.fail(t.line(name, "aliases"), f"{name}: aliases must be names but has {alias!r}")
    if data["output"] not in _OUTPUTS:
        t.fail(t.line(name, "output"), f"{name}: output must be one of {', '.join(_OUTPUTS)}")
    if "body" in data and "ulp" not in data:
        t.fail(t.line(name), f"{name} has a body and no 'ulp'")
    if "wgsl" not in data and "gate" not in data:
        t.fail(t.line(name), f"{name} must have 'wgsl' or 'gate'")
    if "epilogue" in data and "activation" not in data:
        t.fail(t.line(name, "epilogue"), f"{name} has an 'epilogue' and no 'activation'")
    for kind in data.get("wgsl", ()):
        if kind not in CLASSES:
            t.fail(
                t.line(name, "wgsl", kind), f"{name}: wgsl.{kind}: classes are {', '.join(CLASSES)}"
            )
    if "gate" in data and inputs != ("x",):
        t.fail(t.line(name, "gate"), f"{name}: a gate has the one input x")
    if params and data.get("wgsl", {}).keys() != {"float"}:
        t.fail(t.line(name, "params"), f"{name}: params are f32, so the only class is float")
    conditions = tuple(i for i, word in zip(inputs, words, strict=True) if ":" in word)
    _check_numpy(t, name, {*inputs} - {*conditions}, {*named})
    _check_numbers(t, name, inputs, {*inputs} - {*conditions})
    return Row(
        name=name, file=t.file, line=t.line(name), doc=data["doc"].strip(), inputs=inputs,
        conditions=conditions,
        output=data["output"], numpy=data["numpy"].strip(), grad=data.get("grad", {}),
        domain={k: (float(v[0]), float(v[1])) for k, v in data["domain"].items()},
        ulp=float(data.get("ulp", 0)), operations=data["operations"], body=data.get("body", ""),
        wgsl={kind: t.text(name, "wgsl", kind) for kind in data.get("wgsl", ())},
        gate=t.text(name, "gate") if "gate" in data else None,
        epilogue=t.text(name, "epilogue") if "epilogue" in data else None,
        half=t.text(name, "half") if "half" in data else None,
        helpers=tuple(data.get("helpers", ())),
        special=tuple(tuple(float(v) for v in one) for one in data.get("special", ())),
        activation=data.get("activation", 0), source=data.get("source", ""),
        params={k: float(v) for k, v in params.items()}, aliases=tuple(data.get("aliases", ())),
    )  # fmt: skip


def _check_numpy(t: _Table, name: str, values: set[str], named: set[str]) -> None:
    """Fail unless numpy and grad are expressions of inputs and params; grad may also read the
    output y and its gradient dy."""
    data = t.rows[name]
    if data["output"] == "bool" or not {"float", "gate"} & {*data.get("wgsl", data)}:
        values = set()  # the result is not a float, so it has no gradient
    if {*data.get("grad", {})} != values:
        t.fail(t.line(name, "grad"), f"{name}: grad must have {', '.join(sorted(values)) or 'no'}")
    known = named | {"np", "special"}
    texts: list[tuple[tuple[str, ...], Any, set[str]]] = [(("numpy",), data["numpy"], known)]
    backward = known | {"y", "dy", *t.rows}
    texts += [(("grad", k), v, backward) for k, v in data.get("grad", {}).items()]
    for keys, text, names in texts:
        try:
            expr.check(text, names)
        except (expr.ExprError, TypeError) as e:
            t.fail(t.line(name, *keys), f"{name}: {'.'.join(keys)}: {e}")


def _check_numbers(t: _Table, name: str, inputs: Sequence[str], values: set[str]) -> None:
    data = t.rows[name]
    if set(data["domain"]) != values:
        t.fail(t.line(name, "domain"), f"{name}: domain must have {', '.join(sorted(values))}")
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
