"""The tables of angles for `rope`, which each device caches."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, TypedDict, cast

import numpy as np

from pykernels.call.arrays import NDArray
from pykernels.call.scalars import integer, real
from pykernels.device import Device, Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.rope.rope import ROWS
from pykernels.tensors.host import as_array

__all__ = ["Angles", "angles_of", "table_for", "table_of", "table_on"]

MAX_TABLES = 16  # most tables that a device caches
MAX_DIMS = 1 << 14  # most columns of a table, which then has 128 MiB


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


def table_for(op: str, name: str, table: Any, x: Any, dims: int | None, angles: Angles) -> Any:
    """The table of a call if x is on a device, else the given table."""
    if table is None and isinstance(x, Tensor):
        if dims is None and not angles:
            found = x._context.constants.get(x._layout.shape[-1:])
            if found is not None:
                return found
        return table_of(op, x, dims, table, angles) if x.ndim > 1 else None
    if table is not None and (dims is not None or angles):
        table_of(op, x, dims, table, angles)  # raises
    return table


def table_of(op: str, x: Tensor, dims: int | None, table: Tensor | None, angles: Angles) -> Tensor:
    """The given table, or else the table for dims and angles."""
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


def angles_of(
    op: str, dims: int, *, base: float = 10000.0,
    freq_factors: Sequence[float] | NDArray | None = None, freq_scale: float = 1.0,
    ext_factor: float = 0.0, attn_factor: float = 1.0, beta_fast: float = 32.0,
    beta_slow: float = 1.0, n_ctx_orig: int = 0,
) -> tuple[NDArray, float]:  # fmt: skip
    """The angle of each pair at position 1, and the magnitude, from options that are checked
    here."""
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
    """The fractional index of the pair that makes `turns` turns within `positions` positions."""
    if positions == 0:  # the limit as in ggml, because within 0 positions no pair turns
        return -math.copysign(math.inf, math.log(base))
    return dims * math.log(positions / (turns * 2 * math.pi)) / (2 * math.log(base))


def _kept(device: Device, dims: int, angles: Angles) -> Tensor:
    """The table of these angles, from the cache of the device. The key is the number of columns,
    together with the angles if they are given."""
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
    except TypeError:  # unhashable arguments are not numbers; the check below raises the error
        found = None
    if found is None:
        w, magnitude = angles_of("rope", dims, **angles)
        device._context.refuse_in_capture("rope: making a table of angles, of which it has none")
        if len(constants) >= MAX_TABLES:
            del constants[next(iter(constants))]
        found = constants[key] = table_on(device, w, magnitude)
    return cast(Tensor, found)


def table_on(device: Device, w: NDArray, magnitude: float) -> Tensor:
    rows = np.arange(ROWS)[:, None, None]
    first = np.stack([rows[:, 0] * float(ROWS) * w, rows[:, 0] * w])  # (2, rows, pairs)
    found = np.stack([np.cos(first), np.sin(first)], axis=2)
    found[0] *= magnitude
    return device.tensor(found.astype(np.float32))
