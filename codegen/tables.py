"""Reads the tables of a spec block: configurations, axes, tensors, params and options."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykernels.contract import DTYPES
from pykernels.wgsl.interface import CONFIG, DIALECTS, Axis, Param, TensorSpec, Value

from .errors import BuildError
from .keys import meant
from .ops import ROW, Row
from .reader import Reader
from .reductions import FILE, Reduction, read_table

__all__ = [
    "DTYPE_NAMES", "PARAM_TYPES", "Option", "check_members", "read_axes", "read_configs",
    "read_options", "read_params", "read_reductions", "read_rows", "read_tensors", "table_of",
]  # fmt: skip

DTYPE_NAMES = {short: name for name, short, *_ in DTYPES}
PARAM_TYPES = {"u32": "I", "i32": "i", "f32": "f", "bits": "II"}
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_CONFIG = re.compile(r"[a-z0-9][a-z0-9_]*\Z")  # a name such as "64x128"
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
# The steps that Params has for every tensor of an index space.
_LEVEL_STEPS = {"rows": ("cs",), "tiles": ("rs", "cs")}


@dataclass(frozen=True)
class Option:
    """An argument of the call that only the plan reads."""

    name: str
    type: str
    default: Any
    doc: str = ""


def read_configs(r: Reader) -> dict[str, dict[str, Value]]:
    """The table of configurations; every row has the same fields with the same types."""
    table: dict[str, dict[str, Value]] = r.data.get("configs", {})
    first: dict[str, Value] = {}
    for name, row in table.items():
        where = ("configs", name)
        if not _CONFIG.match(name) or not isinstance(row, dict) or not row:
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


def read_rows(r: Reader, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows that this body computes, if an axis takes its values from them."""
    takers = [name for name, values in r.data.get("axes", {}).items() if values == "ops"]
    if not takers:
        return ()
    if len(takers) > 1:
        r.fail(r.line("axes", takers[1]), "one axis only can take operations")
    if "wrappers" in r.data or "part_of" in r.data:
        r.fail(r.line("axes", takers[0]), "a body of operations has neither wrappers nor part_of")
    file = f"{r.file.rpartition('/')[0]}/ops.toml"
    found = [row for row in rows if (row.file, row.body) == (file, r.path.stem)]
    if not found:
        r.fail(r.line("axes", takers[0]), f"no row of {file} has body = {r.path.stem!r}")
    inputs = tuple(r.data.get("inputs", {}))
    conditions = tuple(n for n, t in r.data.get("inputs", {}).items() if t.get("dtype") == "bool")
    scalars = sum(p.get("type") == "f32" for p in r.data.get("params", {}).values())
    for row in found:
        if row.inputs != inputs or row.conditions != conditions:
            told = " ".join(f"{n}:bool" if n in conditions else n for n in inputs)
            raise BuildError(file, row.line, f"{row.name}: the inputs of {r.path.stem} are {told}")
        if len(row.params) > scalars or bool(row.params) != bool(scalars):
            raise BuildError(
                file, row.line, f"{row.name}: {r.path.stem} takes {scalars} params at most, and "
                "rows that have some" if scalars else f"{row.name}: {r.path.stem} takes no params"
            )  # fmt: skip
    return tuple(found)


def read_reductions(r: Reader) -> tuple[Reduction, ...]:
    """The reductions of this body's family, if an axis takes its values from them."""
    takers = [name for name, values in r.data.get("axes", {}).items() if values == "reductions"]
    if not takers:
        return ()
    if len(takers) > 1 or "part_of" not in r.data:
        r.fail(r.line("axes", takers[-1]), "one axis of a part of a kernel can take reductions")
    path, file = r.path.with_name(FILE), f"{r.file.rpartition('/')[0]}/{FILE}"
    if not path.is_file():
        r.fail(r.line("axes", takers[0]), f"there is no {file}")
    return tuple(read_table(path, file)[0])


def read_axes(
    r: Reader,
    configs: Mapping[str, object],
    rows: tuple[Row, ...] = (),
    reductions: tuple[Reduction, ...] = (),
) -> tuple[Axis, ...]:
    picks = r.data.get("pick", {})
    axes = []
    for name, values in r.data.get("axes", {}).items():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name) or name in (CONFIG, ROW):
            r.fail(
                r.line("axes", name),
                f"axis {name!r} must be in capitals, and neither {CONFIG} nor {ROW}",
            )
        line, pick = r.line("axes", name), picks.get(name, "")
        if values == "configs":
            axes.append(Axis(name, tuple(configs), pick, line, configs=True))
            continue
        if values == "ops":
            axes.append(Axis(name, tuple(row.name for row in rows), pick, line, ops=True))
            continue
        if values == "reductions":
            named = tuple(reduction.name for reduction in reductions)
            axes.append(Axis(name, named, pick, line, ops=True))
            continue
        if values == "mma":
            axes.append(Axis(name, DIALECTS, pick, line, mma=True))
            continue
        if not isinstance(values, list) or not values or len({type(v) for v in values}) != 1:
            r.fail(r.line("axes", name), f"axes.{name} must be a list of values of one type")
        axes.append(Axis(name, tuple(values), pick, line))
    r.known(picks, {a.name for a in axes}, "pick")
    return tuple(axes)


def read_tensors(r: Reader, axes: tuple[Axis, ...], iterate: str) -> tuple[TensorSpec, ...]:
    by_name = {a.name: a for a in axes}
    out = []
    for table, role in (("inputs", "in"), ("outputs", "out")):
        for name, fields in r.data.get(table, {}).items():
            where = (table, name)
            if not _NAME.match(name):
                r.fail(r.line(*where), f"tensor {name!r} must be in lower case")
            r.checked(fields, "a tensor", *where)
            _check_role(r, fields, iterate, *where)
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
            if "dtypes" in fields and dtype != "*":
                r.fail(
                    r.line(*where),
                    f"{table}.{name}: dtypes goes with dtype = '*' only: the values of an axis, or "
                    f"{dtype!r}, say what is accepted",
                )
            for public in fields.get("dtypes", ()):
                if public not in DTYPE_NAMES.values():
                    r.fail(
                        r.line(*where),
                        f"{table}.{name}: dtypes has {public!r}"
                        + meant(str(public), DTYPE_NAMES.values()),
                    )
            for key in ("bind", "when"):
                if key in fields:
                    r.step_expr(fields[key], {*by_name, *([CONFIG] if r.fields else [])}, *where)
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
    known = {t.name: t for t in out}
    for t in out:
        line = r.line(table_of(t.role), t.name)
        for ref in (t.alias, t.like, t.broadcast, t.expand):
            if ref and ref not in known:
                r.fail(line, f"{t.name} refers to {ref!r}, which is no tensor{meant(ref, known)}")
            if ref == t.name:
                r.fail(line, f"{t.name} refers to itself")
        if t.alias and known[t.alias].role == "out":
            r.fail(line, f"{t.name}: alias names an input, not the output {t.alias!r}")
        for ref in (t.broadcast, t.expand):
            if ref and known[ref].optional:
                r.fail(line, f"{t.name} repeats to the shape of {ref!r}, which may be absent")
    if iterate != "none" and not any(t.index and not t.optional for t in out):
        r.fail(r.line("iterate"), "iterate needs a tensor whose shape the index space has")
    return tuple(out)


def _check_role(r: Reader, fields: dict[str, Any], iterate: str, *where: str) -> None:
    """Fail for a key that has a meaning only in the other table, or only in an index space."""
    name = ".".join(where)
    for key, table in (("readonly", "inputs"), ("alias", "outputs"), ("broadcast", "inputs"),
                       ("expand", "inputs"), ("in_place", "outputs"),
                       ("keeps", "outputs"), ("skips", "outputs")):  # fmt: skip
        if fields.get(key) and where[0] != table:
            r.fail(r.line(*where), f"{name}: {key} is a key of {table} only")
    for key in ("over", "broadcast", "expand"):
        if key in fields and fields.get("index") is False:
            r.fail(r.line(*where), f"{name}: {key} needs the index space, but index is false")
        if key in fields and iterate == "none" and "bodies" not in r.data:
            r.fail(r.line(*where), f"{name}: {key} needs an index space: there is no 'iterate'")


def _named_axes(r: Reader, fields: dict[str, Any], *where: str) -> tuple[str, ...]:
    """The names of a tensor's axes: one letter each, so that `x_hs` in Params is unique."""
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


def check_members(
    r: Reader, iterate: str, tensors: tuple[TensorSpec, ...], params: tuple[Param, ...]
) -> None:
    """Fail if a step of a named axis has the name of another member of Params."""
    taken = {name for p in params for name in p.fields} | {f"{t.name}_off" for t in tensors}
    for t in tensors:
        levels = {f"{t.name}_{s}" for s in _LEVEL_STEPS.get(iterate, ()) if t.index}
        for axis in t.axes:
            if t.step(axis) in taken | levels:
                where = (table_of(t.role), t.name)
                r.fail(
                    r.line(*where),
                    f"{'.'.join(where)}: the step of axis {axis!r} is p.{t.step(axis)}, but Params "
                    "has another member of this name",
                )


def table_of(role: str) -> str:
    """The table of the spec that holds the tensors of a role."""
    return "inputs" if role == "in" else "outputs"


def read_params(r: Reader, names: set[str], axes: set[str]) -> tuple[Param, ...]:
    """`names` are the names that a value may read; `axes` are the axes of the text, and its
    configuration."""
    out: list[Param] = []
    for name, fields in r.data.get("params", {}).items():
        r.checked(fields, "a param", "params", name)
        if fields.get("type") not in PARAM_TYPES:
            r.fail(
                r.line("params", name),
                f"params.{name}: type must be one of {', '.join(PARAM_TYPES)}",
            )
        if "value" in fields:
            r.step_expr(fields["value"], names, "params", name)
        arg = fields.get("arg", "default" in fields)
        if "default" in fields and not arg:
            r.fail(
                r.line("params", name), f"params.{name} has a default, which only arguments have"
            )
        if (fields["type"] == "bits") != ("of" in fields) or ("of" in fields and not arg):
            r.fail(
                r.line("params", name),
                f"params.{name}: type 'bits' and 'of' go together, and with arg = true",
            )
        if out and out[-1].arg and not arg:
            r.fail(r.line("params", name), f"params.{name}: arguments of the call come last")
        when, before = fields.get("when", ""), out[-1].when if out else ""
        if when:
            r.expr(when, axes, "params", name)
        if (before and when != before) or (when and (arg or r.data.get("faults", False))):
            r.fail(
                r.line("params", name),
                f"params.{name}: params of some texts only come last, all with one 'when'; they "
                "are no arguments, and no slot of faults follows",
            )
        line = r.line("params", name)
        out.append(Param(name, **{**fields, "arg": arg, "line": line}))
    return tuple(out)


def read_options(r: Reader) -> tuple[Option, ...]:
    out = []
    for name, fields in r.data.get("options", {}).items():
        r.checked(fields, "an option", "options", name)
        if "type" not in fields:
            r.fail(r.line("options", name), f"options.{name} has no type")
        default = fields.get("default")
        out.append(Option(name, fields["type"], default, fields.get("doc", "")))
    return tuple(out)
