"""The subscripts of einsum, and the order of its products."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError

__all__: list[str] = []

Labels = tuple[str, ...]
Optimize: TypeAlias = Literal[False, "opt_einsum"] | Sequence[str | Sequence[int]]


def parsed(subscripts: str, ndims: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result; axes of "..." are numbered from the last."""
    if not isinstance(subscripts, str):
        raise ArgumentError(f"[einsum] subscripts must be a string but are {subscripts!r}")
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    names = inputs.split(",")
    if len(names) != len(ndims):
        raise ArgumentError(
            f"[einsum] there must be an operand for each term of {subscripts!r} but there are "
            f"{len(ndims)}"
        )
    dots = [0 if "..." not in n else d - len(n) + 3 for n, d in zip(names, ndims, strict=True)]
    for name, ndim, extra in zip(names, ndims, dots, strict=True):
        _check_letters(subscripts, name)
        if extra < 0 or len(name.replace("...", "")) + extra != ndim:
            raise ShapeError(
                f"[einsum] {name!r} of {subscripts!r} does not fit an operand of {ndim} axes"
            )
    terms = [_labels(n, extra) for n, extra in zip(names, dots, strict=True)]
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        once = sorted(c for c in letters if letters.count(c) == 1)
        return terms, (*_labels("...", max(dots)), *once)
    _check_letters(subscripts, result)
    output = _labels(result, max(dots))
    if max(dots) and "..." not in result:
        raise ArgumentError(f"[einsum] the result of {subscripts!r} must have the axes of '...'")
    for label in output:
        if not any(label in term for term in terms):
            raise ArgumentError(
                f"[einsum] the result of {subscripts!r} has {label!r}, which no operand has"
            )
    if len({*output}) < len(output):
        raise ArgumentError(f"[einsum] the result of {subscripts!r} has a letter twice")
    return terms, output


def path_of(subscripts: str, tensors: Sequence[Tensor], optimize: Any) -> list[tuple[int, int]]:
    """The positions of each pair to multiply; its product is appended to the remaining operands."""
    count = len(tensors)
    if optimize is False:  # the last operand is the product so far, which is the left factor
        return [(0, 1), *[(n - 1, 0) for n in range(count - 1, 1, -1)]][: max(count - 1, 0)]
    if isinstance(optimize, str):
        if optimize != "opt_einsum":
            raise ArgumentError(
                f"[einsum] optimize must be False, a path or 'opt_einsum' but is {optimize!r}"
            )
        optimize = _asked(subscripts, tensors)
    steps: list[tuple[int, int]] = []
    given = list(optimize) if isinstance(optimize, Sequence) else [optimize]
    given = given[1:] if given[:1] == ["einsum_path"] else given
    for step in given if count > 1 else []:
        left = count - len(steps)
        fits = isinstance(step, Sequence) and not isinstance(step, str) and len(step) > 1
        if not (fits and all(type(n) is int and 0 <= n < left for n in step)) or (
            len({*step}) < len(step)
        ):
            raise ArgumentError(
                f"[einsum] each step of optimize must be two or more indices of {left} operands "
                f"but one is {step!r:.40}"
            )
        places: list[Any] = list(step)
        # a step with three or more operands multiplies from the left to the right
        while len(places) > 1:
            first, second, *rest = places
            steps.append((first, second))
            left -= 1
            places = [left - 1, *[n - (n > first) - (n > second) for n in rest]]
    if len(steps) != max(count - 1, 0):
        raise ArgumentError(
            f"[einsum] optimize must leave one of {count} operands but leaves {count - len(steps)}"
        )
    return steps


def _asked(subscripts: str, tensors: Sequence[Tensor]) -> Any:
    """The path that opt_einsum finds."""
    try:
        opt_einsum: Any = importlib.import_module("opt_einsum")
    except ImportError:
        raise ArgumentError(
            "[einsum] optimize='opt_einsum' needs that package: pip install opt_einsum"
        ) from None
    shapes = [t.shape for t in tensors]
    return opt_einsum.contract_path(subscripts, *shapes, shapes=True)[0]


def _check_letters(subscripts: str, term: str) -> None:
    letters = term.replace("...", "", 1)
    if not ((letters.isascii() and letters.isalpha()) or not letters):
        raise ArgumentError(
            f"[einsum] subscripts must be letters and one '...' each but are {subscripts!r}"
        )


def _labels(term: str, dots: int) -> Labels:
    before, _, after = term.partition("...")
    numbered = [str(n) for n in reversed(range(dots))] if "..." in term else []
    return (*before, *numbered, *after)
