"""Rotary positions of new tokens that are written to a cache, and the tables of angles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, Unpack

from pykernels import kernels
from pykernels._generated.kernels.rope_append import KERNEL as _APPEND
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call, NDArray
from pykernels.call.scalars import integer
from pykernels.device import Device, Tensor, device_of
from pykernels.errors import DTypeError, ShapeError
from pykernels.rules.rope import heads, of_tokens
from pykernels.rules.rope_angles import Angles, angles_of, table_of, table_on
from pykernels.tensors.host import type_name
from pykernels.tensors.quantised import QTensor

from ._caches import append_blocks

__all__ = ["rope_append", "rope_table"]

Style: TypeAlias = Literal["normal", "neox"]


@again
def rope_append(
    x: Array, positions: Array, cache: Tensor | QTensor, *, dims: int | None = None,
    style: Style = "normal", axis: int = -2, table: Tensor | None = None, out: Tensor | None = None,
    **angles: Unpack[Angles],
) -> Tensor:  # fmt: skip
    """Prepares new tokens for attention in one pass: rotates their queries and keys as `rope` does,
    and writes their keys and values to a cache at the given positions.

    The heads of x are queries, keys and values in this order, as one matrix product returns them.
    The heads of the cache are keys and values. The call equals `rope`, then `set_rows` of keys and
    values.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (..., heads, tokens, width), or
            (..., tokens, heads, width) with axis=-3.
        positions: Tensor or numpy array, int32 or int64, (..., tokens), whose leading axes repeat
            to the axes of x before the heads. In a captured step they may change between replays.
        cache: Tensor (..., heads of keys and values, room, width) of x's dtype, with an even number
            of heads; the token at position q goes to row q, other rows do not change. Or a QTensor
            of q8_0 or q4_0 of this shape: keys and values are quantised by ggml's rule, from
            float32 numbers that are not rounded to x's dtype.
        dims, style, axis, table, angles: as in `rope`.
        out: The Tensor to write queries to; None makes one.

    Returns:
        The queries, a Tensor: x without the heads of keys and values.

    Raises:
        IndexRangeError: at the next synchronisation, for a position outside of the cache, or
            outside of [0, 1048576); that token is not written.
        BufferStateError: inside a capture, if the device has no table for these options: call
            `rope` once before, or give a table.
        ShapeError, DTypeError, ArgumentError: for arguments that do not fit.
    """
    if not isinstance(cache, Tensor | QTensor):
        raise DTypeError(
            f"[rope_append] cache must be a pykernels.Tensor or QTensor but is {type_name(cache)}"
        )
    held = cache if isinstance(cache, Tensor) else cache.low
    call = Call(_APPEND, x, positions, held, table, out=out)
    given, places = call.tensor("x", x), call.tensor("positions", positions)
    axis = of_tokens("rope_append", "axis", axis)
    table = table_of("rope_append", given, dims, table, angles)
    count = given.shape[-3 if axis == -2 else -2] if given.ndim > 2 else 0
    kept = cache.shape[-3] if cache.ndim > 2 else 0
    if given.ndim < 3 or not 0 <= kept <= count:
        raise ShapeError(
            f"[rope_append] x must have axes of heads, tokens and columns, and no fewer heads than "
            f"the cache, but they have shapes {given.shape} and {cache.shape}"
        )
    moved = heads("rope_append", given, axis)
    shape = (*moved.shape[:-3], count - kept, *moved.shape[-2:])
    if axis == -3:
        shape = (*shape[:-3], shape[-2], shape[-3], shape[-1])
    result = call.out(shape, given.dtype)
    queries = heads("rope_append", result, axis)
    if isinstance(cache, QTensor):
        append_blocks(moved, places, table, cache, queries, style)
    else:
        kernels.rope_append(moved, places, table, cache, queries, style=style)
    return result


def rope_table(
    dims: int, *, base: float = 10000.0, freq_factors: Sequence[float] | NDArray | None = None,
    freq_scale: float = 1.0, ext_factor: float = 0.0, attn_factor: float = 1.0,
    beta_fast: float = 32.0, beta_slow: float = 1.0, n_ctx_orig: int = 0,
    device: Device | None = None,
) -> Tensor:  # fmt: skip
    """The cosines and sines of `rope` for positions below 1048576, float32 (2, 1024, 2, dims / 2).

    A pair of columns turns by the angle w for each position. [0, j] holds the cosine and sine of
    1024 j w, and [1, j] holds those of j w; the kernel joins them by the addition theorem. The
    table takes 16 KiB for each pair of columns, for any context.

    Args:
        dims: number of rotated columns, even, up to 16,384.
        base: w[i] is base^(-2 i / dims); above 0.
        freq_factors: for each pair, a number above 0 that divides its w (for long contexts).
        freq_scale: the factor of w, above 0; 1 / 4 is for four times the context.
        ext_factor: For YaRN (Peng et al. 2023): the share of its unscaled w (without freq_scale)
            that a pair with many turns keeps; 0 is no YaRN.
        attn_factor: factor of the result; YaRN multiplies it by 1 + 0.1 ln(1 / freq_scale).
        beta_fast: For YaRN: a pair with this many turns or more in n_ctx_orig positions keeps its
            unscaled w.
        beta_slow: For YaRN: a pair with fewer turns than this uses only the scaled w.
        n_ctx_orig: For YaRN: the number of positions with which the model was trained. With 0
            (unknown, as for some callers of ggml) only the first pair keeps its unscaled w.
        device: None is the default device.

    Raises:
        ArgumentError: a number is outside its range.
        ShapeError: freq_factors does not have a number for each pair.
    """
    w, magnitude = angles_of(
        "rope_table", integer("rope_table", "dims", dims), base=base, freq_factors=freq_factors,
        freq_scale=freq_scale, ext_factor=ext_factor, attn_factor=attn_factor,
        beta_fast=beta_fast, beta_slow=beta_slow, n_ctx_orig=n_ctx_orig,
    )  # fmt: skip
    return table_on(device_of(device), w, magnitude)
