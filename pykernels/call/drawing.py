"""Calls that draw random numbers, and the states that they draw from."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pykernels._generated.kernels import fill as _fill
from pykernels.dtypes import dtype_of
from pykernels.plans.random.counted import counted
from pykernels.plans.random.state import STATE
from pykernels.runtime.launch import run
from pykernels.steps import Kernel
from pykernels.tensors.layout import contiguous_layout
from pykernels.tensors.views import TensorBase

from .scalars import bits_of

__all__ = ["draw", "states", "write_seed"]

# A function that gets a device and its state, and returns the state that calls of this context use.
# With None, these calls use the device's state.
states: ContextVar[Callable[[Any, Any], Any] | None] = ContextVar("pykernels_states", default=None)


def draw(
    kernel: Kernel, tensors: tuple[TensorBase | None, ...], scalars: tuple[float, ...], blocks: int
) -> None:
    """Run a kernel that draws random numbers on (..., state, dst).

    The launch that draws also advances the state by `blocks`, so a call of another thread cannot
    draw the same numbers.
    """
    *_, state, dst = tensors
    assert dst is not None
    if state is None:
        run(kernel, tensors, scalars)
    elif state._block is not dst._block:
        run(counted(kernel), tensors, (*scalars, blocks))
    else:
        own = dst._fresh(contiguous_layout(dst.shape, dst._layout.dtype))
        run(counted(kernel), (*tensors[:-1], own), (*scalars, blocks))
        run(dst._context.copy, (own, dst))


def write_seed(state: TensorBase, key: int) -> None:
    """Write an int64 as the key of a contiguous random state."""
    words = state._with(contiguous_layout((STATE // 2,), dtype_of("int64")))
    with state._context.lock:
        run(_fill.KERNEL, (words[:1],), bits_of("seed", key, "int64"))
        run(_fill.KERNEL, (words[1:],), (0, 0))
