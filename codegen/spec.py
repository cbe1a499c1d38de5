"""The spec block on top of a kernel source, read into dataclasses."""

from __future__ import annotations

import itertools
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from . import expr
from .errors import BuildError

__all__ = ["Axis", "Option", "Param", "Spec", "TensorSpec", "load"]

DTYPE_NAMES = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "u32": "uint32",
    "i16": "int16", "u16": "uint16", "i8": "int8", "u8": "uint8", "i64": "int64", "bool": "bool",
}  # fmt: skip
PARAM_TYPES = {"u32": "I", "i32": "i", "f32": "f", "bits": "II"}
_TOP = {
    "doc", "axes", "pick", "when", "inputs", "outputs", "params", "options", "iterate", "uses",
    "grid", "part_of", "wrappers", "moves_bytes", "source", "subgroups", "axis", "bytes",
    "operations", "bodies", "faults", "workgroup_bytes",
}  # fmt: skip
_TYPES = {
    "doc": str, "grid": str, "source": str, "part_of": str, "iterate": str, "uses": list,
    "when": list, "moves_bytes": bool, "faults": bool, "axes": dict, "pick": dict, "inputs": dict,
    "outputs": dict, "params": dict, "options": dict, "wrappers": dict, "axis": dict, "bytes": str,
    "operations": str, "bodies": list, "subgroups": str, "workgroup_bytes": str,
}  # fmt: skip
_TENSOR = {
    "dtype", "dtypes", "vec", "bind", "when", "optional", "readonly", "alias", "like", "broadcast",
    "index", "over", "doc",
}  # fmt: skip
_PARAM = {"type", "value", "default", "arg", "of", "doc"}
_OPTION = {"type", "default", "doc"}
_AXIS = {"moves", "last_only"}
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True)
class Axis:
    name: str
    values: tuple[str | int | bool, ...]
    pick: str  # "" when the plan gives it
    line: int = 1

    @property
    def type(self) -> str:
        return type(self.values[0]).__name__


@dataclass(frozen=True)
class TensorSpec:
    name: str
    role: str  # in | out
    dtype: str  # an axis, a short dtype name, or "*"
    dtypes: tuple[str, ...]  # public names that are accepted
    doc: str = ""
    vec: str = ""
    bind: str = ""  # expression over axes: the element type of the bound array
    when: str = ""
    optional: bool = False
    readonly: bool = False
    alias: str = ""
    like: str = ""
    broadcast: str = ""
    index: bool = True
    over: str = ""  # expression: the view as the index space sees it, where it is another


@dataclass(frozen=True)
class Param:
    name: str
    type: str
    value: str = ""  # expression; "" with arg False: the plan gives it
    default: float | int | bool | None = None
    arg: bool = False  # a scalar argument of the call
    of: str = ""  # for bits: the tensor or dtype whose pattern it is
    doc: str = ""
    line: int = 1  # where the spec declares it

    @property
    def fields(self) -> list[str]:
        """Its members of Params."""
        return [f"{self.name}_lo", f"{self.name}_hi"] if self.type == "bits" else [self.name]


@dataclass(frozen=True)
class Option:
    """A plan-time argument of the call."""

    name: str
    type: str
    default: Any
    doc: str = ""


@dataclass(frozen=True)
class Spec:
    name: str
    family: str
    file: str
    text: str  # the whole file
    body_line: int  # first line (from 1) after the block
    doc: str
    iterate: str
    grid: str
    axes: tuple[Axis, ...]
    tensors: tuple[TensorSpec, ...]
    params: tuple[Param, ...]
    options: tuple[Option, ...] = ()
    uses: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    part_of: str = ""
    bodies: tuple[str, ...] = ()  # of a kernel that has no body of its own: those its plan runs
    moves_bytes: bool = False
    subgroups: str = ""
    faults: bool = False  # each launch has a slot to report what it finds wrong
    workgroup_bytes: str = ""  # expression over axes: what a device must have, if not the least
    source: str = ""
    wrappers: dict[str, dict[str, Any]] = field(default_factory=dict)
    # The functional layer runs over any axis: inputs that it moves, arguments that forbid it.
    axis_moves: tuple[str, ...] = ()
    axis_last_only: tuple[str, ...] = ()
    # What a call moves and computes: expressions over its tensors, options and defaulted scalars.
    nbytes: str = ""
    operations: str = ""

    @property
    def names(self) -> list[str]:
        """The kernel's name and those of its other wrappers."""
        return [self.name, *self.wrappers]

    def variants(self) -> list[dict[str, Any]]:
        """The product of the axes, filtered by the `when` conditions; none without a body."""
        if self.bodies:
            return []
        names = [a.name for a in self.axes]
        product = itertools.product(*(a.values for a in self.axes))
        combos = [dict(zip(names, values, strict=True)) for values in product]
        return [c for c in combos if all(expr.evaluate(w, c) for w in self.when)]


class _Reader:
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
        try:
            self.data: dict[str, Any] = tomllib.loads("\n".join(self.block))
        except tomllib.TOMLDecodeError as e:
            found = re.search(r"at line (\d+)", str(e))
            self.fail(1 + int(found[1]) if found else 1, f"the spec block is no TOML: {e}")

    def line(self, *keys: str) -> int:
        dotted = r"\s*\.\s*".join(re.escape(k) for k in keys)
        for i, text in enumerate(self.block, 2):
            if re.match(rf"\s*{dotted}\s*[.=]", text):
                return i
        return self.line(*keys[:-1]) if len(keys) > 1 else 1

    def fail(self, line: int, message: str) -> NoReturn:
        raise BuildError(self.file, line, message)

    def known(self, table: dict[str, Any], allowed: set[str], *keys: str) -> None:
        if not isinstance(table, dict):
            self.fail(self.line(*keys), f"{'.'.join(keys)} must be a table")
        for k in table:
            if k not in allowed:
                where = ".".join((*keys, k))
                self.fail(
                    self.line(*keys, k),
                    f"unknown key {where!r}; known: {', '.join(sorted(allowed))}",
                )

    def expr(self, text: Any, names: set[str], *keys: str) -> str:
        if not isinstance(text, str):
            self.fail(self.line(*keys), f"{'.'.join(keys)} must be an expression in quotes")
        try:
            return expr.check(text, names)
        except expr.ExprError as e:
            self.fail(self.line(*keys), f"{'.'.join(keys)}: {e}")


def load(path: Path, file: str) -> Spec:
    """The spec of one kernel source; BuildError names file and line of what is wrong."""
    r = _Reader(path, file)
    d = r.data
    r.known(d, _TOP)
    for key, kind in _TYPES.items():
        if key in d and not isinstance(d[key], kind):
            r.fail(r.line(key), f"{key} must be a {kind.__name__} but is {d[key]!r}")
    for key in ("doc", "outputs"):
        if key not in d:
            r.fail(1, f"the spec has no {key!r}")
    if ("grid" in d) == ("bodies" in d):
        r.fail(1, "the spec must have either 'grid' or, without a body of its own, 'bodies'")
    if "bodies" in d and any(r.text.splitlines()[r.body_line - 1 :]):
        r.fail(r.body_line, "a kernel with 'bodies' has no body of its own")
    iterate = d.get("iterate", "none")
    if iterate not in ("rows", "nd", "tiles", "none"):
        r.fail(r.line("iterate"), f"iterate must be rows, nd, tiles or none but is {iterate!r}")
    axes = _axes(r)
    axis_names = {a.name for a in axes}
    tensors = _tensors(r, axes)
    names = {t.name for t in tensors} | {"caps"} | ({"it"} if iterate != "none" else set())
    seen: set[str] = set()
    for a in axes:
        if a.pick:
            r.expr(a.pick, names | seen, "pick", a.name)
        seen.add(a.name)
    for t in tensors:
        if t.over:
            r.expr(t.over, {other.name for other in tensors}, _table(t.role), t.name)
    params, options = _params(r, names | axis_names), _options(r)
    when = tuple(d.get("when", ()))
    for w in when:
        r.expr(w, axis_names, "when")
    for lib in d.get("uses", ()):
        if not (path.parents[1] / "lib" / f"{lib}.wgsl").is_file():
            r.fail(r.line("uses"), f"there is no kernels/lib/{lib}.wgsl")
    given = {p.name for p in params if not p.arg and not p.value}
    if "grid" in d:
        r.expr(d["grid"], names | axis_names | given, "grid")
    for key in ("subgroups", "workgroup_bytes"):
        if key in d:
            r.expr(d[key], axis_names, key)
    return Spec(
        name=path.stem, family=path.parent.name, file=file, text=r.text,
        body_line=r.body_line, doc=d["doc"].strip(),
        iterate=iterate, grid=d.get("grid", ""), axes=axes, tensors=tensors, params=params,
        options=options, uses=tuple(d.get("uses", ())), when=when, part_of=d.get("part_of", ""),
        bodies=tuple(d.get("bodies", ())), moves_bytes=d.get("moves_bytes", False),
        subgroups=d.get("subgroups", ""), faults=d.get("faults", False),
        workgroup_bytes=d.get("workgroup_bytes", ""),
        source=d.get("source", ""), wrappers=_wrappers(r, params), **_axis(r, tensors, params),
        nbytes=_work(r, "bytes", tensors, params, options),
        operations=_work(r, "operations", tensors, params, options),
    )  # fmt: skip


def _wrappers(r: _Reader, params: tuple[Param, ...]) -> dict[str, dict[str, Any]]:
    """Other names of the kernel, with scalars that they set."""
    wrappers: dict[str, dict[str, Any]] = r.data.get("wrappers", {})
    scalars = {p.name for p in params if p.arg and p.default is not None}
    for name, fields in wrappers.items():
        r.known(fields, scalars | {"doc"}, "wrappers", name)
    return wrappers


def _work(
    r: _Reader,
    key: str,
    tensors: tuple[TensorSpec, ...],
    params: tuple[Param, ...],
    options: tuple[Option, ...],
) -> str:
    """What a call moves or computes; it counts the call, however a plan cuts it into steps."""
    if key not in r.data:
        return ""
    if "part_of" in r.data:
        r.fail(r.line(key), f"{key} is said of a call: it stands in the kernel's own file")
    names = {t.name for t in tensors} | {o.name for o in options}
    names |= {p.name for p in params if p.arg and p.default is not None}
    return r.expr(r.data[key], names, key)


def _axis(
    r: _Reader, tensors: tuple[TensorSpec, ...], params: tuple[Param, ...]
) -> dict[str, tuple[str, ...]]:
    table = r.data.get("axis", {})
    r.known(table, _AXIS, "axis")
    inputs = {t.name for t in tensors if t.role == "in"}
    for key, known in (("moves", inputs), ("last_only", inputs | {p.name for p in params})):
        for name in table.get(key, ()):
            if name not in known:
                r.fail(r.line("axis"), f"axis.{key} names {name!r}, which is no argument")
    return {f"axis_{key}": tuple(table.get(key, ())) for key in ("moves", "last_only")}


def _axes(r: _Reader) -> tuple[Axis, ...]:
    picks = r.data.get("pick", {})
    axes = []
    for name, values in r.data.get("axes", {}).items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            r.fail(r.line("axes", name), f"axis {name!r} must be in capitals")
        if not isinstance(values, list) or not values or len({type(v) for v in values}) != 1:
            r.fail(r.line("axes", name), f"axes.{name} must be a list of values of one type")
        axes.append(Axis(name, tuple(values), picks.get(name, ""), r.line("axes", name)))
    r.known(picks, {a.name for a in axes}, "pick")
    return tuple(axes)


def _tensors(r: _Reader, axes: tuple[Axis, ...]) -> tuple[TensorSpec, ...]:
    by_name = {a.name: a for a in axes}
    out = []
    for table, role in (("inputs", "in"), ("outputs", "out")):
        for name, fields in r.data.get(table, {}).items():
            where = (table, name)
            if not _NAME.match(name):
                r.fail(r.line(*where), f"tensor {name!r} must be in lower case")
            r.known(fields, _TENSOR, *where)
            dtype = fields.get("dtype", "")
            if dtype in by_name:
                accepted = tuple(DTYPE_NAMES[str(v)] for v in by_name[dtype].values if v)
            elif dtype == "*":
                accepted = tuple(fields.get("dtypes", DTYPE_NAMES.values()))
            elif dtype in DTYPE_NAMES:
                accepted = (DTYPE_NAMES[dtype],)
            else:
                r.fail(
                    r.line(*where),
                    f"{table}.{name}: dtype must be an axis, '*' or one of "
                    f"{', '.join(DTYPE_NAMES)} but is {dtype!r}",
                )
            if (dtype == "*") != ("bind" in fields):
                r.fail(r.line(*where), f"{table}.{name}: dtype '*' and 'bind' go together")
            for key in ("bind", "when"):
                if key in fields:
                    r.expr(fields[key], set(by_name), *where)
            if fields.get("vec", "") not in (*by_name, ""):
                r.fail(r.line(*where), f"{table}.{name}: vec must be an axis")
            out.append(TensorSpec(name, role, **{**fields, "dtypes": accepted}))
    known = {t.name for t in out}
    for t in out:
        for ref in (t.alias, t.like, t.broadcast):
            if ref and ref not in known:
                r.fail(
                    r.line(_table(t.role), t.name),
                    f"{t.name} refers to {ref!r}, which is no tensor",
                )
    return tuple(out)


def _table(role: str) -> str:
    """The table of the spec that holds the tensors of a role."""
    return "inputs" if role == "in" else "outputs"


def _params(r: _Reader, names: set[str]) -> tuple[Param, ...]:
    out: list[Param] = []
    for name, fields in r.data.get("params", {}).items():
        r.known(fields, _PARAM, "params", name)
        if fields.get("type") not in PARAM_TYPES:
            r.fail(
                r.line("params", name),
                f"params.{name}: type must be one of {', '.join(PARAM_TYPES)}",
            )
        if "value" in fields:
            r.expr(fields["value"], names, "params", name)
        arg = fields.get("arg", "default" in fields)
        if out and out[-1].arg and not arg:
            r.fail(r.line("params", name), f"params.{name}: arguments of the call come last")
        line = r.line("params", name)
        out.append(Param(name, **{**fields, "arg": arg, "line": line}))
    return tuple(out)


def _options(r: _Reader) -> tuple[Option, ...]:
    out = []
    for name, fields in r.data.get("options", {}).items():
        r.known(fields, _OPTION, "options", name)
        if "type" not in fields:
            r.fail(r.line("options", name), f"options.{name} has no type")
        default = fields.get("default")
        out.append(Option(name, fields["type"], default, fields.get("doc", "")))
    return tuple(out)
