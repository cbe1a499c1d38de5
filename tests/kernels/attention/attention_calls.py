"""What the tests of flash_attn share: checked calls, and plans made to take a certain body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.kernels import flash_attn
from pykernels.plans.attention.select import MMA, PRODUCTS, AttentionChoice
from pykernels.reference.attention import attention, lse_budget
from pykernels.reference.attention import flash_attn_budget as budget
from pykernels.steps import forced
from tests.harness import Array, Case, Form, Operand, assert_close

F32, F16 = "float32", "float16"
NAMES = ("q", "k", "v", "mask", "sinks", "lengths")


class AttentionCalls:
    """Many calls of flash_attn in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.dev = dev
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.calls: list[tuple[list[Operand | None], Operand | None, Operand, dict[str, Any]]] = []

    def values(self, shape: tuple[int, ...], dtype: str = F32) -> Array:
        return self.rng.normal(0, 1, shape).astype(dtype)

    def mask(self, shape: tuple[int, ...], dtype: str, hidden: float = 0.4) -> Array:
        """A mask that hides this share of the keys."""
        gone = self.rng.random(shape) < hidden
        if dtype == "bool":
            return ~gone
        return np.where(gone, -np.inf, self.rng.normal(0, 2, shape)).astype(dtype)

    def add(
        self, heads: tuple[int, int, int], sizes: tuple[int, int], depths: tuple[int, int],
        dtype: str = F32, *, kv_dtype: str = "", out_dtype: str = "", mask: Array | None = None,
        sinks: Array | None = None, lengths: Sequence[int] | None = None, lse: bool = True,
        forms: dict[str, Form] | None = None, buffers: dict[str, str] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """`heads`: B, H, Hkv; `sizes`: S, T; `depths`: D, Dv. Behind `lengths` lies no number."""
        (b, h, hkv), (s, t), (d, dv) = heads, sizes, depths
        kv = kv_dtype or dtype
        q, k = self.values((b, h, s, d), dtype), self.values((b, hkv, t, d), kv)
        v = self.values((b, hkv, t, dv), kv)
        for i, n in enumerate(lengths or ()):
            k[i, :, max(n, 0) :], v[i, :, max(n, 0) :] = np.nan, np.inf
        self.give(q, k, v, mask, sinks, None if lengths is None else np.int32(lengths), lse=lse,
                  forms=forms, out_dtype=out_dtype, buffers=buffers, **options)  # fmt: skip

    def give(
        self, q: Array, k: Array, v: Array, mask: Array | None = None, sinks: Array | None = None,
        lengths: Array | None = None, *, out_dtype: str = "", lse: bool = True,
        forms: dict[str, Form] | None = None, buffers: dict[str, str] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        f, where = forms or {}, buffers or {}

        def place(name: str) -> dict[str, Any]:
            return {"form": f.get(name), "buffer": where.get(name, name)}

        ins: list[Operand | None] = [
            None if a is None else self.case.input(a, **place(name))
            for name, a in zip(NAMES, (q, k, v, mask, sinks, lengths), strict=True)
        ]
        shape = q.shape[:3]
        sums = self.case.output(shape, F32, **place("lse")) if lse else None
        dst = self.case.output(
            (*shape, v.shape[3]), out_dtype or q.dtype.name, **place("dst")
        )  # fmt: skip
        self.calls.append((ins, sums, dst, options))

    def check(self, what: str = "", exact: bool = False) -> None:
        """`exact`: weights are such that rounding to halves leaves them as they are."""
        self.case.build()
        own = self.dev._context.caps
        choice = forced(own, AttentionChoice)
        units = own.matrix is not None and (
            choice is None or choice.body.startswith((MMA, PRODUCTS))
        )
        arrays = [[None if o is None else o.array.copy() for o in ins] for ins, *_ in self.calls]

        def run() -> None:
            for (q, k, v, mask, sinks, lengths), lse, dst, options in self.calls:
                assert q and k and v
                flash_attn(q.tensor, k.tensor, v.tensor, dst.tensor, mask=mask and mask.tensor,
                           sinks=sinks and sinks.tensor, lengths=lengths and lengths.tensor,
                           lse=lse and lse.tensor, **options)  # fmt: skip

        results = iter(self.case.run(run))
        for ins, (_, lse, dst, options) in zip(arrays, self.calls, strict=True):
            q, k, _, mask, *_ = ins
            want = attention(*ins, **options)  # type: ignore[arg-type]
            shapes = [None if a is None else (a.dtype.name, a.shape) for a in ins]
            text = f"{what} {shapes} {ins[5]} -> {dst.dtype} {dst.strides} {options}"
            if lse is not None:
                bound = lse_budget(q, k, mask, want, **options)  # type: ignore[arg-type]
                assert_close(next(results), want.lse, bound, text + " lse")
            # Matrix units take weights as halves.
            rounded = not exact and units and all(a is not None and a.dtype == F16 for a in ins[:3])
            bound = budget(*ins, result=want, rounded=rounded, **options)  # type: ignore[arg-type]
            assert_close(next(results), want.o, bound, text)


def run(
    dev: pk.Device, q: Array, k: Array, v: Array, mask: Array | None = None,
    sinks: Array | None = None, **options: Any,
) -> tuple[Array, Array]:  # fmt: skip
    """Result and lse of one call."""
    tensors = [None if a is None else dev.tensor(a) for a in (q, k, v, mask, sinks)]
    tq, tk, tv, tm, ts = tensors
    assert tq is not None and tk is not None and tv is not None
    out, lse = pk.flash_attn(tq, tk, tv, mask=tm, sinks=ts, return_lse=True, **options)
    return out.numpy(), lse.numpy()
