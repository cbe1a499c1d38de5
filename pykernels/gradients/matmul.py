"""Products of matrices: dst[n, m] = act(scale * sum_k a[m, k] b[n, k] + bias + residual).

With dz the gradient before the activation, da[m, k] = sum_n dz[n, m] b[n, k] and db[n, k] = sum_m
dz[n, m] a[m, k]. If an operand repeats along batch axes, its gradient is a sum over these axes.
They become part of the summed axis, so one product computes the sum.
"""

from __future__ import annotations

import math
from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels._generated.operations.matmul import matmul
from pykernels.functional.elementwise import elementwise
from pykernels.functional.norm_linear import GATES
from pykernels.tape import Tape, Taped, reads, reshaped

from ._epilogue import before_activation, epilogue_reads
from ._plain import plainly


@reads(of=epilogue_reads("a", "b"))
def mul_mat(call: Taped) -> None:
    a, b, products = call.saved("a"), call.saved("b"), _Products(call)
    dz = before_activation(call, lambda: _sums(call, a, b))
    call.give("bias", dz)
    call.give("residual", dz)
    if a.shape[:-2] == b.shape[:-2] and not _batch_repeats(call, "b"):
        batch = _batch_repeats(call, "a")
        if all(axis in batch or n == 1 for axis, n in enumerate(a.shape[:-2])):
            _of_one(call, products, a, b, dz, batch)
            return
    lead = b.ndim - a.ndim
    wide = a.reshape((1,) * lead + a.shape) if lead else a
    # If a has fewer matrices, each of them multiplies r neighbouring matrices of b. Then an axis of
    # b is cut into an axis of the size that it has in a, and an axis of size r. `axes` holds for
    # each batch axis the number of axes that it becomes.
    pairs = [(m, n // max(m, 1)) for m, n in zip(wide.shape[:-2], b.shape[:-2], strict=True)]
    axes = [1 if r == 1 else 2 for _, r in pairs]
    first = [sum(axes[:i]) for i in range(len(axes))]
    dz = _split(dz, pairs)
    if call.wants("a"):
        batch = _batch_repeats(call, "a")
        over = {first[axis + lead] for axis in batch}
        over |= {first[i] + 1 for i, n in enumerate(axes) if n == 2}
        found = products.summed(dz, _split(b, pairs), over)
        call.give("a", reshaped(found, _once(a, batch)), summed=batch)
    if call.wants("b"):
        batch = _batch_repeats(call, "b")
        over = {first[axis] + i for axis in batch for i in range(axes[axis])}
        spread = wide
        if 2 in axes:
            sizes = [n for (m, _), k in zip(pairs, axes, strict=True) for n in (m, 1)[:k]]
            spread = wide.reshape((*sizes, *wide.shape[-2:]))
        found = (
            products.summed(_transposed(dz), spread, over) if over else products.plain(dz, spread)
        )
        call.give("b", reshaped(found, _once(b, batch)), summed=batch)


def _of_one(
    call: Taped, products: _Products, a: Any, b: Any, dz: Any, batch: tuple[int, ...]
) -> None:
    """The gradients if one matrix a multiplies all rows of b, as in a layer."""
    rows = dz.reshape(-1, dz.shape[-1])
    if call.wants("b"):
        one = a[(0,) * (a.ndim - 2)] if a.ndim > 2 else a
        earlier = call.earlier("b") if rows.dtype == one.dtype == "float32" else None
        if earlier is not None:
            earlier = reshaped(earlier, (rows.shape[0], one.shape[1]))
        call.give("b", products.plain(rows, one, earlier).reshape(b.shape))
    if call.wants("a"):
        found = products.plain(rows.T, b.reshape(-1, b.shape[-1]))
        call.give("a", found.reshape(_once(a, batch)), summed=batch)


@reads("a", "b", "a_scale", "b_scale")
def mul_mat_i8(call: Taped) -> None:
    """The rule for dst[n, m] = a_scale[m] b_scale[n] sum_k a[m, k] b[n, k] + bias[n, m], with
    integers a and b."""
    dy = call.dy()
    call.give("bias", dy)
    for name, other, axis in (("a_scale", "b_scale", -2), ("b_scale", "a_scale", -1)):
        if call.wants(name):
            products = dy.device.empty(call.shape("dst") or ())
            factors: dict[str, Any] = {other: call.saved(other)}
            kernels.mul_mat_i8(call.saved("a"), call.saved("b"), products, **factors)
            call.give(name, F.sum(dy * products, axis=axis))


@reads(of=epilogue_reads("low", "scales", "high"))
def mul_mat_quant(call: Taped) -> None:
    """Weights in blocks have no gradient; the gradient of b is dz times the dequantised weights."""

    def sums() -> Any:
        dst = call.saved("b").device.empty(call.shape("dst") or ())
        kernels.mul_mat_quant(
            call.saved("low"), call.saved("scales"), call.saved("b"), dst, high=call.saved("high"),
            bias=call.saved("bias"), residual=call.saved("residual"), scale=call.scalar("scale"),
            quant=call.option("quant"), precision=call.option("precision"),
        )  # fmt: skip
        return dst

    dz = before_activation(call, sums)
    call.give("bias", dz)
    call.give("residual", dz)
    if call.wants("b"):
        *_, depth = call.shape("b") or (0,)
        w = _dequantised(call, (dz.shape[-1], depth))
        call.give("b", matmul(dz, w, scale=call.scalar("scale")))


def _expert_reads(kernel: Any, options: dict[str, Any]) -> set[str]:
    """As `epilogue_reads`; the gradient of a gated product reads all operands of the sums."""
    if options.get("gated"):
        return {arg.name for arg in kernel.args if arg.role == "in"}
    return epilogue_reads("ids", "b", "w", "low", "scales", "high")(kernel, options)


@reads(of=_expert_reads)
def mul_mat_id(call: Taped) -> None:
    """For each expert, one product of all rows, with the rows of other experts set to 0. Weights
    in blocks have no gradient."""
    dz, b, weights = _before_gates(call), call.saved("b"), call.saved("w")
    call.give("residual", dz)
    (tokens, slots, cols), depth = dz.shape, b.shape[2]
    if weights is None:
        weights = _dequantised(call, (call.saved("low").shape[0], cols, depth))
    experts = call.saved("ids").astype("int32").reshape(-1, 1)
    rows = dz.reshape(-1, cols)
    inputs = b.broadcast_to((tokens, slots, depth)).reshape(-1, depth)
    of_b, of_w, of_bias = F.zeros_like(inputs, rows.dtype), [], []
    for expert in range(weights.shape[0]):
        own = F.where(experts == expert, rows, 0.0)
        if call.wants("b"):
            of_b = of_b + matmul(own, weights[expert])
        if call.wants("w"):
            of_w.append(matmul(own.T, inputs))
        if call.wants("bias"):
            of_bias.append(F.sum(own, axis=0))
    if call.wants("b"):
        of_b = of_b.reshape(tokens, slots, depth)
        call.give("b", F.sum(of_b, axis=1, keepdims=True) if b.shape[1] < slots else of_b)
    if call.wants("w"):
        call.give("w", F.stack(of_w))
    if call.wants("bias"):
        call.give("bias", F.stack(of_bias))


def _before_gates(call: Taped) -> Any:
    """The gradient of the sums of mul_mat_id with bias and residual."""

    def sums() -> Any:
        tokens, slots, cols = call.shape("dst") or (0, 0, 0)
        cols *= 2 if call.option("gated") else 1
        dst = call.saved("b").device.empty((tokens, slots, cols))
        kernels.mul_mat_id(
            call.saved("ids"), call.saved("b"), dst, w=call.saved("w"), low=call.saved("low"),
            scales=call.saved("scales"), high=call.saved("high"), bias=call.saved("bias"),
            residual=call.saved("residual"), quant=call.option("quant"),
        )  # fmt: skip
        return dst

    if not call.option("gated"):
        return before_activation(call, sums)
    found = sums()
    half = found.shape[2] // 2
    with Tape() as tape:
        tape.watch(found)
        gate, other = found[:, :, :half], found[:, :, half:]
        y: Any = elementwise(GATES[call.option("activation")], a=gate, c=other)
    [dz] = tape.gradient(y, [found], call.dy())
    return dz


@reads("x", "gain", "w", "scales", "high", "bias")
def rms_norm_linear(call: Taped) -> None:
    """The gradients are computed as for two operations, a norm and a product."""
    quant, options = call.option("quant"), {n: call.option(n) for n in ("activation", "gated")}
    weights = call.saved("w")
    if quant:
        rows = call.dy().shape[0] * (2 if options["gated"] else 1)
        weights = _dequantised(call, (rows, *(call.shape("x") or ())), "w")

    def compute(x: Any, gain: Any, w: Any = weights, bias: Any = None) -> Any:
        found: Any = F.rms_norm_linear(x[None], gain, w, bias, call.option("eps"), **options)
        return {"dst": found[0]}

    plainly(call, compute, *("x", "gain", "bias", *(() if quant else ("w",))))


def _dequantised(call: Taped, shape: tuple[int, ...], low: str = "low") -> Any:
    """The weights of a call as float32. `low` names the argument that holds their low plane."""
    plane = call.saved(low)
    weights = plane.device.empty(shape)
    kernels.dequantize(
        plane, call.saved("scales"), weights, high=call.saved("high"), quant=call.option("quant")
    )
    return weights


class _Products:
    """Computes matrix products with the factor and the precision of a recorded call."""

    def __init__(self, call: Taped) -> None:
        self._scale, self._precision = call.scalar("scale"), call.option("precision")

    def summed(self, left: Any, right: Any, over: set[int]) -> Any:
        """The sum of left[..., c, p] right[..., c, q] over c and some axes before it: (..., p,
        q)."""
        if over:
            left, right = self._joined(left, right, over)
        return self.plain(_transposed(left), right)

    def plain(self, left: Any, right: Any, earlier: Any = None) -> Any:
        """The product of two matrices, added to an earlier gradient if there is one."""
        return matmul(left, right, residual=earlier, scale=self._scale, precision=self._precision)

    def _joined(self, left: Any, right: Any, over: set[int]) -> tuple[Any, Any]:
        """Both operands, with these axes merged into c."""
        count = left.ndim - 2
        batches = [max(m, n) for m, n in zip(left.shape, right.shape, strict=True)][:-2]
        rest = [axis for axis in range(count) if axis not in over]
        order = (*rest, *sorted(over), count, count + 1)
        sides = []
        for t in (left, right):
            shape = (*(batches[a] if a in over else t.shape[a] for a in range(count)),
                     *t.shape[-2:])  # fmt: skip
            t = t if t.shape == shape else t.broadcast_to(shape)
            t = t if order == tuple(range(t.ndim)) else t.transpose(order)
            depth = math.prod(t.shape[len(rest) : -1])
            sides.append(reshaped(t, (*t.shape[: len(rest)], depth, t.shape[-1])))
        return sides[0], sides[1]


def _transposed(t: Any) -> Any:
    """Each matrix transposed."""
    *lead, rows, cols = t.strides
    shape = t.shape
    return t._view((*shape[:-2], shape[-1], shape[-2]), (*lead, cols, rows), t._offset)


def _split(t: Any, pairs: list[tuple[int, int]]) -> Any:
    """The tensor, with each batch axis of groups split into two axes."""
    sizes = [n for m, r in pairs for n in ((m,) if r == 1 else (m, r))]
    return reshaped(t, (*sizes, *t.shape[-2:]))


def _batch_repeats(call: Taped, name: str) -> tuple[int, ...]:
    """The batch axes along which an operand repeats."""
    return tuple([axis for axis in call.repeats(name) if axis < len(call.shape(name) or ()) - 2])


def _once(t: Any, repeats: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of t, with size 1 along the repeated axes."""
    return tuple([1 if axis in repeats else n for axis, n in enumerate(t.shape)])


def _sums(call: Taped, a: Any, b: Any) -> Any:
    """The argument of the activation, computed again."""
    dst = b.device.empty(call.shape("dst") or ())
    kernels.mul_mat(
        a, b, dst, bias=call.saved("bias"), residual=call.saved("residual"),
        scale=call.scalar("scale"), precision=call.option("precision"),
    )  # fmt: skip
    return dst
