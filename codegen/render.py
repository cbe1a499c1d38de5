"""Renders a kernel body: Jinja2 in the form of WGSL comments, with a map back to the template.

Directives are lines that begin with `//%`, values are `${...}`. Every other line gets a marker
that survives loops and includes and is stripped afterwards, so that an error in the rendered
text can be traced to the template's own file and line.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from pykernels.validate._instrument import WrongDebug, debugging, without_debug
from pykernels.wgsl import expr
from pykernels.wgsl.rows import class_of, typed, value_type

from .errors import BuildError
from .ops import ROW, Row, gated
from .spec import Spec, library_files

__all__ = ["Rendered", "Renderer"]

_MARK = re.compile(r" ?//@([^:\n]+):(\d+)@")


@dataclass(frozen=True)
class Rendered:
    """A text, and the template's file and line for each line of it."""

    text: str
    origin: tuple[tuple[str, int], ...]
    debug: Rendered | None = None  # the same body with its calls of debug; None if it has none


def _marked(text: str, file: str, skip: int = 0) -> str:
    """The template with a marker on each line that is not a directive; `skip` lines are blanked."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if number <= skip:
            lines.append("")
        elif line.lstrip().startswith("//%") or not line.strip():
            lines.append(line)
        else:
            lines.append(f"{line} //@{file}:{number}@")
    return "\n".join(lines) + "\n"


class _Undefined(jinja2.StrictUndefined):
    """An undefined name. Errors name it, even in a place that expects a number, as in
    range(missing)."""

    __index__ = jinja2.StrictUndefined._fail_with_undefined_error


@dataclass(frozen=True)
class _Operation:
    """A row of a table, in the form that templates of bodies use."""

    row: Row
    helper: Callable[[str, str], str]

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def dtypes(self) -> tuple[str, ...]:
        return self.row.dtypes

    def scalars(self) -> str:
        """The row's params, as the last arguments in a call of its function."""
        return "".join(f", p.c{i}" for i in range(len(self.row.params)))

    def value(self, dtype: str, vec: int) -> str:
        """The type of a value."""
        return value_type("V", dtype, vec)

    def functions(self, dtype: str, vec: int) -> str:
        """The helpers that the row asks for, and the operation as the function `NAME_of`; a text
        for f16 alone needs no helpers."""
        plain = class_of(dtype) == "float" and (dtype != "f16" or self.row.half is None)
        names = self.row.helpers if plain else ()
        texts = [typed(self.helper(name, dtype), dtype, vec) for name in names]
        return "\n".join([*texts, self.row.function(dtype, vec)])


class Renderer:
    """Renders the bodies of one kernels folder; templates can read the rows for epilogues."""

    def __init__(self, kernels: Path, rows: Sequence[Row] = ()) -> None:
        self._sources: dict[str, str] = {}
        families = kernels.glob("*/lib/**/*.wgsl")
        for path in sorted([*(kernels / "lib").rglob("*.wgsl"), *families]):
            file = f"{kernels.name}/{path.relative_to(kernels).as_posix()}"
            self._sources[file] = _marked(path.read_text(encoding="utf-8"), file)
        self._env = jinja2.Environment(
            loader=jinja2.FunctionLoader(self._load),
            undefined=_Undefined,
            line_statement_prefix="//%",
            variable_start_string="${",
            variable_end_string="}",
            block_start_string="/*%",
            block_end_string="%*/",
            comment_start_string="/*#",
            comment_end_string="#*/",
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
        )
        self._folder = kernels.name
        self._env.globals["gated"] = gated
        activations = [row for row in rows if row.activation]
        self._env.globals["ACTIVATIONS"] = sorted(activations, key=lambda row: row.activation)

    def _load(self, name: str) -> tuple[str, str, Callable[[], bool]] | None:
        text = self._sources.get(name)
        return None if text is None else (text, name, lambda: True)

    def render(self, spec: Spec, axes: Mapping[str, Any]) -> Rendered:
        """The body of one variant."""
        if spec.file not in self._sources:
            self._sources[spec.file] = _marked(spec.text, spec.file, spec.body_line - 1)
        values = spec.values(axes)
        if spec.fragments:
            values["FRAGMENTS"] = expr.evaluate(spec.fragments, values)
        try:
            # a library may use the libraries before it
            for name, lib in spec.libraries(axes).items():
                files = [f"{self._folder}/{file}" for file in library_files(spec.family, lib)]
                values[name] = self._env.select_template(files).make_module(dict(values))
            if isinstance(values.get(ROW), Row):
                values[ROW] = _Operation(values[ROW], self.helper)
            text = self._env.get_template(spec.file).render(values)
        except jinja2.TemplateSyntaxError as e:
            raise BuildError(e.name or spec.file, e.lineno, str(e.message)) from None
        except Exception as e:  # the template's own expressions may raise any error
            file, line = self._where(e, spec.file)
            raise BuildError(file, line, f"{type(e).__name__}: {e}") from None
        return _unmark(text, spec.file)

    def helper(self, name: str, dtype: str = "f32") -> str:
        """The text of `library.macro`, for any type of values. For f16 it is the text of
        `macro_f16`, if the library has this shorter macro, which is exact enough for 11 bits."""
        library, _, macro = name.rpartition(".")
        module: Any = self._env.get_template(f"{self._folder}/lib/{library}.wgsl").module
        return str(getattr(module, f"{macro}_{dtype}", getattr(module, macro))())

    def _where(self, error: BaseException, default: str) -> tuple[str, int]:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if frame.filename in self._sources:
                return frame.filename, frame.lineno or 1
        return default, 1


def _unmark(text: str, default: str) -> Rendered:
    lines: list[str] = []
    origin: list[tuple[str, int]] = []
    last = (default, 1)
    for line in text.splitlines():
        marks = _MARK.findall(line)
        if marks:
            last = (marks[0][0], int(marks[0][1]))
            line = _MARK.sub("", line).rstrip()
        if line.strip():
            lines.append(line)
            origin.append(last)
    return _without_debug(Rendered("\n".join(lines) + "\n", tuple(origin)))


def _without_debug(body: Rendered) -> Rendered:
    """The body without its calls of debug; its `debug` is the body with them."""
    try:
        plain = without_debug("debug", body.text)
        if plain == body.text:
            return body
        debugging("debug", body.text)  # raises for a wrong call
    except WrongDebug as e:
        raise BuildError(*body.origin[e.line - 1], e.why) from None
    lines = zip(plain.splitlines(), body.origin, strict=True)
    kept = [(line.rstrip(), place) for line, place in lines if line.strip()]
    text = "".join(f"{line}\n" for line, _ in kept)
    return Rendered(text, tuple(place for _, place in kept), body)
