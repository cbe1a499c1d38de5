"""The spec block on top of a kernel source, read into dataclasses."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykernels.wgsl import expr
from pykernels.wgsl.interface import CONFIG, Axis, Interface, Param, TensorSpec, Value

from .reader import Reader

__all__ = ["Axis", "Option", "Param", "Spec", "TensorSpec", "load"]

DTYPE_NAMES = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "u32": "uint32",
    "i16": "int16", "u16": "uint16", "i8": "int8", "u8": "uint8", "i64": "int64", "bool": "bool",
}  # fmt: skip
PARAM_TYPES = {"u32": "I", "i32": "i", "f32": "f", "bits": "II"}
_TOP = {
    "doc", "configs", "axes", "pick", "when", "inputs", "outputs", "params", "options", "iterate",
    "uses", "grid", "part_of", "wrappers", "moves_bytes", "source", "subgroups", "axis", "bytes",
    "operations", "bodies", "faults", "workgroup_bytes",
}  # fmt: skip
_TYPES = {
    "doc": str, "grid": str, "source": str, "part_of": str, "iterate": str, "uses": list,
    "when": list, "moves_bytes": bool, "faults": bool, "configs": dict, "axes": dict, "pick": dict,
    "inputs": dict, "outputs": dict, "params": dict, "options": dict, "wrappers": dict,
    "axis": dict, "bytes": str, "operations": str, "bodies": list, "subgroups": str,
    "workgroup_bytes": str,
}  # fmt: skip
_TENSOR = {
    "dtype", "dtypes", "vec", "bind", "when", "optional", "readonly", "alias", "like", "broadcast",
    "index", "over", "axes", "doc",
}  # fmt: skip
_PARAM = {"type", "value", "default", "arg", "of", "doc"}
_OPTION = {"type", "default", "doc"}
_AXIS = {"moves", "last_only"}
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
LIBRARY = re.compile(r"\$\{(.*?)\}")  # what an axis decides in the path of a library
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
# Members that a tensor of an index space has anyway.
_LEVEL_STEPS = {"rows": ("cs",), "tiles": ("rs", "cs")}


@dataclass(frozen=True)
class Option:
    """A plan-time argument of the call."""

    name: str
    type: str
    default: Any
    doc: str = ""


@dataclass(frozen=True, kw_only=True)
class Spec(Interface):
    """All that a spec block says."""

    family: str
    file: str
    text: str  # the whole file
    body_line: int  # first line (from 1) after the block
    doc: str
    grid: str
    options: tuple[Option, ...] = ()
    uses: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    part_of: str = ""
    bodies: tuple[str, ...] = ()  # of a kernel that has no body of its own: those its plan runs
    moves_bytes: bool = False
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
        return [c for c in combos if all(expr.evaluate(w, self.values(c)) for w in self.when)]

    def libraries(self, axes: Mapping[str, Any]) -> dict[str, str]:
        """The libraries of a variant: the path below `kernels/lib` by the name in templates."""
        values = self.values(axes)
        return {
            library_name(path): LIBRARY.sub(lambda m: str(expr.evaluate(m[1], values)), path)
            for path in self.uses
        }


def library_name(path: str) -> str:
    """How a template calls a library: by its last part that no axis decides."""
    return next((part for part in reversed(path.split("/")) if not LIBRARY.search(part)), "")


def load(path: Path, file: str) -> Spec:
    """The spec of one kernel source; BuildError names file and line of what is wrong."""
    r = Reader(path, file)
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
    configs = _configs(r)
    axes = _axes(r, configs)
    axis_names = {a.name for a in axes} | ({CONFIG} if configs else set())
    tensors = _tensors(r, axes)
    names = {t.name for t in tensors} | {"caps"} | ({"it"} if iterate != "none" else set())
    seen: set[str] = set()
    for a in axes:
        if a.pick:
            r.expr(a.pick, names | seen, "pick", a.name)
        seen |= {a.name, CONFIG} if a.configs else {a.name}
    for t in tensors:
        if t.over:
            r.expr(t.over, {other.name for other in tensors}, _table(t.role), t.name)
    params, options = _params(r, names | axis_names), _options(r)
    _members(r, iterate, tensors, params)
    when = tuple(d.get("when", ()))
    for w in when:
        r.expr(w, axis_names, "when")
    given = {p.name for p in params if not p.arg and not p.value}
    if "grid" in d:
        r.expr(d["grid"], names | axis_names | given, "grid")
    for key in ("subgroups", "workgroup_bytes"):
        if key in d:
            r.expr(d[key], axis_names, key)
    spec = Spec(
        name=path.stem, family=path.parent.name, file=file, text=r.text,
        body_line=r.body_line, doc=d["doc"].strip(),
        iterate=iterate, grid=d.get("grid", ""), axes=axes, tensors=tensors, params=params,
        options=options, uses=tuple(d.get("uses", ())), when=when, part_of=d.get("part_of", ""),
        bodies=tuple(d.get("bodies", ())), moves_bytes=d.get("moves_bytes", False),
        configs=configs, subgroups=d.get("subgroups", ""), faults=d.get("faults", False),
        workgroup_bytes=d.get("workgroup_bytes", ""),
        source=d.get("source", ""), wrappers=_wrappers(r, params), **_axis(r, tensors, params),
        nbytes=_work(r, "bytes", tensors, params, options),
        operations=_work(r, "operations", tensors, params, options),
    )  # fmt: skip
    _uses(r, spec, axis_names)
    return spec


def _uses(r: Reader, spec: Spec, names: set[str]) -> None:
    """Every library that a variant uses is there, and each has a name of its own."""
    line = r.line("uses")
    seen: set[str] = set()
    for path in spec.uses:
        if not isinstance(path, str) or not library_name(path):
            r.fail(line, f"uses: {path!r} is no path of a library with a part that no axis decides")
        for text in LIBRARY.findall(path):
            r.expr(text, names, "uses")
        if library_name(path) in seen:
            r.fail(line, f"uses: templates would know two libraries as {library_name(path)!r}")
        seen.add(library_name(path))
    for axes in spec.variants() if spec.uses else ():
        for lib in spec.libraries(axes).values():
            if not (r.path.parents[1] / "lib" / f"{lib}.wgsl").is_file():
                r.fail(line, f"there is no kernels/lib/{lib}.wgsl")


def _wrappers(r: Reader, params: tuple[Param, ...]) -> dict[str, dict[str, Any]]:
    """Other names of the kernel, with scalars that they set."""
    wrappers: dict[str, dict[str, Any]] = r.data.get("wrappers", {})
    scalars = {p.name for p in params if p.arg and p.default is not None}
    for name, fields in wrappers.items():
        r.known(fields, scalars | {"doc"}, "wrappers", name)
    return wrappers


def _work(
    r: Reader,
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
    r: Reader, tensors: tuple[TensorSpec, ...], params: tuple[Param, ...]
) -> dict[str, tuple[str, ...]]:
    table = r.data.get("axis", {})
    r.known(table, _AXIS, "axis")
    inputs = {t.name for t in tensors if t.role == "in"}
    for key, known in (("moves", inputs), ("last_only", inputs | {p.name for p in params})):
        for name in table.get(key, ()):
            if name not in known:
                r.fail(r.line("axis"), f"axis.{key} names {name!r}, which is no argument")
    return {f"axis_{key}": tuple(table.get(key, ())) for key in ("moves", "last_only")}


def _configs(r: Reader) -> dict[str, dict[str, Value]]:
    """The table of configurations: the same fields, of the same types, in every row."""
    table: dict[str, dict[str, Value]] = r.data.get("configs", {})
    first: dict[str, Value] = {}
    for name, row in table.items():
        where = ("configs", name)
        if not _NAME.match(name) or not isinstance(row, dict) or not row:
            r.fail(
                r.line(*where), f"configs.{name} must be a name in lower case and a table of values"
            )
        first = first or row
        if row.keys() != first.keys():
            odd = ", ".join(sorted(row.keys() ^ first.keys()))
            r.fail(r.line(*where), f"configs.{name}: every row must have the same keys, not {odd}")
        for key, value in row.items():
            if not _FIELD.match(key) or keyword.iskeyword(key) or key in ("count", "index"):
                r.fail(r.line(*where), f"configs.{name}: {key!r} cannot be the name of a field")
            if type(value) not in (int, bool, str) or type(value) is not type(first[key]):
                r.fail(
                    r.line(*where),
                    f"configs.{name}: {key} must be an int, a bool or a str, of one type in all "
                    f"rows, but is {value!r}",
                )
    r.fields = tuple(first)
    takers = [name for name, values in r.data.get("axes", {}).items() if values == "configs"]
    if table and len(takers) != 1:
        r.fail(r.line("configs"), 'configs need one axis that takes them: axes.TILE = "configs"')
    if takers and not table:
        r.fail(r.line("axes", takers[0]), f"axes.{takers[0]}: the spec has no configs")
    return {name: {key: row[key] for key in first} for name, row in table.items()}


def _axes(r: Reader, configs: Mapping[str, object]) -> tuple[Axis, ...]:
    picks = r.data.get("pick", {})
    axes = []
    for name, values in r.data.get("axes", {}).items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or name == CONFIG:
            r.fail(r.line("axes", name), f"axis {name!r} must be in capitals, and not {CONFIG}")
        line, pick = r.line("axes", name), picks.get(name, "")
        if values == "configs":
            axes.append(Axis(name, tuple(configs), pick, line, configs=True))
            continue
        if not isinstance(values, list) or not values or len({type(v) for v in values}) != 1:
            r.fail(r.line("axes", name), f"axes.{name} must be a list of values of one type")
        axes.append(Axis(name, tuple(values), pick, line))
    r.known(picks, {a.name for a in axes}, "pick")
    return tuple(axes)


def _tensors(r: Reader, axes: tuple[Axis, ...]) -> tuple[TensorSpec, ...]:
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
                    r.expr(fields[key], {*by_name, *([CONFIG] if r.fields else [])}, *where)
            named = _named_axes(r, fields, *where)
            if fields.get("vec", "") not in (*by_name, ""):
                r.fail(r.line(*where), f"{table}.{name}: vec must be an axis")
            out.append(
                TensorSpec(
                    name,
                    role,
                    **{**fields, "dtypes": accepted, "axes": named, "line": r.line(*where)},
                )
            )
    known = {t.name for t in out}
    for t in out:
        for ref in (t.alias, t.like, t.broadcast):
            if ref and ref not in known:
                r.fail(
                    r.line(_table(t.role), t.name),
                    f"{t.name} refers to {ref!r}, which is no tensor",
                )
    return tuple(out)


def _named_axes(r: Reader, fields: dict[str, Any], *where: str) -> tuple[str, ...]:
    """The names of a tensor's axes: one letter each, so that `x_hs` in Params is one thing only."""
    text = fields.get("axes", "")
    names = tuple(text.split()) if isinstance(text, str) else ()
    fit = all(re.fullmatch("[a-z]", n) for n in names) and len(set(names)) == len(names)
    if "axes" in fields and not (names and fit):
        r.fail(
            r.line(*where),
            f"{'.'.join(where)}: axes must be different letters in lower case with spaces between "
            f"them but is {text!r}",
        )
    return names


def _members(
    r: Reader, iterate: str, tensors: tuple[TensorSpec, ...], params: tuple[Param, ...]
) -> None:
    """No step of a named axis has the name of another member of Params."""
    taken = {name for p in params for name in p.fields} | {f"{t.name}_off" for t in tensors}
    for t in tensors:
        levels = {f"{t.name}_{s}" for s in _LEVEL_STEPS.get(iterate, ()) if t.index}
        for axis in t.axes:
            if t.step(axis) in taken | levels:
                where = (_table(t.role), t.name)
                r.fail(
                    r.line(*where),
                    f"{'.'.join(where)}: the step of axis {axis!r} is p.{t.step(axis)}, but Params "
                    "has another member of this name",
                )


def _table(role: str) -> str:
    """The table of the spec that holds the tensors of a role."""
    return "inputs" if role == "in" else "outputs"


def _params(r: Reader, names: set[str]) -> tuple[Param, ...]:
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


def _options(r: Reader) -> tuple[Option, ...]:
    out = []
    for name, fields in r.data.get("options", {}).items():
        r.known(fields, _OPTION, "options", name)
        if "type" not in fields:
            r.fail(r.line("options", name), f"options.{name} has no type")
        default = fields.get("default")
        out.append(Option(name, fields["type"], default, fields.get("doc", "")))
    return tuple(out)
