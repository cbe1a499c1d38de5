"""Draws from distributions given by logits."""

from __future__ import annotations

import math

from pykernels import kernels
from pykernels._generated.kernels.categorical import KERNEL
from pykernels.call.arrays import Array, Call
from pykernels.call.drawing import draw
from pykernels.call.scalars import integer, real
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.runtime.whole import whole

from .random import source_of

__all__ = ["categorical"]


@whole
def categorical(
    logits: Array, *, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0,
    seed: int | None = None, state: Tensor | None = None, out: Tensor | None = None,
) -> Array:  # fmt: skip
    """A draw for each row of logits, such as the next token of a language model.

    Column i is drawn with probability softmax(logits / temperature)[i]. top_k keeps the k largest
    columns. Of these, top_p keeps the fewest of the largest columns whose total probability reaches
    top_p. Both options sort: a top_k of up to 1,024 takes a few dispatches, a larger top_k sorts
    whole rows. Exponentials and their sums are f32. Each row's draw uses two random words, so
    probabilities are exact to about 2^-23.

    Args:
        logits: Tensor or numpy array, float32, float16 or bfloat16, (..., cols).
        temperature: A number of 0 or more that divides the logits. With 0 the result is the largest
            column (`argmax`); nothing is drawn, and the state does not change.
        top_k: The number of columns that may be drawn, 1 or more; None means all columns.
        top_p: The share that the columns must reach, in (0, 1]; the largest column may always be
            drawn.
        seed: An integer of 64 bits: the same seed gives the same draws. None draws from a state.
        state: A state of `random_state`, which advances by a block for each row; None is the state
            of the device.
        out: The Tensor to write to; None makes one.

    Returns:
        int32 (...), positions in rows: a numpy array if logits is one, else a Tensor. It is -1 for
        a row that is not a distribution: a row with NaN or +inf, or with -inf only. A sort for
        top_k or top_p puts NaN last, so top_k may drop it.

    Raises:
        ArgumentError: a number is outside its range.
        ShapeError, DTypeError and the errors of `pykernels.kernels`.

    Source: Fan et al. 2018 (top_k), Holtzman et al. 2020 (top_p).
    """
    call = Call(KERNEL, logits, state, out=out)
    given = call.tensor("logits", logits)
    if given.ndim == 0 or given.shape[-1] == 0:
        raise ShapeError(
            f"[categorical] logits must have a column or more but have shape {given.shape}"
        )
    temperature, top_p = _numbers(temperature, top_p)
    cols = given.shape[-1]
    keep = cols if top_k is None else min(integer("categorical", "top_k", top_k), cols)
    if keep < 1:
        raise ArgumentError(f"[categorical] top_k must be 1 or more but is {top_k}")
    key, source = source_of("categorical", seed, state, given.device)
    result = call.out(given.shape[:-1], "int32")
    if temperature == 0.0:
        kernels.argmax(given, result, axis=-1)
        return call.leave(result)
    tokens = None
    if keep < cols or top_p < 1.0:
        best = given.device.empty((*given.shape[:-1], keep), given.dtype)
        tokens = given.device.empty(best.shape, "int32")
        kernels.top_k(given, best, tokens)
        given = best
    draw(KERNEL, (given, tokens, source, result), (temperature, top_p, *key), result.size)
    return call.leave(result)


def _numbers(temperature: float, top_p: float) -> tuple[float, float]:
    """Check temperature and top_p, and return them."""
    temperature = real("categorical", "temperature", temperature)
    top_p = real("categorical", "top_p", top_p)
    if not (math.isfinite(temperature) and (temperature == 0.0 or temperature >= 1e-30)):
        raise ArgumentError(
            f"[categorical] temperature must be 0, or from 1e-30 on and finite, but is "
            f"{temperature!r}"
        )
    if not 0.0 < top_p <= 1.0:
        raise ArgumentError(f"[categorical] top_p must be in (0, 1] but is {top_p!r}")
    return temperature, top_p
