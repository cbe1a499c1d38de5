"""Rules of backward kernels, for gradients of gradients: they use the plain form of the forward
computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from pykernels import functional as F
from pykernels.device import Tensor
from pykernels.tape import Tape, Taped

__all__ = ["backward_of", "plainly", "wide"]


def plainly(call: Taped, compute: Callable[..., Mapping[str, Tensor]], *names: str) -> None:
    """Give the gradients of a kernel's arguments `names`. `compute` computes the kernel's outputs
    by calls that have rules.

    `compute` takes the arguments by name, as float32, and returns outputs by name.
    """
    given = {name: wide(t) for name in names if (t := call.saved(name)) is not None}
    with Tape() as tape:
        found = compute(**given)
        dys = {name: call.dy(name) for name in found}
        terms = [F.sum(t * dys[name]) for name, t in found.items() if dys[name] is not None]
        loss = terms[0]
        for term in terms[1:]:
            loss = loss + term
    wanted = {name: t for name, t in given.items() if call.wants(name)}
    for name, grad in tape.gradient(loss, wanted, unused="none").items():
        call.give(name, grad)


def backward_of(
    forward: Callable[..., Tensor], outputs: Mapping[str, str]
) -> Callable[..., Mapping[str, Tensor]]:
    """A function that computes the results of a backward kernel: the gradients of `forward` with
    respect to its arguments.

    `outputs` maps each output of the kernel to the argument of `forward` whose gradient it is. The
    kernel's dy is the gradient of the result of `forward`; all other arguments go to `forward`.
    """

    def compute(dy: Tensor, **given: Tensor) -> Mapping[str, Tensor]:
        with Tape() as tape:
            y = forward(**given)
        sources = {out: given[name] for out, name in outputs.items() if name in given}
        found: Mapping[str, Tensor] = tape.gradient(y, sources, dy)
        return found

    return compute


def wide(t: Tensor) -> Tensor:
    """The tensor in float32, without broadcast axes of stride 0; a bool mask becomes 0 and -inf."""
    if t.dtype == "bool":
        return F.where(t, 0.0, -math.inf)
    return t.copy() if t.dtype == "float32" else t.astype("float32")
