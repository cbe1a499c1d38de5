"""Checks over the specs of all families together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from .errors import BuildError
from .spec import Spec

__all__ = ["MAX_TEXTS", "check_budget", "check_specs"]

# The most texts that all families may have, because of the size of the wheel and the time of
# validation (docs/reference/spec.md).
MAX_TEXTS = 8200


def check_budget(texts: int) -> None:
    """BuildError if all families together have more texts than planned."""
    if texts > MAX_TEXTS:
        raise BuildError(
            "kernels", 0,
            f"{texts} texts are more than {MAX_TEXTS}: make an axis a param, or its list shorter",
        )  # fmt: skip


def _plan_file(spec: Spec) -> str:
    """The module of a kernel's plan."""
    return f"pykernels/plans/{spec.family}/{spec.plan or spec.name}.py"


def check_specs(specs: Sequence[Spec], plans: Collection[str]) -> None:
    """BuildError unless the specs of all families fit together; `plans` are the kernels with a
    plan written by hand."""
    named = [*specs, *(k for s in specs if s.rows for k in s.kernels())]
    for one, other in pairwise(sorted(named, key=lambda s: s.name)):
        if one.name == other.name:
            raise BuildError(other.file, 1, f"{one.file} has this name already")
    public = {k.name for s in specs for k in s.kernels()}
    runnable = {s.name for s in specs if not s.bodies}
    for s in specs:
        for name in s.bodies:
            if name not in runnable:
                raise BuildError(s.file, 1, f"bodies names {name!r}, which is no body")
        if s.bodies and (s.plan or s.name) not in plans:
            raise BuildError(s.file, 1, f"a kernel without a body needs {_plan_file(s)}")
        if s.part_of and s.part_of not in public:
            raise BuildError(s.file, 1, f"part_of names {s.part_of!r}, which is no kernel")
        if s.part_of or s.name in plans:
            continue
        for key, given in (("faults", s.faults), ("options", s.options)):
            if given:
                raise BuildError(s.file, 1, f"{key} need a plan, and there is no {_plan_file(s)}")
        _check_shapes(s)
        for a in s.axes:
            if not a.pick and not a.ops:
                raise BuildError(
                    s.file, a.line,
                    f"axis {a.name} has no pick, and there is no {_plan_file(s)}",
                )  # fmt: skip
        for p in s.params:
            if not p.arg and not p.value:
                raise BuildError(
                    s.file, p.line,
                    f"params.{p.name} has no value and no default, and there is no "
                    f"{_plan_file(s)}",
                )  # fmt: skip


def _check_shapes(s: Spec) -> None:
    """In a kernel without a plan, each tensor of the index space needs a rule about its shape."""
    if s.iterate == "none":
        return
    tied = {s.filled.name}
    there = {t.name for t in s.tensors if not t.optional}
    for _ in s.tensors:
        for t in s.tensors:
            rule = t.like or t.broadcast or t.expand
            if rule in tied & there:
                tied.add(t.name)
            if t.like and t.name in tied & there:
                tied.add(t.like)
    for t in s.tensors:
        if t.index and not t.over and t.name not in tied:
            raise BuildError(
                s.file, t.line,
                f"{t.name} is not known to have the shape of {s.filled.name}, the index space: "
                "give it like, broadcast or expand, or index = false",
            )  # fmt: skip
