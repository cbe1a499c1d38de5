"""The operators that tensors do not have: each raises TypeError and names what to call instead.

Left alone, Python compares tensors by identity, and numpy takes them to the host in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["NoOperators"]

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# Those with a reflected form, which has r before its name.
_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
    "divmod": "divmod()", "pow": "**", "matmul": "@", "and": "&", "or": "|", "xor": "^",
    "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_UNARY = {"neg": "-", "pos": "+", "abs": "abs()", "invert": "~"}
_FUNCTIONS = {"add": "pk.add", "matmul": "pk.matmul", "neg": "pk.neg"}


def _refusal(what: str, function: str | None = None) -> Callable[..., NoReturn]:
    host = "compute with .numpy() on the host"
    hint = f"use {function}, or {host}" if function else host

    def refuse(*operands: Any) -> NoReturn:
        raise TypeError(f"tensors have no operator {what}: {hint}")

    return refuse


class NoOperators:
    """Comparisons, arithmetic and `in` raise; hashes stay those of objects."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's operators and functions leave the operation to us

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __contains__(self, item: object) -> bool:
        raise TypeError("`in` would need a read of the tensor: look in .numpy()")


# Not in the class: checkers of types go on to refuse what is not there.
for _name, _sign in (*_COMPARISONS.items(), *_UNARY.items()):
    setattr(NoOperators, f"__{_name}__", _refusal(_sign, _FUNCTIONS.get(_name)))
for _name, _sign in _BINARY.items():
    for _reflected in ("", "r"):
        setattr(NoOperators, f"__{_reflected}{_name}__", _refusal(_sign, _FUNCTIONS.get(_name)))
