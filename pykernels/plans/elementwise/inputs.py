"""The inputs of a kernel made of an expression: tensors x0, x1, ... and numbers c0, c1, ..., and
the lines of its text that compute values from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykernels.dtypes import DTYPES
from pykernels.errors import LimitError
from pykernels.wgsl.interface import Axis, Param, TensorSpec
from pykernels.wgsl.rows import value_type

from .resolve import Typed, exponents, native
from .text import Scalar, functions, scalars, value

__all__ = ["Inputs", "stored_dtypes"]

MAX_INPUTS = 7  # every device allows eight storage bindings; the output takes one
_FORMATS = {"f32": "f", "i32": "i", "u32": "I", "bool": "I"}
_MEMBERS = {"f32": "f32", "i32": "i32", "u32": "u32", "bool": "u32"}


@dataclass(frozen=True)
class Inputs:
    """The inputs of a typed expression: tensors with their storage types, and numbers."""

    root: Typed
    tensors: Mapping[str, str]  # the short dtype of each tensor, by the caller's name
    scalars: tuple[Scalar, ...]

    @staticmethod
    def of(op: str, root: Typed, tensors: Mapping[str, str]) -> Inputs:
        """The inputs for tensors, each stored in its `native` dtype; LimitError if there are too
        many."""
        most = MAX_INPUTS - bool(exponents(root))  # one less if the page of faults takes a binding
        if len(tensors) > most:
            raise LimitError(
                f"[{op}] an expression reads at most {most} tensors but has {len(tensors)}"
            )
        shorts = {n: DTYPES[native(d)].short for n, d in tensors.items()}
        return Inputs(root, shorts, scalars(root))

    @property
    def shorts(self) -> dict[str, str]:
        """The storage types of the kernel's tensors, by their names."""
        return {f"x{i}": short for i, short in enumerate(self.tensors.values())}

    @property
    def members(self) -> tuple[str, ...]:
        """The numbers by their names in the kernel."""
        return tuple([f"c{i}" for i in range(len(self.scalars))])

    @property
    def args_format(self) -> str:
        """The format in which the numbers are packed."""
        return "".join([_FORMATS[kind] for _, kind in self.scalars])

    def params(self) -> tuple[Param, ...]:
        """The numbers as members of Params."""
        kinds = [_MEMBERS[kind] for _, kind in self.scalars]
        return tuple([Param(m, k, arg=True) for m, k in zip(self.members, kinds, strict=True)])

    def axes(self, x: str) -> list[Axis]:
        """The axes of one tensor in the text: its storage type, if that may change, and its vector
        width."""
        number = x.removeprefix("x")
        found = [Axis(f"V_{number}", (1, 4))]
        if self.shorts[x] == "f16":  # on a device without f16, the tensor is bound as f32
            found = [Axis(f"T_{number}", ("f16", "f32")), *found]
        return found

    def spec(self, x: str) -> TensorSpec:
        """The spec of one tensor for the head."""
        number, short = x.removeprefix("x"), self.shorts[x]
        dtype = f"T_{number}" if short == "f16" else short
        return TensorSpec(x, "in", dtype, (), vec=f"V_{number}")

    def kind(self, x: str) -> str:
        """The type in which the elements of a tensor are read."""
        return "f32" if self.shorts[x] == "f16" else self.shorts[x]

    def functions(self, vec: int) -> list[str]:
        """The operations and their helpers as WGSL."""
        return functions(self.root, vec)

    def values(
        self, lines: list[str], vec: int, loads: Sequence[Mapping[str, str]],
        checked: Sequence[str] = (),
    ) -> list[str]:  # fmt: skip
        """Appends the lines that compute one value for each set of loads, and returns the names of
        the values. The lines of all loads come first. `checked` has one line for each set, which
        checks exponents."""
        known: dict[str, str] = {}

        def let(expression: str) -> str:
            if expression not in known:
                known[expression] = f"v{len(known)}"
                lines.append(f"  let {known[expression]} = {expression};")
            return known[expression]

        names = dict(zip(self.tensors, self.shorts, strict=True))
        found = [
            {n: let(f"{value_type('V', self.kind(x), vec)}({one[x]})") for n, x in names.items()}
            for one in loads
        ]
        members = {s: f"p.{m}" for s, m in zip(self.scalars, self.members, strict=True)}
        for one, line in zip(found, checked, strict=False):
            for exponent in exponents(self.root):
                lines.append(line.replace("EXPONENT", value(exponent, vec, let, one, members)))
        return [value(self.root, vec, let, one, members) for one in found]


def stored_dtypes(short: str) -> Any:
    """The dtypes of tensors with this storage type; on a device without f16, float16 tensors are
    stored as f32."""
    name = next(d.name for d in DTYPES.values() if d.short == short)
    return (name, "float32") if short == "f16" else (name,)
