"""The rule of kernels without a declaration: outputs have the shape and dtype of the inputs."""

from __future__ import annotations

from typing import Any

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName

__all__ = ["alike"]


def alike(
    call: Call, *, like: str, of_dtype: DTypeName | str, moves: tuple[str, ...],
    last_only: tuple[str, ...], axis: int = -1, **given: Any,
) -> Made:  # fmt: skip
    """A result with the shape of the tensor `like`, or the shape to which all tensors repeat. If
    `moves` names tensors, the kernel can run over any axis; the axis is moved to the end of these
    tensors."""
    tensors: dict[str, Tensor] = {n: t for n, t in given.items() if isinstance(t, Tensor)}
    first = tensors[like] if like else next(iter(tensors.values()))
    if moves:
        call.over(first, axis, **{n: given[n] for n in last_only})
    shape = first.shape if like else call.expanded(**{n: t.shape for n, t in tensors.items()})
    result = call.out(shape, of_dtype or first.dtype)  # type: ignore[arg-type]
    if not call.is_moved:
        return Made({"dst": result})
    views = {n: call.moved(n, t) for n, t in tensors.items() if n in moves}
    # The key of a cached call would lack the options in `last_only`. So the call gets an `after`,
    # because calls with an `after` are not cached.
    after = _nothing if last_only else None
    return Made({"dst": result}, {**views, "dst": call.moved("dst", result)}, after=after)


def _nothing() -> None:
    pass
