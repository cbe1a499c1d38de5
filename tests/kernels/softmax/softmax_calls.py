"""What the tests of softmax share: logits, the budget of each element, and checked calls."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk
from pykernels.kernels import log_softmax, softmax
from pykernels.reference.softmax import alibi_slopes
from pykernels.reference.softmax import softmax as reference
from tests.harness import Array, Case, Form, Operand, assert_close

DTYPES = ("float32", "float16")


def logits(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Rows of three kinds: some units wide, wide enough to underflow, far from zero."""
    kind = rng.integers(0, 3, (*shape[:-1], 1))
    x = rng.normal(0, 1, shape) * np.array([3.0, 40.0, 0.5])[kind]
    return (x + np.array([0.0, 0.0, 1000.0])[kind]).astype(dtype)


def budget(
    want: Array, x: Array, mask: Array | None = None, sinks: Array | None = None, *,
    scale: float = 1.0, max_bias: float = 0.0, log: bool = False,
) -> Array:  # fmt: skip
    """What exp, log and the rounding of the logits may cost each element.

    The exponential is allowed 3 + 2 |x - max| units in the last place, the logarithm 2^-21; the
    logits are rounded once or twice, and a slope is good to some units.
    """
    with np.errstate(all="ignore"):
        a = np.abs(x.astype(np.float64) * float(np.float32(scale)))
        noise = np.zeros_like(a) if mask is None and scale == 1.0 else a
        if mask is not None:
            lone = reference_logits(x, mask, max_bias)
            noise = noise + 8 * np.abs(lone)
        noise = np.where(np.isfinite(noise), noise, 0.0)
        noise = noise + noise.max(-1, keepdims=True, initial=0.0)
        if log:
            whole = 16 + 2 * np.log(x.shape[-1] + 1 if x.ndim else 2) + 2 * np.abs(want) + noise
            return 2.0**-21 + 2.0**-23 * whole
        depth = -np.log(np.maximum(want, 2.0**-149))
        return want * (8 + 2 * depth + noise) * 2.0**-23 + 2.0**-126


def reference_logits(x: Array, mask: Array, max_bias: float) -> Array:
    """slope * mask in the shape of x."""
    mask = mask.reshape((1,) * (x.ndim - mask.ndim) + mask.shape).astype(np.float64)
    times = [n // m if m not in (1, n) else 1 for n, m in zip(x.shape, mask.shape, strict=True)]
    heads = x.shape[-3] if x.ndim >= 3 else 1
    slopes = alibi_slopes(heads, max_bias).reshape((-1, 1, 1) if x.ndim >= 3 else (1,) * x.ndim)
    return np.broadcast_to(np.tile(mask, times), x.shape) * slopes


def run_softmax(x: pk.Tensor, dst: pk.Tensor, *, log: bool = False, **options: Any) -> None:
    (log_softmax if log else softmax)(x, dst, **options)


class SoftmaxCalls:
    """Many calls of softmax in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.calls: list[tuple[tuple[Operand | None, ...], Operand, dict[str, Any]]] = []

    def add(
        self, x: Array, mask: Array | None = None, sinks: Array | None = None, *,
        x_form: Form | None = None, mask_form: Form | None = None, dst_form: Form | None = None,
        sinks_form: Form | None = None, **scalars: Any,
    ) -> None:  # fmt: skip
        ins = [
            None if a is None else self.case.input(a, form, buffer=name)
            for a, form, name in ((x, x_form, "x"), (mask, mask_form, "mask"),
                                  (sinks, sinks_form, "sinks"))
        ]  # fmt: skip
        dst = self.case.output(x.shape, x.dtype.name, dst_form, buffer="dst")
        self.calls.append((tuple(ins), dst, scalars))

    def check(self) -> None:
        self.case.build()
        arrays = [[None if o is None else o.array.copy() for o in ins] for ins, _, _ in self.calls]

        def run() -> None:
            for (x, mask, sinks), dst, scalars in self.calls:
                assert x is not None
                run_softmax(x.tensor, dst.tensor, mask=mask and mask.tensor,
                            sinks=sinks and sinks.tensor, **scalars)  # fmt: skip

        results = self.case.run(run)
        for got, ins, (_, dst, scalars) in zip(results, arrays, self.calls, strict=True):
            want = reference(*ins, **scalars)  # type: ignore[arg-type]
            bound = budget(want, *ins, **scalars)  # type: ignore[arg-type]
            shapes = [None if a is None else (a.dtype.name, a.shape) for a in ins]
            assert_close(got, want, bound, f"{shapes} -> {dst.strides} {scalars}")
