"""Emits the operations of a family as Python: a numpy function for each, and its rules as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from .errors import BuildError
from .gradients import in_language
from .ops import Row
from .spec import Spec
from .tables import DTYPE_NAMES

__all__ = ["activation_type", "emit_ops", "with_activations"]


def emit_ops(rows: Sequence[Row], helper: Callable[[str], str]) -> dict[str, str]:
    """`_generated/ops/FAMILY.py` for each family, and the data for epilogues of other families."""
    files = {}
    for file, members in groupby(rows, key=lambda row: row.file):
        family = file.split("/")[-2]
        files[f"ops/{family}.py"] = _family(file, list(members), helper)
    numbers = {None: 0} | {row.name: row.activation for row in _activations(rows)}
    files["ops/__init__.py"] = "\n".join(
        [
            '"""Generated from kernels/*/ops.toml by codegen; do not edit."""', "",
            "from __future__ import annotations", "",
            "from typing import Literal, TypeAlias", "",
            "# The activations of epilogues, with the numbers that they have in shaders.",
            f"Activation: TypeAlias = {activation_type(rows)}",
            f"ACTIVATIONS: dict[str | None, int] = {numbers!r}", "",
        ]
    )  # fmt: skip
    return files


def _activations(rows: Sequence[Row]) -> list[Row]:
    return sorted((row for row in rows if row.activation), key=lambda row: row.activation)


def activation_type(rows: Sequence[Row]) -> str:
    """The annotation for the name of an activation."""
    names = ", ".join(repr(row.name) for row in _activations(rows))
    return f"Literal[{names}]" if names else "None"


def with_activations(spec: Spec, rows: Sequence[Row]) -> Spec:
    """The spec with the names of all activations in the types of its options."""
    names = activation_type(rows)
    options = (replace(o, type=re.sub(r"\bActivation\b", names, o.type)) for o in spec.options)
    return replace(spec, options=tuple(options))


def _family(file: str, rows: Sequence[Row], helper: Callable[[str], str]) -> str:
    lines = [f'"""Generated from {file} by codegen; do not edit."""', ""]
    lines += ["from __future__ import annotations", "", "import numpy as np", ""]
    texts = " ".join(t for row in rows for t in (row.numpy, *row.grad.values()))
    if re.search(r"\bspecial\.", texts):
        lines.append("from pykernels.wgsl import special")
    lines.append("from pykernels.wgsl.elementwise import Array, Op, wide")
    for row in rows:
        lines += ["", "", *_functions(row)]
    lines += ["", "", "OPS: dict[str, Op] = {"]
    names = {name: row.name for row in rows for name in (row.name, *row.aliases)}
    for row in rows:
        fields = [*_fields(row), f"gradients={_gradients(row, names)!r}"]
        lines += [f"    {row.name!r}: Op(", *(f"        {f}," for f in fields), "    ),"]
    lines += ["}", "", "# What the texts call, by name.", "HELPERS: dict[str, str] = {"]
    for name in dict.fromkeys(h for row in rows for h in row.helpers):
        lines.append(f"    {name.rpartition('.')[2]!r}: {_plain(helper(name))!r},")
    return "\n".join([*lines, "}", ""])


def _plain(text: str) -> str:
    """A WGSL text without marks and comments."""
    lines = (line.partition("//")[0].rstrip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)


def _functions(row: Row) -> list[str]:
    scalars = "".join(f", {name}: float = {value!r}" for name, value in row.params.items())
    given = ", ".join(f"{name}: Array" for name in row.inputs) + scalars
    wide = [f"    {name} = wide({name})" for name in row.inputs]
    names = ", ".join([*row.inputs, *row.params])
    body = [
        f"def {row.name}({given}) -> Array:",
        f'    """{row.doc}"""',
        *wide,
        '    with np.errstate(all="ignore"):',
        f"        return np.asarray({row.numpy})",
        "", "",
        f"def _{row.name}_grad(dy: Array, {given}) -> tuple[Array, ...]:",
        f"    y = {row.name}({names})",
    ]  # fmt: skip
    if not any(re.search(r"\by\b", text) for text in row.grad.values()):
        body.pop()
    if not row.grad:
        del body[-3:]
        return body
    values = (name for name in row.inputs if name not in row.conditions)
    parts = "".join(f"np.asarray({row.grad[name]}), " for name in values)
    return [*body, f"    return ({parts})"]


def _fields(row: Row) -> list[str]:
    special = ", ".join(f"({', '.join(map(_number, one))})" for one in row.special)
    domain = ", ".join(f"({_number(a)}, {_number(b)})" for a, b in
                       (row.domain[name] for name in row.inputs if name in row.domain))  # fmt: skip
    texts = {kind: _plain(row.text(kind)) for kind in row.classes}
    return [
        f"name={row.name!r}", f"inputs={row.inputs!r}", f"conditions={row.conditions!r}",
        f"dtypes={tuple(DTYPE_NAMES[d] for d in row.dtypes)!r}", f"output={row.output!r}",
        f"params={row.params!r}", f"aliases={row.aliases!r}", f"reference={row.name}",
        f"gradient={f'_{row.name}_grad' if row.grad else None}", f"domain=({domain},)",
        f"ulp={row.ulp!r}", f"special=({special}{',' if row.special else ''})",
        f"operations={row.operations}", f"public={bool(row.body)}", f"texts={texts!r}",
        f"helpers={tuple(h.rpartition('.')[2] for h in row.helpers)!r}",
    ]  # fmt: skip


def _gradients(row: Row, names: Mapping[str, str]) -> dict[str, str]:
    """The gradients of a row as expressions for shaders."""
    try:
        return {name: in_language(text, names) for name, text in row.grad.items()}
    except ValueError as e:
        raise BuildError(row.file, row.line, f"{row.name}: grad: {e}") from None


def _number(value: float) -> str:
    return repr(value) if value == value and abs(value) != float("inf") else f'float("{value}")'
