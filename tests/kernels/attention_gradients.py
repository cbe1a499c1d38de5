"""Calls of flash_attn_backward, each checked against the reference within a budget per element."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.kernels import flash_attn_backward
from pykernels.plans import flash_attn_backward as plans
from pykernels.plans.flash_attn_backward import Choice
from pykernels.reference.flash_attn import attention
from pykernels.reference.flash_attn import flash_attn_backward as reference
from pykernels.reference.softmax import alibi_slopes
from tests.harness import Array, Case, Form, Operand, assert_close, caps

F32, F16 = "float32", "float16"
NAMES = ("q", "k", "v", "do", "mask", "sinks")


def budgets(inputs: Mapping[str, Array | None], half: bool, **options: Any) -> list[Array]:
    """What f32 may be off by in each element of dq, dk and dv; `half`: o was rounded to float16.

    With u = 2^-23 and sums of K products off by u (sqrt(K) + 4) sum|a||b|, as everywhere:
    a score is off by u (sqrt(D) + 4) scale sum|q||k|, its logit by that, 4 u |slope mask| and
    16 u softcap; the exponential adds u (8 + 2 |logit - lse|), the rounding of logit and lse
    u (|logit| + |lse|). So a weight P is off by P times the sum of these, `weight`. dP is off by
    u (sqrt(Dv) + 4) sum|do||v|, delta by the same with o (plus its rounding: u, or 2^-11); the
    derivative of the soft cap by 8 u and twice the error of score / softcap. Then for
    dS = P cap' (dP - delta) all of it adds up, weighted by |K| or |Q| in the sums.
    """
    # Values that are not finite stand where nothing can be seen: they must not count.
    q, k, v, do = (
        np.where(np.isfinite(a), a, 0.0) for a in (np.asarray(inputs[n], float) for n in NAMES[:4])
    )
    mask = inputs["mask"]
    u = 2.0**-23
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a, group, axis=1) for a in (k, v))
    f = attention(q, k, v, mask, inputs["sinks"], **options)
    scale = options.get("scale")
    scale = abs(1.0 / math.sqrt(q.shape[3]) if scale is None else scale)
    turned = [np.swapaxes(np.abs(a), -1, -2) for a in (k, v)]
    score = (math.sqrt(q.shape[3]) + 4) * scale * (np.abs(q) @ turned[0])
    allowed = f.logits != -np.inf
    logits = np.where(allowed, f.logits, 0.0)
    lse = np.where(np.isfinite(f.lse), f.lse, 0.0)[..., None]
    softcap = float(options.get("softcap", 0.0))
    weight = score + 16 * softcap + 8 + 2 * np.abs(logits - lse) + np.abs(logits) + np.abs(lse)
    if mask is not None and mask.dtype != bool:
        slopes = alibi_slopes(q.shape[1], float(options.get("max_bias", 0.0)))[:, None, None]
        weight = weight + 4 * np.abs(slopes * np.where(np.isfinite(mask), mask, 0.0))
    products = (math.sqrt(v.shape[3]) + 4) * (np.abs(do) @ turned[1])
    rounding = 2.0**-11 / u if half else 1.0
    delta = (do * f.o).sum(-1, keepdims=True)
    sums = (math.sqrt(v.shape[3]) + 4 + rounding) * (np.abs(do) * np.abs(f.o)).sum(
        -1, keepdims=True
    )
    spread = np.where(allowed, np.abs(do @ np.swapaxes(v, -1, -2) - delta), 0.0)
    bend = 8 + 2 * score / softcap if softcap else 2.0
    ds = f.weights * f.slopes * spread
    off = ds * (weight + bend) + f.weights * f.slopes * (products + sums + 2 * spread)
    terms, rows = math.sqrt(k.shape[2]) + 4, math.sqrt(q.shape[2] * group) + 4
    over = np.swapaxes(off + rows * ds, -1, -2)
    shares = np.swapaxes(f.weights * (weight + rows), -1, -2)
    found = [
        scale * (off + terms * ds) @ np.abs(k),
        _grouped(scale * over @ np.abs(q), group),
        _grouped(shares @ np.abs(do), group),
    ]
    return [u * b + 2.0**-120 for b in found]


def _grouped(a: Array, group: int) -> Array:
    b, h, *rest = a.shape
    return np.asarray(a.reshape(b, h // group, group, *rest).sum(2))


class Calls:
    """Many calls in one case."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.calls: list[
            tuple[dict[str, Operand | None], list[Operand], dict[str, Any], Any, list[Array]]
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
        half = kinds.get("o", dtype) == F16
        allowed = budgets({n: given[n] for n in NAMES}, half, **options)
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


@contextmanager
def forced(dev: pk.Device, choice: Choice) -> Iterator[None]:
    """Plans take this tile, and windows of at most these heads, queries and keys."""
    before = plans.choose
    plans.choose = lambda caps, d, near: choice
    try:
        with caps(dev):
            yield
    finally:
        plans.choose = before
