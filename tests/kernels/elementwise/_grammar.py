"""Random expressions of the language, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pykernels.plans.elementwise.language import CASTS
from pykernels.reference.elementwise import OPS

# What is exact on small integers, in every dtype.
EXACT = ("add", "sub", "mul", "neg", "abs", "minimum", "maximum", "where", "less", "less_equal",
         "greater", "greater_equal", "equal", "not_equal", "square", "sign")  # fmt: skip
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "pow": "**",
}  # fmt: skip


@dataclass(frozen=True)
class Grammar:
    """Texts over these names; operations are those of the table that are in `ops`."""

    names: Sequence[str]
    ops: Sequence[str]
    casts: Sequence[str] = CASTS

    def text(self, rng: np.random.Generator, depth: int) -> str:
        """A random expression, with no more than `depth` operations in each other."""
        if depth == 0 or rng.random() < 0.1:
            if rng.random() < 0.8:
                return str(rng.choice(self.names))
            return str(rng.choice(["2", "3.0", "-1", "0.5", "True"]))
        if self.casts and rng.random() < 0.1:
            return f"{rng.choice(self.casts)}({self.text(rng, depth - 1)})"
        op = OPS[str(rng.choice(self.ops))]
        args = [self.text(rng, depth - 1) for _ in op.inputs]
        if op.name in _SIGNS and rng.random() < 0.7:
            return f"({args[0]} {_SIGNS[op.name]} {args[1]})"
        if op.name == "where" and rng.random() < 0.5:
            return f"({args[1]} if {args[0]} else {args[2]})"
        return f"{op.name}({', '.join(args)})"
