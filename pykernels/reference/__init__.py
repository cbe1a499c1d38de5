"""A numpy implementation of each kernel: one module for each family, with one function for each
kernel under the kernel's name.

`reference.<family>.<kernel>(*inputs, **scalars)` returns the output, or a tuple of outputs. Data
movement is exact. All else is computed in float64, from inputs and scalars that are rounded to
their dtypes, as the kernel gets them. A function may have the parameters `dtype` and `shape`, which
describe the output, and a parameter with the name of an output, which holds the output before the
call.

`<kernel>_budget`, if a family has one, takes the same arguments and returns the largest error of
f32 in each element.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pykernels.errors import PyKernelsError

__all__ = ["budget", "family", "function"]


def family(kernel: str) -> str:
    """The family of a kernel: the folder of its shader."""
    from pykernels import kernels

    found: str = importlib.import_module(getattr(kernels, kernel).__module__).KERNEL.family
    return found


def function(kernel: str) -> Callable[..., Any]:
    """The reference of a kernel; PyKernelsError if there is none."""
    found: Callable[..., Any] | None = getattr(_module(kernel), kernel, None)
    if found is None:
        raise PyKernelsError(
            f"[{kernel}] has no reference: pykernels/reference/{family(kernel)}.py has no such "
            f"function"
        )
    return found


def budget(kernel: str) -> Callable[..., Any] | None:
    """The function for the largest error of f32; None if there is none."""
    found: Callable[..., Any] | None = getattr(_module(kernel), f"{kernel}_budget", None)
    return found


def _module(kernel: str) -> Any:
    """The module of the kernel's family, None if there is none."""
    name = f"{__name__}.{family(kernel)}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name != name:
            raise
        return None
