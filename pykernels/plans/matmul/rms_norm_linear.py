"""rms_norm_linear: one dispatch for one row."""

from __future__ import annotations

from pykernels._generated.bodies import gemv_normed, gemv_normed_quant, gemv_normed_quant_half
from pykernels._generated.ops import ACTIVATIONS
from pykernels.errors import ArgumentError, DTypeError, LimitError, ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.mma import words
from pykernels.plans.parts import fits_binding
from pykernels.plans.quant.planes import read
from pykernels.plans.quant.types import type_of
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .select import GemmShape, lane_bits
from .select_quant import MOST_BITS, column_bits, columns_held

__all__ = ["plan"]

OP = "rms_norm_linear"
# The most numbers of a row that gemv_normed_quant_half keeps in workgroup memory.
MOST_DEPTH = min(c.DEPTH for c in gemv_normed_quant_half.CONFIGS.values())


def plan(
    caps: Caps, scratch: Scratch, x: View, gain: View, w: View, scales: View | None,
    high: View | None, bias: View | None, dst: View, eps: float = 1e-5, quant: str = "",
    activation: str | None = None, gated: bool = False,
) -> list[Step]:  # fmt: skip
    """The product, after copies of operands that cannot be read in vectors."""
    if activation not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"[{OP}] activation must be one of {names} but is {activation!r}")
    depth = x.shape[0] if x.ndim == 1 else 0
    rows = (dst.shape[0] if dst.ndim == 1 else 0) * (2 if gated else 1)
    expected: dict[str, tuple[View, tuple[int, ...]]] = {
        "x": (x, (depth,)),
        "gain": (gain, (depth,)),
        "dst": (dst, (rows // (1 + gated),)),
    }
    if bias is not None:
        expected["bias"] = (bias, (rows,))
    if not quant:
        expected["w"] = (w, (rows, depth))
    for name, (view, shape) in expected.items():
        if view.shape != shape:
            raise ShapeError(f"[{OP}] {name} must have shape {shape} but has shape {view.shape}")
    if gain.dtype != x.dtype:
        raise DTypeError(f"[{OP}] gain must be {x.dtype.name} but is {gain.dtype.name}")
    half = x.dtype.itemsize == 2
    if dst.dtype.itemsize == 2 and not half:
        raise DTypeError(f"[{OP}] dst must be float32 for x of float32 but is {dst.dtype.name}")
    if rows == 0 or depth == 0:
        raise ShapeError(f"[{OP}] x and dst must have elements but have {depth} and {rows}")
    kind = type_of(OP, quant) if quant else None
    # Packed products take the row as halves; the other bodies take it as words.
    packed = bool(kind and kind.halves and caps.f16 and half and depth <= MOST_DEPTH)
    steps: list[Step] = []
    numbers = {
        "rows": rows, "depth": depth, "gated": rows // 2 if gated else 0,
        "activation": ACTIVATIONS[activation], "eps": eps,
    }  # fmt: skip
    x, gain = (_vectors(caps, scratch, v, steps, packed) for v in (x, gain))
    if kind is not None:
        if scales is None:
            raise ShapeError(f"[{OP}] quantised weights must have scales")
        copies, low, own, above = read(OP, caps, scratch, kind, (rows, depth), w, scales, high)
        _check_bindings(caps, [low, own, *([above] if above else [])])
        rounds = kind.rounds(depth)
        # Every workgroup computes the norm again, so fewer workgroups with more columns are faster.
        bits = column_bits(caps, rows, rounds, most=MOST_BITS + packed)
        if packed:
            held = columns_held(bits, rounds)
            step = gemv_normed_quant_half.step(
                caps, low, own, above, x, gain, bias, dst, TYPE=kind.name, HELD=f"cols{held}",
                col_bits=bits, **numbers,  # type: ignore[arg-type]
            )  # fmt: skip
        else:
            step = gemv_normed_quant.step(
                caps, low, own, above, x, gain, bias, dst, TYPE=kind.name, LV=kind.vec,
                col_bits=bits, **numbers,  # type: ignore[arg-type]
            )  # fmt: skip
        return [*steps, *copies, step]
    if w.dtype.itemsize == 4 and half:
        raise DTypeError(f"[{OP}] x must be float32 for weights of float32 but is float16")
    _check_bindings(caps, [w])
    w = _vectors(caps, scratch, w, steps)
    bits = lane_bits(caps.tuning.matmul.gemv, GemmShape(1, 1, rows, depth))
    step = gemv_normed.step(caps, w, x, gain, bias, dst, lane_bits=bits, **numbers)  # type: ignore[arg-type]
    return [*steps, step]


def _vectors(
    caps: Caps, scratch: Scratch, v: View, steps: list[Step], packed: bool = False
) -> View:
    """The view in vectors of 16 bytes along its last axis, in which halves are words; `packed`: the
    view in vectors of four halves."""
    n = 16 // v.dtype.itemsize
    if v.shape[-1] % n:
        raise ShapeError(f"[{OP}] k must be a multiple of {n} but is {v.shape[-1]}")
    if not v.vectorizable(n):
        copy = scratch.empty(v.shape, v.dtype.name)
        steps += cpy.plan(caps, scratch, v, copy)
        v = copy
    if packed:
        return v
    v = words(v) if v.dtype.itemsize == 2 else v
    return v.with_layout((*v.shape[:-1], v.shape[-1] // 4), (*v.strides[:-1], 16))


def _check_bindings(caps: Caps, views: list[View]) -> None:
    if not all(fits_binding(caps, v) for v in views):
        raise LimitError(f"the weights are larger than one binding, {caps.max_binding} bytes")
