"""The texts of a body: a variant for each combination of its axes, and for each binding mode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pykernels.errors import LimitError
from pykernels.validate import Limits
from pykernels.validate._instrument import debugging
from pykernels.wgsl import expr
from pykernels.wgsl.head import features, head, modes, params

from .errors import BuildError
from .render import Rendered, Renderer
from .spec import Spec

__all__ = ["LIMITS", "Variant", "in_modes", "instrumented", "render_bodies"]

_PARAM = re.compile(r"(?<![\w.])p\.(\w+)")
LIMITS = Limits()  # WebGPU's guaranteed limits, for variants that declare no more


@dataclass(frozen=True)
class Variant:
    """One text of one body."""

    spec: Spec
    axes: dict[str, Any]
    mode: str
    text: str
    features: tuple[str, ...]
    head_lines: int
    origin: tuple[tuple[str, int], ...]
    debug: Variant | None = None  # the same text with its calls of debug; None if it has none

    @property
    def key(self) -> str:
        return " ".join([*(f"{k}={v}" for k, v in self.axes.items()), f"mode={self.mode}"])

    @property
    def name(self) -> str:
        return f"{self.spec.name} {self.key}"

    @property
    def shipped(self) -> bool:
        """True if the text is part of the package. Emulations are only for tests, and no engine
        supports naga's dialect of matrix units yet."""
        return self.spec.dialect(self.axes) in ("", "subgroup_matrix")

    def where(self, line: int) -> tuple[str, int]:
        """The file and line of the template for a line of the text; for a line of the head, the
        spec."""
        index = line - 1 - self.head_lines
        return self.origin[index] if 0 <= index < len(self.origin) else (self.spec.file, 1)

    @property
    def limits(self) -> Limits:
        """The limits that a device must have: WebGPU's guaranteed limits, or higher limits if the
        spec needs them."""
        more = self.spec.workgroup_bytes
        if not more:
            return LIMITS
        return replace(
            LIMITS, max_workgroup_storage=expr.evaluate(more, self.spec.values(self.axes))
        )


Bodies = list[tuple[dict[str, Any], Rendered]]


def render_bodies(spec: Spec, renderer: Renderer) -> tuple[Spec, Bodies]:
    """The bodies of all variants, and the spec, whose tensors have only the steps that the bodies
    read."""
    full = replace(spec, tensors=tuple(replace(t, steps=t.axes) for t in spec.tensors))
    bodies: Bodies = []
    found: set[str] = set()
    for axes in [] if spec.bodies else spec.variants():
        body = renderer.render(spec, axes)
        found |= _params_read(full, axes, body)
        for call in ("fault_started(", "fault(") if spec.faults else ():
            if call not in body.text:
                raise BuildError(spec.file, spec.body_line, f"faults: the body has no {call}...)")
        bodies.append((axes, body))
    for p in spec.params if bodies else ():
        for name in p.fields:
            if name not in found:
                raise BuildError(spec.file, p.line, f"params.{name} is read by no variant")
    tensors = []
    for t in spec.tensors:
        steps = tuple(axis for axis in t.axes if t.step(axis) in found)
        if t.axes and bodies and not steps:
            raise BuildError(
                spec.file,
                t.line,
                f"{t.name}: no variant reads the step of any axis (p.{t.step(t.axes[0])}, ...)",
            )
        tensors.append(replace(t, steps=steps))
    spec = replace(spec, tensors=tuple(tensors))
    for axes, body in bodies:
        if body.debug is not None:
            _params_read(spec, axes, body.debug)  # raises for a param that `body` lacks
    return spec, bodies


def in_modes(spec: Spec, bodies: Bodies) -> Iterator[Variant]:
    """The texts of rendered bodies: one for each binding mode."""
    for axes, body in bodies:
        for mode in modes(spec, axes):
            try:
                top = head(spec, axes, mode)
            except LimitError as e:
                raise BuildError(spec.file, 1, str(e)) from None
            plain = Variant(
                spec, axes, mode, top + body.text, tuple(features(spec, axes)),
                top.count("\n"), body.origin,
            )  # fmt: skip
            if body.debug is not None:
                debug = replace(plain, text=top + body.debug.text, origin=body.debug.origin)
                plain = replace(plain, debug=debug)
            yield plain


def instrumented(v: Variant) -> Variant:
    """The variant, whose text has calls of debug, as a launch inside of `Device.debug` compiles it;
    the result has a name of its own."""
    given = [p for p in v.spec.params if not p.arg]
    values = {name for p in given for name in p.fields}
    names = [name for name, _ in params(v.spec, v.axes)]
    arguments = {name for p in v.spec.params if p.arg for name in p.fields}
    members = sum(name not in {*values, *arguments, "fault_slot"} for name in names)
    made = debugging("debug", v.text, members)
    return replace(v, text=made.text, mode=f"{v.mode} debug")


def _params_read(spec: Spec, axes: dict[str, Any], body: Rendered) -> set[str]:
    """The params that a body reads; BuildError for a value that the spec does not have."""
    known = {name for name, _ in params(spec, axes)}
    found = set()
    for line, (file, number) in zip(body.text.splitlines(), body.origin, strict=True):
        for name in _PARAM.findall(line.partition("//")[0]):
            if name not in known:
                raise BuildError(
                    file, number, f"p.{name} is read, but the spec has no params.{name}"
                )
            found.add(name)
    return found
