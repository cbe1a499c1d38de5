"""The interface of a body, from which its head is written: axes, tensors and params."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

__all__ = ["CONFIG", "DIALECTS", "Axis", "Interface", "Param", "TensorSpec", "Value"]

Value = str | int | bool
CONFIG = "CFG"  # templates and expressions call a variant's configuration by this name
# How texts use matrix units: in the syntax of Tint or of naga, or emulated for tests on devices
# without matrix units. `kernels/lib/mma/` has the same macros for each.
DIALECTS = ("subgroup_matrix", "cooperative_matrix", "emulated")


@dataclass(frozen=True)
class Axis:
    """An axis: a choice that is made when a text is rendered."""

    name: str
    values: tuple[Value, ...]
    pick: str = ""  # the expression that picks the value; "" if the plan gives it
    line: int = 1
    configs: bool = False  # True if the values are the names of the configurations
    ops: bool = False  # True if the values are the names of operations
    mma: bool = False  # True if the values are the dialects of matrix units

    @property
    def type(self) -> str:
        return type(self.values[0]).__name__


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument: how it is bound, stored and indexed."""

    name: str
    role: str  # in | out
    dtype: str  # an axis, a short dtype name, or "*"
    dtypes: tuple[str, ...]  # public names of the dtypes that are accepted
    same: str = ""  # tensors with the same word have one dtype
    doc: str = ""
    vec: str = ""
    bind: str = ""  # an expression of axes: the element type of the bound array
    when: str = ""
    optional: bool = False
    readonly: bool = False
    alias: str = ""
    in_place: bool = False
    keeps: bool = False
    skips: bool = False
    like: str = ""
    broadcast: str = ""
    index: bool = True
    # an expression for the view that the index space uses, if it is not the tensor itself
    over: str = ""
    expand: str = ""  # the tensor to whose shape this tensor repeats, by numpy's rule
    axes: tuple[str, ...] = ()  # the names of the tensor's axes, one letter each
    steps: tuple[str, ...] = ()  # the axes whose steps are members of Params
    line: int = 1  # the line on which the spec declares it

    def step(self, axis: str) -> str:
        """The member of Params that holds the step along one axis."""
        return f"{self.name}_{axis}s"


@dataclass(frozen=True)
class Param:
    """A number that reaches a body through Params."""

    name: str
    type: str
    value: str = ""  # an expression for the value; "" with arg False means that the plan gives it
    default: float | int | bool | None = None
    arg: bool = False  # True for a scalar argument of the call
    of: str = ""  # for the type "bits", the tensor or dtype that decides the bit pattern
    # an expression of axes: True if the param exists; such params are the last, so no other param
    # moves
    when: str = ""
    doc: str = ""
    line: int = 1  # the line on which the spec declares it
    member: str = ""  # the member of Params, if its name differs from the name in the call
    fixed: bool = False  # True if it always has its default and is not an argument of the call

    @property
    def fields(self) -> list[str]:
        """The members of Params that hold this number."""
        name = self.member or self.name
        return [f"{name}_lo", f"{name}_hi"] if self.type == "bits" else [name]


@dataclass(frozen=True, kw_only=True)
class Interface:
    """Everything that a head depends on, apart from the values of the axes and the binding mode."""

    name: str
    axes: tuple[Axis, ...] = ()
    tensors: tuple[TensorSpec, ...]
    params: tuple[Param, ...] = ()
    iterate: str = "none"
    subgroups: str = ""  # an expression of axes: True if subgroup operations are used
    faults: bool = False  # True if each launch has a slot to report wrong numbers
    configs: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    fragments: str = ""  # an expression of axes: the element type of matrix units' operands
    # the axis that gives the number of levels of the index space, if it may be smaller
    levels: str = ""

    def dialect(self, axes: Mapping[str, Any]) -> str:
        """The dialect in which a variant uses matrix units, "" if it uses none."""
        return next((str(axes[a.name]) for a in self.axes if a.mma), "")

    def values(self, axes: Mapping[str, Any]) -> dict[str, Any]:
        """The names of a variant for expressions and templates: its axes and its configuration."""
        out = dict(axes)
        for a in self.axes:
            if a.configs:
                out[CONFIG] = SimpleNamespace(**self.configs[axes[a.name]])
        return out
