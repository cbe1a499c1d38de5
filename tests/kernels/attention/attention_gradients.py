"""Calls of flash_attn_backward, each checked against the reference within a budget per element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.kernels import flash_attn_backward
from pykernels.reference.attention import attention
from pykernels.reference.attention import flash_attn_backward as reference
from pykernels.reference.attention import flash_attn_backward_budget as budget
from tests.harness import Array, Case, Form, Operand, assert_close

F32, F16 = "float32", "float16"
NAMES = ("q", "k", "v", "do", "mask", "sinks")


class AttentionGradCalls:
    """Many calls in one case."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.calls: list[
            tuple[dict[str, Operand | None], list[Operand], dict[str, Any], Any, tuple[Array, ...]]
        ] = []

    def add(
        self, shape: tuple[int, ...], dtype: str = F32, *, mask: Array | None = None,
        sinks: Array | None = None, kinds: Mapping[str, str] | None = None,
        forms: Mapping[str, Form] | None = None, values: Mapping[str, Array] | None = None,
        shared: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        """`shape`: (B, H, Hkv, S, T, D, Dv). `kinds`, `forms` and `values`: by tensor."""
        b, h, hkv, s, t, d, dv = shape
        shapes = {"q": (b, h, s, d), "k": (b, hkv, t, d), "v": (b, hkv, t, dv), "do": (b, h, s, dv)}
        forms, kinds = forms or {}, kinds or {}
        given: dict[str, Array | None] = {"mask": mask, "sinks": sinks}
        for name, size in shapes.items():
            made = self.rng.normal(0, 1, size).astype(kinds.get(name, dtype))
            given[name] = _repeated((values or {}).get(name, made), forms.get(name))
        q, k, v, do = (np.asarray(given[n]) for n in NAMES[:4])
        f = attention(q, k, v, mask, sinks, **options)
        given["o"] = f.o.astype(kinds.get("o", dtype))
        given["lse"] = f.lse.astype(F32)
        ins = {
            name: a if a is None else self.case.input(
                a, forms.get(name), buffer="one" if shared else name
            )
            for name, a in given.items()
        }  # fmt: skip
        outs = [
            self.case.output(
                a.shape, kinds.get(n, dtype), forms.get(n), buffer="one" if shared else n
            )
            for n, a in (("dq", q), ("dk", k), ("dv", v))
        ]
        want = reference(q, k, v, f.o, f.lse, do, mask, sinks, **options)
        allowed = budget(**given, **options)  # type: ignore[arg-type]
        self.calls.append((ins, outs, options, want, allowed))

    def check(self, what: str = "") -> list[list[Array]]:
        """Run all calls and compare; the results."""
        results = iter(self.case.run(self._run))
        found = []
        for ins, outs, options, want, allowed in self.calls:
            got = [next(results) for _ in outs]
            found.append(got)
            for name, g, w, room in zip(("dq", "dk", "dv"), got, want, allowed, strict=True):
                given = [(n, o.dtype, o.shape, o.strides) for n, o in ins.items() if o]
                assert_close(g, w, room, f"{what} {name} of {given} {options}")
        return found

    def _run(self) -> None:
        for ins, outs, options, *_ in self.calls:
            t = {n: o and o.tensor for n, o in ins.items()}
            order = [t[n] for n in ("q", "k", "v", "o", "lse", "do")]
            flash_attn_backward(
                *order, *(o.tensor for o in outs), mask=t["mask"], sinks=t["sinks"], **options
            )  # type: ignore[arg-type]


def _repeated(values: Array, form: Form | None) -> Array:
    """What a tensor of this form holds: along an axis of stride 0 the first values, repeated."""
    if form is None or 0 not in form.steps:
        return values
    first = tuple(slice(0, 1) if s == 0 else slice(None) for s in form.steps)
    return np.broadcast_to(values[first], values.shape)
