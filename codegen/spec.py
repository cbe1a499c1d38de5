"""The spec block on top of a kernel source, read into dataclasses."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pykernels.wgsl import expr
from pykernels.wgsl.interface import CONFIG, Axis, Interface, Param, TensorSpec

from .errors import BuildError
from .ops import ROW, Row
from .reader import Reader
from .reductions import Reduction
from .tables import (
    DTYPE_NAMES,
    PARAM_TYPES,
    Option,
    check_members,
    read_axes,
    read_configs,
    read_options,
    read_params,
    read_reductions,
    read_rows,
    read_tensors,
    table_of,
)

__all__ = [
    "DTYPE_NAMES", "PARAM_TYPES", "Axis", "Option", "Param", "Spec", "TensorSpec",
    "library_files", "load",
]  # fmt: skip

LIBRARY = re.compile(r"\$\{(.*?)\}")  # the part of a library's path that depends on axes


@dataclass(frozen=True, kw_only=True)
class Spec(Interface):
    """The contents of a spec block."""

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
    bodies: tuple[str, ...] = ()  # for a kernel without a body: the bodies that its plan runs
    moves_bytes: bool = False
    # an expression of axes: the workgroup memory that a text needs, if it may exceed the guaranteed
    # limit
    workgroup_bytes: str = ""
    vectors: str = ""  # the axis that gives the number of elements in a vector, for iterate = "nd"
    source: str = ""
    wrappers: dict[str, dict[str, Any]] = field(default_factory=dict)
    # For functions that run over any axis: the inputs whose axis is moved, and the arguments that
    # forbid this.
    axis_moves: tuple[str, ...] = ()
    axis_last_only: tuple[str, ...] = ()
    # For a body of operations: its rows. For a kernel that is a row of a table: the row, the body,
    # and the axis that selects the row.
    rows: tuple[Row, ...] = ()
    row: Row | None = None
    body: str = ""
    fixed_axes: tuple[tuple[str, str], ...] = ()
    # For a body of reductions: the reductions that it computes. For a kernel that is a reduction:
    # the module of its plan, which gets the kernel's name.
    reductions: tuple[Reduction, ...] = ()
    plan: str = ""
    # The bytes and operations of a call: expressions over its tensors, options and defaulted
    # scalars.
    nbytes: str = ""
    operations: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the kernel and its other wrappers."""
        return [self.name, *self.wrappers]

    @property
    def filled(self) -> TensorSpec:
        """The tensor that gives the index space its shape."""
        return [t for t in self.tensors if t.index and not t.optional][-1]

    @property
    def repeats(self) -> list[str]:
        """The tensors that repeat to fill the index space."""
        return [t.name for t in self.tensors if t.index and (t.broadcast or t.expand)]

    def values(self, axes: Mapping[str, Any]) -> dict[str, Any]:
        out = super().values(axes)
        for a in self.axes:
            if a.ops:
                known: dict[str, Row | Reduction] = {r.name: r for r in self.rows}
                known |= {r.name: r for r in self.reductions}
                out[ROW] = known[axes[a.name]]
        return out

    def kernels(self) -> list[Spec]:
        """The public kernels of this spec: itself, or one for each operation."""
        if not self.rows:
            return [] if self.part_of else [self]
        [axis] = [a.name for a in self.axes if a.ops]
        _, _, rest = self.doc.partition("\n\n")
        out = []
        for row in self.rows:
            doc = "\n\n".join(t for t in (row.doc, rest) if t)
            out.append(
                replace(
                    self,
                    name=row.name,
                    rows=(),
                    row=row,
                    body=self.name,
                    doc=doc,
                    source=row.source,
                    tensors=tuple(self._of_row(row, t) for t in self.tensors),
                    params=_of_call(row, self.params),
                    operations=f"{row.operations} * {self.tensors[-1].name}.size",
                    fixed_axes=((axis, row.name),),
                )
            )
        return out

    def _of_row(self, row: Row, t: TensorSpec) -> TensorSpec:
        """A tensor of the body, with the dtype that a row of the table gives it."""
        if t.name in row.conditions:
            return t
        if t.role == "out" and row.output == "bool":
            return replace(t, dtype="bool", dtypes=("bool",))
        dtypes = tuple(DTYPE_NAMES[d] for d in row.dtypes)
        if not set(dtypes) <= set(t.dtypes):
            told = f"{row.name}: {self.name} takes {' '.join(t.dtypes)} only"
            raise BuildError(row.file, row.line, told)
        first = next(x for x in self.tensors if x.name not in row.conditions)
        return replace(t, dtype=first.dtype, dtypes=dtypes)

    def variants(self) -> list[dict[str, Any]]:
        """All combinations of the axes' values that the `when` conditions allow; none without a
        body."""
        if self.bodies:
            return []
        names = [a.name for a in self.axes]
        product = itertools.product(*(a.values for a in self.axes))
        combos = [dict(zip(names, values, strict=True)) for values in product]
        return [c for c in combos if all(expr.evaluate(w, self.values(c)) for w in self.when)]

    def libraries(self, axes: Mapping[str, Any]) -> dict[str, str]:
        """The libraries of a variant: paths as in `uses`, by their names in templates."""
        values = self.values(axes)
        return {
            library_name(path): LIBRARY.sub(lambda m: str(expr.evaluate(m[1], values)), path)
            for path in self.uses
        }


def _of_call(row: Row, params: tuple[Param, ...]) -> tuple[Param, ...]:
    """The scalars of a body, under the names that a row gives them. Scalars that the row lacks keep
    their defaults."""
    named = iter(row.params.items())
    out = []
    for p in params:
        name, default = next(named, ("", 0.0)) if p.arg else ("", 0.0)
        if name:
            out.append(replace(p, name=name, default=default, member=p.name))
        else:
            out.append(replace(p, fixed=p.arg))
    return tuple(out)


def library_files(family: str, path: str) -> tuple[str, str]:
    """The places below `kernels` where a library may lie: in its family, or in the shared
    folder."""
    return f"{family}/lib/{path}.wgsl", f"lib/{path}.wgsl"


def library_name(path: str) -> str:
    """The name of a library in a template: the last part of its path that does not depend on an
    axis."""
    return next((part for part in reversed(path.split("/")) if not LIBRARY.search(part)), "")


def load(path: Path, file: str, table: Sequence[Row]) -> Spec:
    """The spec of one kernel source. A BuildError names the file and line of a mistake.

    `table` has the operations of all families; an axis of a body may take some of these operations
    as values.
    """
    r = Reader(path, file)
    d = r.data
    r.checked(d, "the block")
    for key in ("doc", "outputs"):
        if key not in d:
            r.fail(1, f"the spec has no {key!r}")
    if not {"grid", "bodies"} & d.keys():
        r.fail(1, "the spec must have either 'grid' or, without a body of its own, 'bodies'")
    if "bodies" in d and any(r.text.splitlines()[r.body_line - 1 :]):
        raise BuildError(file, r.body_line, "a kernel with 'bodies' has no body of its own")
    iterate = d.get("iterate", "none")
    if iterate not in ("rows", "nd", "tiles", "none"):
        r.fail(r.line("iterate"), f"iterate must be rows, nd, tiles or none but is {iterate!r}")
    configs, rows, reductions = read_configs(r), read_rows(r, table), read_reductions(r)
    axes = read_axes(r, configs, rows, reductions)
    axis_names = {a.name for a in axes} | ({CONFIG} if configs else set())
    tensors = read_tensors(r, axes, iterate)
    names = {t.name for t in tensors} | {"caps"} | ({"it"} if iterate != "none" else set())
    seen: set[str] = set()
    for a in axes:
        if a.pick:
            r.step_expr(a.pick, names | seen, "pick", a.name)
        seen |= {a.name, CONFIG} if a.configs else {a.name}
    for t in tensors:
        if t.over:
            r.step_expr(t.over, {other.name for other in tensors}, table_of(t.role), t.name)
    params, options = read_params(r, names | axis_names, axis_names), read_options(r)
    check_members(r, iterate, tensors, params)
    vectors = d.get("vectors", "")
    if vectors and (iterate != "nd" or not any(a.name == vectors and a.pick for a in axes)):
        r.fail(r.line("vectors"), 'vectors must be an axis with a pick, and iterate = "nd"')
    when = tuple(d.get("when", ()))
    for w in when:
        r.expr(w, axis_names | ({ROW} if rows or reductions else set()), "when")
    given = {p.name for p in params if not p.arg and not p.value}
    if "grid" in d:
        r.step_expr(d["grid"], names | axis_names | given, "grid")
    for key in ("subgroups", "fragments", "workgroup_bytes"):
        if key in d:
            r.expr(d[key], axis_names, key)
    if any(a.mma for a in axes) != ("fragments" in d):
        r.fail(r.line("fragments"), 'fragments and an axis of "mma" go together')
    spec = Spec(
        name=path.stem, family=path.parent.name, file=file, text=r.text,
        body_line=r.body_line, doc=d["doc"].strip(),
        iterate=iterate, grid=d.get("grid", ""), axes=axes, tensors=tensors, params=params,
        options=options, uses=tuple(d.get("uses", ())), when=when, part_of=d.get("part_of", ""),
        bodies=tuple(d.get("bodies", ())), moves_bytes=d.get("moves_bytes", False),
        configs=configs, rows=rows, reductions=reductions, subgroups=d.get("subgroups", ""),
        fragments=d.get("fragments", ""), faults=d.get("faults", False),
        workgroup_bytes=d.get("workgroup_bytes", ""), vectors=vectors,
        source=d.get("source", ""), wrappers=_wrappers(r, params),
        axis_moves=_axis(r, "moves", tensors),
        axis_last_only=_axis(r, "last_only", tensors, params),
        nbytes=_work(r, "bytes", tensors, params, options),
        operations=_work(r, "operations", tensors, params, options),
    )  # fmt: skip
    _uses(r, spec, axis_names)
    return spec


def _uses(r: Reader, spec: Spec, names: set[str]) -> None:
    """Fail unless every library that a variant uses exists and each has a name of its own."""
    line = r.line("uses")
    seen: set[str] = set()
    for path in spec.uses:
        if not isinstance(path, str) or not library_name(path):
            r.fail(line, f"uses: {path!r} is not a path with a part that no axis decides")
        for text in LIBRARY.findall(path):
            r.expr(text, names, "uses")
        if library_name(path) in seen:
            r.fail(line, f"uses: two libraries have the name {library_name(path)!r}")
        seen.add(library_name(path))
    for axes in spec.variants() if spec.uses else ():
        for lib in spec.libraries(axes).values():
            own, shared = library_files(spec.family, lib)
            if not any((r.path.parents[1] / file).is_file() for file in (own, shared)):
                r.fail(line, f"there is no kernels/{shared} and no kernels/{own}")


def _wrappers(r: Reader, params: tuple[Param, ...]) -> dict[str, dict[str, Any]]:
    """The other names of the kernel, each with the scalars that it sets."""
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
    """The bytes or the operations of a call. They do not depend on how a plan cuts the call into
    steps."""
    if key not in r.data:
        return ""
    names = {t.name for t in tensors} | {o.name for o in options}
    names |= {p.name for p in params if p.arg and p.default is not None}
    return r.expr(r.data[key], names, key)


def _axis(
    r: Reader, key: str, tensors: tuple[TensorSpec, ...], params: tuple[Param, ...] = ()
) -> tuple[str, ...]:
    table = r.data.get("axis", {})
    r.checked(table, "axis", "axis")
    known = {t.name for t in tensors if t.role == "in"} | {p.name for p in params}
    for name in table.get(key, ()):
        if name not in known:
            r.fail(r.line("axis"), f"axis.{key} names {name!r}, which is no argument")
    return tuple(table.get(key, ()))
