"""One call of a function, and the numbers that it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Call(NamedTuple):
    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    inputs: tuple[Array, ...]
    others: tuple[Array, ...] = ()
    order: int = 2


def normal(rng: Any, *shape: int) -> Array:
    return rng.normal(0, 1, shape).astype(np.float32)  # type: ignore[no-any-return]


def points(rng: Any, low: float, high: float, *shape: int) -> Array:
    return rng.uniform(low, high, shape).astype(np.float32)  # type: ignore[no-any-return]


def named(jax: Any, name: str) -> Any:
    """A function of JAX; without a dot in its name one of jax.numpy."""
    found = jax if "." in name else jax.numpy
    for part in name.split("."):
        found = getattr(found, part)
    return found
