"""Rotary position embedding, its gradient, and the tables of its angles."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal, TypeAlias, TypedDict, Unpack, cast

import numpy as np

from pykernels import kernels
from pykernels._generated.kernels.rope import KERNEL
from pykernels._generated.kernels.rope_append import KERNEL as _APPEND
from pykernels._generated.operations.rope import _turned as turned
from pykernels.call.arrays import Array, Call, NDArray
from pykernels.call.scalars import integer, real
from pykernels.device import Device, Tensor, device_of
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plans.rope.rope import ROWS
from pykernels.rules.rope import heads, of_tokens
from pykernels.tensors.host import as_array, type_name
from pykernels.tensors.quantised import QTensor

from ._caches import append_blocks

__all__ = ["rope", "rope_append", "rope_table"]

Style: TypeAlias = Literal["normal", "neox"]
MAX_TABLES = 16  # that a device caches
MAX_DIMS = 1 << 14  # of a table: 128 MiB


class Angles(TypedDict, total=False):
    """The options of angles: see `rope_table`."""

    base: float
    freq_factors: Sequence[float] | NDArray | None
    freq_scale: float
    ext_factor: float
    attn_factor: float
    beta_fast: float
    beta_slow: float
    n_ctx_orig: int


def rope(
    x: Array, positions: Array, *, dims: int | None = None, style: Style = "normal",
    axis: int = -2, backward: bool = False, table: Tensor | None = None,
    out: Tensor | None = None, **angles: Unpack[Angles],
) -> Array:  # fmt: skip
    """Rotary position embedding (ggml's rope_ext): rotates pairs of columns by q w[i] at position
    q.

    w[i] is base^(-2 i / dims), changed by the other options of `rope_table`. Cosines and sines come
    from a table of float64 angles, rounded once, which the device caches for later calls with these
    options. They are within 2^-22 at every position. float16 is computed in f32.

    Args:
        x: Tensor or numpy array, float32 or float16, (..., heads, tokens, width), or (..., tokens,
            heads, width) with axis=-3; a matrix (tokens, width) is one head.
        positions: Tensor or numpy array, int32 or int64, (..., tokens), whose leading axes repeat
            to those of x before the heads. In a captured step they may change between replays.
        dims: number of first columns that are rotated, even; None is all columns.
        style: "normal" pairs columns 2 i and 2 i + 1, "neox" i and dims / 2 + i.
        axis: the axis of the tokens, -2 or -3.
        backward: rotate the other way: applied to dy this is the gradient of x.
        table: a Tensor from `rope_table`, in place of dims and angles.
        out: The Tensor of x's shape and dtype to write to, x itself for a call in place.
        angles: base, freq_factors and the options of YaRN, as in `rope_table`.

    Returns:
        A numpy array if x and positions are, else a Tensor.

    Raises:
        IndexRangeError: at the next synchronisation, for a position outside [0, 1048576).
        BufferStateError: inside a capture, if the device has no table of these options: call it
            once before, or give a table.
        ShapeError, DTypeError, ArgumentError: for arguments that do not fit.
    """
    if table is None and dims is None and not angles and isinstance(x, Tensor):
        plain = x._context.constants.get(x._layout.shape[-1:])
        if plain is not None:
            return turned(x, positions, plain, axis, style, backward, out)
    call = None
    if not (isinstance(x, Tensor) and isinstance(positions, Tensor)):
        call = Call(KERNEL, x, positions, table, out=out)
        x, positions = call.tensor("x", x), call.tensor("positions", positions)
    if x.ndim < 2:
        heads("rope", x, of_tokens("rope", "axis", axis))  # raises
    table = _table_of("rope", x, dims, table, angles)
    result = turned(x, positions, table, axis, style, backward, out)
    return result if call is None else call.leave(cast(Tensor, result))


def rope_append(
    x: Array, positions: Array, cache: Tensor | QTensor, *, dims: int | None = None, style: Style = "normal",
    axis: int = -2, table: Tensor | None = None, out: Tensor | None = None,
    **angles: Unpack[Angles],
) -> Tensor:  # fmt: skip
    """Prepares new tokens for attention in one pass: rotates their queries and keys as `rope` does,
    and writes keys and values to a cache at these positions.

    The heads of x are queries, keys and values in this order, as one product makes them. The heads
    of the cache are keys and values. It equals `rope`, and `set_rows` of keys and values.

    Args:
        x: Tensor or numpy array, float32 or float16, (..., heads, tokens, width), or (..., tokens,
            heads, width) with axis=-3.
        positions: Tensor or numpy array, int32 or int64, (..., tokens), whose leading axes repeat
            to those of x before the heads. In a captured step they may change between replays.
        cache: Tensor (..., heads of keys and values, room, width) of x's dtype, with an even number
            of heads; the token at position q goes to row q, other rows do not change. Or a QTensor
            of q8_0 or q4_0 of this shape: keys and values are quantised by ggml's rule, from
            float32 that are not rounded to x's dtype before.
        dims, style, axis, table, angles: as in `rope`.
        out: The Tensor to write queries to; None makes one.

    Returns:
        The queries, a Tensor: x without the heads of keys and values.

    Raises:
        IndexRangeError: at the next synchronisation, for a position outside of the cache, or
            outside of [0, 1048576); that token is not written.
        BufferStateError: inside a capture, if the device has no table of these options: call
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
    table = _table_of("rope_append", given, dims, table, angles)
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

    [0, j] holds cosine and sine of 1024 j w, [1, j] those of j w; the kernel joins them by the
    addition theorem. It takes 16 KiB for each pair, for any length of context.

    Args:
        dims: number of rotated columns, even, up to 16,384.
        base: w[i] is base^(-2 i / dims); above 0.
        freq_factors: a number above 0 for each pair that divides its w (long contexts).
        freq_scale: factor of w, 1 / 4 for four times the context; above 0.
        ext_factor: YaRN (Peng et al. 2023): the share of its own w, without freq_scale, that a pair
            with many turns keeps; 0 is no YaRN.
        attn_factor: factor of the result; YaRN multiplies it by 1 + 0.1 ln(1 / freq_scale).
        beta_fast: YaRN: a pair with at least so many turns within n_ctx_orig positions keeps its w.
        beta_slow: YaRN: a pair with fewer turns keeps nothing of its w.
        n_ctx_orig: YaRN: the number of positions in the model's training. With 0 (unknown, as for
            some callers of ggml) only the first pair keeps its w.
        device: None is the default device.

    Raises:
        ArgumentError: a number outside its range.
        ShapeError: freq_factors does not have a number for each pair.
    """
    w, magnitude = _angles(
        "rope_table", integer("rope_table", "dims", dims), base=base, freq_factors=freq_factors,
        freq_scale=freq_scale, ext_factor=ext_factor, attn_factor=attn_factor,
        beta_fast=beta_fast, beta_slow=beta_slow, n_ctx_orig=n_ctx_orig,
    )  # fmt: skip
    return _table(device_of(device), w, magnitude)


def _table_of(op: str, x: Tensor, dims: int | None, table: Tensor | None, angles: Angles) -> Tensor:
    """The given table, or the table of dims and angles."""
    if table is not None:
        if dims is not None or angles:
            raise ArgumentError(f"[{op}] a table already fixes dims and the angles: give it alone")
        return table
    width = x.shape[-1] if dims is None else integer(op, "dims", dims)
    if not 0 < width <= x.shape[-1]:
        raise ArgumentError(
            f"[{op}] dims must be in [1, {x.shape[-1]}], the columns of x, but is {width}"
        )
    return _kept(x.device, width, angles)


def _angles(
    op: str, dims: int, *, base: float = 10000.0,
    freq_factors: Sequence[float] | NDArray | None = None, freq_scale: float = 1.0,
    ext_factor: float = 0.0, attn_factor: float = 1.0, beta_fast: float = 32.0,
    beta_slow: float = 1.0, n_ctx_orig: int = 0,
) -> tuple[NDArray, float]:  # fmt: skip
    """The angle of each pair at position 1, and the magnitude, from checked options."""
    if not 2 <= dims <= MAX_DIMS or dims % 2:
        raise ArgumentError(
            f"[{op}] dims must be an even number from 2 to {MAX_DIMS} but is {dims}"
        )
    numbers = {
        "base": base, "freq_scale": freq_scale, "ext_factor": ext_factor,
        "attn_factor": attn_factor, "beta_fast": beta_fast, "beta_slow": beta_slow,
    }  # fmt: skip
    reals = {name: real(op, name, value) for name, value in numbers.items()}
    for name, value in reals.items():
        signed = name in ("ext_factor", "attn_factor")
        if not math.isfinite(value) or not (signed or value > 0.0):
            rule = "finite" if signed else "above 0 and finite"
            raise ArgumentError(f"[{op}] {name} must be {rule} but is {value!r}")
    pairs = dims // 2
    w = reals["base"] ** (-2.0 * np.arange(pairs) / dims)
    if freq_factors is not None:
        factors = as_array(freq_factors, op)
        if factors.shape != (pairs,):
            raise ShapeError(
                f"[{op}] freq_factors must have shape ({pairs},) but has shape {factors.shape}"
            )
        if factors.dtype.kind not in "iuf" or not ((factors > 0) & np.isfinite(factors)).all():
            raise ArgumentError(f"[{op}] freq_factors must be above 0 and finite")
        w = w / factors.astype(np.float64)
    scale, share = reals["freq_scale"], reals["ext_factor"]
    if share == 0.0:
        return w * scale, reals["attn_factor"]
    trained = integer(op, "n_ctx_orig", n_ctx_orig)
    if trained < 0 or reals["base"] == 1.0:
        raise ArgumentError(
            f"[{op}] with an ext_factor n_ctx_orig must not be below 0 and base not be 1 but they "
            f"are {trained} and {reals['base']}"
        )
    low, high = (_pair(dims, reals["base"], reals[b], trained) for b in ("beta_fast", "beta_slow"))
    low, high = max(0.0, np.floor(low)), min(dims - 1.0, np.ceil(high))
    kept = share * (1 - np.clip((np.arange(pairs) - low) / max(0.001, high - low), 0, 1))
    magnitude = reals["attn_factor"] * (1 + 0.1 * math.log(1 / scale))
    return w * scale * (1 - kept) + w * kept, magnitude


def _pair(dims: int, base: float, turns: float, positions: int) -> float:
    """The fractional number of the pair with so many turns within so many positions."""
    if positions == 0:  # the limit, as in ggml: no pair turns within no positions
        return -math.copysign(math.inf, math.log(base))
    return dims * math.log(positions / (turns * 2 * math.pi)) / (2 * math.log(base))


def _kept(device: Device, dims: int, angles: Angles) -> Tensor:
    """The table of these angles, from the cache of the device: a number of columns alone, or with
    angles, leads to it."""
    constants = device._context.constants
    key: Hashable = (dims,)
    if angles:
        others = {name: value for name, value in angles.items() if name != "freq_factors"}
        factors = angles.get("freq_factors")
        given = None if factors is None else as_array(factors, "rope")
        told = None if given is None else (given.dtype.str, given.tobytes())
        key = dims, tuple(others.items()), told
    try:
        found = constants.get(key)
    except TypeError:  # not numbers; the check below raises
        found = None
    if found is None:
        w, magnitude = _angles("rope", dims, **angles)
        device._context.refuse_in_capture("rope: making a table of angles, of which it has none")
        if len(constants) >= MAX_TABLES:
            del constants[next(iter(constants))]
        found = constants[key] = _table(device, w, magnitude)
    return cast(Tensor, found)


def _table(device: Device, w: NDArray, magnitude: float) -> Tensor:
    rows = np.arange(ROWS)[:, None, None]
    first = np.stack([rows[:, 0] * float(ROWS) * w, rows[:, 0] * w])  # (2, rows, pairs)
    found = np.stack([np.cos(first), np.sin(first)], axis=2)
    found[0] *= magnitude
    return device.tensor(found.astype(np.float32))
