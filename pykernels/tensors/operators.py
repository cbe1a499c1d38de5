"""Python's operators on tensors: all run on the device."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self, TypeAlias

import numpy as np

from pykernels.lazy import load

__all__ = ["Operators", "function", "is_function"]

Operand: TypeAlias = "Operators | np.ndarray[Any, np.dtype[Any]] | np.generic | complex"


@functools.cache
def function(name: str) -> Callable[..., Any]:
    """A function of layer two, which is loaded when an operator is first used."""
    found: Callable[..., Any] = getattr(load("pykernels.functional"), name)
    return found


def _fits(other: object) -> bool:
    return isinstance(other, (Operators, np.ndarray, np.generic, int, float, complex))


def _foreign(other: Any, device: Any) -> Any:
    """An array of jax, torch or a similar package as a tensor; None if it is not an array."""
    if hasattr(other, "__array__") and hasattr(other, "shape"):
        return function("tensor")(other, device=device)
    return None


def _two(name: str, a: Any, b: Any) -> Any:
    if not (_fits(a) and _fits(b)):
        a = a if _fits(a) else _foreign(a, b.device)
        b = b if _fits(b) else _foreign(b, a.device) if a is not None else None
        if a is None or b is None:
            return NotImplemented
    return function(name)(a, b)


def _into(name: str, a: Any, b: Any) -> Any:
    b = b if _fits(b) else _foreign(b, a.device)
    return NotImplemented if b is None else function(name)(a, b, out=a)


def is_function(name: str) -> bool:
    """True if layer two has this function."""
    return hasattr(load("pykernels.functional"), name)


class Operators:
    """Arithmetic and comparisons, element by element. Tensors are still hashed by identity.

    The other operand is a tensor, a numpy array or a number; dtypes are promoted as
    docs/reference/promotion.md says. If the operation is in place, its result must have the
    tensor's dtype.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __contains__(self, item: object) -> bool:
        raise TypeError("`in` would need a read of the tensor: look in .numpy()")

    def __add__(self, other: Operand) -> Self:
        return _two("add", self, other)  # type: ignore[no-any-return]

    def __radd__(self, other: Operand) -> Self:
        return _two("add", other, self)  # type: ignore[no-any-return]

    def __iadd__(self, other: Operand) -> Self:
        return _into("add", self, other)  # type: ignore[no-any-return]

    def __sub__(self, other: Operand) -> Self:
        return _two("sub", self, other)  # type: ignore[no-any-return]

    def __rsub__(self, other: Operand) -> Self:
        return _two("sub", other, self)  # type: ignore[no-any-return]

    def __isub__(self, other: Operand) -> Self:
        return _into("sub", self, other)  # type: ignore[no-any-return]

    def __mul__(self, other: Operand) -> Self:
        return _two("mul", self, other)  # type: ignore[no-any-return]

    def __rmul__(self, other: Operand) -> Self:
        return _two("mul", other, self)  # type: ignore[no-any-return]

    def __imul__(self, other: Operand) -> Self:
        return _into("mul", self, other)  # type: ignore[no-any-return]

    def __truediv__(self, other: Operand) -> Self:
        return _two("div", self, other)  # type: ignore[no-any-return]

    def __rtruediv__(self, other: Operand) -> Self:
        return _two("div", other, self)  # type: ignore[no-any-return]

    def __itruediv__(self, other: Operand) -> Self:
        return _into("div", self, other)  # type: ignore[no-any-return]

    def __floordiv__(self, other: Operand) -> Self:
        return _two("floor_divide", self, other)  # type: ignore[no-any-return]

    def __rfloordiv__(self, other: Operand) -> Self:
        return _two("floor_divide", other, self)  # type: ignore[no-any-return]

    def __ifloordiv__(self, other: Operand) -> Self:
        return _into("floor_divide", self, other)  # type: ignore[no-any-return]

    def __mod__(self, other: Operand) -> Self:
        return _two("remainder", self, other)  # type: ignore[no-any-return]

    def __rmod__(self, other: Operand) -> Self:
        return _two("remainder", other, self)  # type: ignore[no-any-return]

    def __imod__(self, other: Operand) -> Self:
        return _into("remainder", self, other)  # type: ignore[no-any-return]

    def __pow__(self, other: Operand) -> Self:
        return _two("pow", self, other)  # type: ignore[no-any-return]

    def __rpow__(self, other: Operand) -> Self:
        return _two("pow", other, self)  # type: ignore[no-any-return]

    def __ipow__(self, other: Operand) -> Self:
        return _into("pow", self, other)  # type: ignore[no-any-return]

    def __matmul__(self, other: Operand) -> Self:
        return _two("matmul", self, other)  # type: ignore[no-any-return]

    def __rmatmul__(self, other: Operand) -> Self:
        return _two("matmul", other, self)  # type: ignore[no-any-return]

    def __and__(self, other: Operand) -> Self:
        return _two("bitwise_and", self, other)  # type: ignore[no-any-return]

    def __rand__(self, other: Operand) -> Self:
        return _two("bitwise_and", other, self)  # type: ignore[no-any-return]

    def __iand__(self, other: Operand) -> Self:
        return _into("bitwise_and", self, other)  # type: ignore[no-any-return]

    def __or__(self, other: Operand) -> Self:
        return _two("bitwise_or", self, other)  # type: ignore[no-any-return]

    def __ror__(self, other: Operand) -> Self:
        return _two("bitwise_or", other, self)  # type: ignore[no-any-return]

    def __ior__(self, other: Operand) -> Self:
        return _into("bitwise_or", self, other)  # type: ignore[no-any-return]

    def __xor__(self, other: Operand) -> Self:
        return _two("bitwise_xor", self, other)  # type: ignore[no-any-return]

    def __rxor__(self, other: Operand) -> Self:
        return _two("bitwise_xor", other, self)  # type: ignore[no-any-return]

    def __ixor__(self, other: Operand) -> Self:
        return _into("bitwise_xor", self, other)  # type: ignore[no-any-return]

    def __lshift__(self, other: Operand) -> Self:
        return _two("left_shift", self, other)  # type: ignore[no-any-return]

    def __rlshift__(self, other: Operand) -> Self:
        return _two("left_shift", other, self)  # type: ignore[no-any-return]

    def __ilshift__(self, other: Operand) -> Self:
        return _into("left_shift", self, other)  # type: ignore[no-any-return]

    def __rshift__(self, other: Operand) -> Self:
        return _two("right_shift", self, other)  # type: ignore[no-any-return]

    def __rrshift__(self, other: Operand) -> Self:
        return _two("right_shift", other, self)  # type: ignore[no-any-return]

    def __irshift__(self, other: Operand) -> Self:
        return _into("right_shift", self, other)  # type: ignore[no-any-return]

    def __lt__(self, other: Operand) -> Self:
        return _two("less", self, other)  # type: ignore[no-any-return]

    def __le__(self, other: Operand) -> Self:
        return _two("less_equal", self, other)  # type: ignore[no-any-return]

    def __gt__(self, other: Operand) -> Self:
        return _two("greater", self, other)  # type: ignore[no-any-return]

    def __ge__(self, other: Operand) -> Self:
        return _two("greater_equal", self, other)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return _two("equal", self, other)  # type: ignore[no-any-return]

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return _two("not_equal", self, other)  # type: ignore[no-any-return]

    def __neg__(self) -> Self:
        return function("neg")(self)  # type: ignore[no-any-return]

    def __abs__(self) -> Self:
        return function("abs")(self)  # type: ignore[no-any-return]

    def __invert__(self) -> Self:
        return function("bitwise_not")(self)  # type: ignore[no-any-return]

    def __pos__(self) -> Self:
        return self.copy()  # type: ignore[attr-defined, no-any-return]

    def __divmod__(self, other: Operand) -> tuple[Self, Self]:
        return _two("floor_divide", self, other), _two("remainder", self, other)

    def __rdivmod__(self, other: Operand) -> tuple[Self, Self]:
        return _two("floor_divide", other, self), _two("remainder", other, self)
