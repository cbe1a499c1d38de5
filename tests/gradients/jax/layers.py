"""Calls of other layers beside JAX's: rows, picks by order or index, rope, norms, lstm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.gradients.jax.call import Call, named, normal, points

ROWS = {"cosh": "", "abs": "", "hardsigmoid": "nn.hard_sigmoid", "hardtanh": "nn.hard_tanh"}


def calls(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    yield from _rows(pk, jnp, jax, rng)
    yield from _picks(pk, jnp, jax, rng)
    yield from _norms(pk, jnp, rng)
    yield from _products(pk, jnp, jax, rng)
    yield from _ropes(pk, jnp, rng)
    yield from _lstms(pk, jnp, jax, rng)


def _rows(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    for name, other in ROWS.items():
        yield Call(name, lambda t, n=name: getattr(pk, n)(t),
                   lambda t, n=other or name: named(jax, n)(t), (points(rng, -4, 4, 7),), order=3
                   )  # fmt: skip
    yield Call("acosh", lambda t: pk.acosh(t), lambda t: jnp.arccosh(t), (points(rng, 1.3, 4, 5),),
               order=3)  # fmt: skip
    yield Call("gelu_quick", lambda t: pk.gelu_quick(t), lambda t: t * jax.nn.sigmoid(1.702 * t),
               (points(rng, -3, 3, 5),), order=3)  # fmt: skip
    yield Call("prelu", lambda t, a: pk.prelu(t, a), lambda t, a: jnp.where(t > 0, t, a * t),
               (normal(rng, 2, 6), points(rng, 0.1, 0.5, 6)), order=3)  # fmt: skip
    a, b = points(rng, -4, 4, 2, 6), np.float32([0.9, -0.7, 1.7, 2.3, -1.1, 3.1])
    for name in ("remainder", "fmod"):
        yield Call(name, lambda s, t, n=name: pk.square(getattr(pk, n)(s, t)),
                   lambda s, t, n=name: getattr(jnp, n)(s, t) ** 2, (a, b))  # fmt: skip
    low, high = points(rng, -1.5, -0.5, 6), points(rng, 0.5, 1.5, 6)
    yield Call("clip", lambda t, s, u: pk.square(pk.clip(t, s, u)),
               lambda t, s, u: jnp.clip(t, s, u) ** 2, (a, low, high))  # fmt: skip
    yield Call("where", lambda t, s: pk.where(t > s, t * s, pk.sin(s)),
               lambda t, s: jnp.where(t > s, t * s, jnp.sin(s)), (a, low))  # fmt: skip
    yield Call("reglu", lambda t: pk.reglu(t), lambda t: jax.nn.relu(t[:, :3]) * t[:, 3:], (a,))
    yield Call("smooth_l1_loss", lambda s, t: pk.smooth_l1_loss(s, t, beta=0.5), lambda s, t:
               jnp.where(abs(s - t) < 0.5, (s - t) ** 2, abs(s - t) - 0.25).mean(),
               (normal(rng, 2, 4), normal(rng, 2, 4)))  # fmt: skip
    yield Call("expression", lambda s, t: pk.elementwise("tanh(s * t) / (1 + exp(-s))", s=s, t=t),
               lambda s, t: jnp.tanh(s * t) / (1 + jnp.exp(-s)), (a, low), order=3)  # fmt: skip


def _picks(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    """Squared, as they are linear."""
    x, index = normal(rng, 3, 5), np.array([[2, 0, 1, 2], [0, 1, 2, 1]], np.int32)
    for most in (True, False):
        sign = 1 if most else -1
        yield Call("top_k", lambda t, m=most: pk.square(pk.top_k(t, 2, largest=m)[0]),
                   lambda t, s=sign: jax.lax.top_k(s * t, 2)[0] ** 2, (x,))  # fmt: skip
    for n, axis in ((5, 1), (4, 1), (3, 0)):
        yield Call("median", lambda t, k=axis: pk.square(pk.median(t, k)),
                   lambda t, k=axis: jnp.median(t, k) ** 2, (x[:, :n].copy(),))  # fmt: skip
    yield Call("quantile", lambda t: pk.square(pk.quantile(t, [0.2, 0.65], 1)),
               lambda t: jnp.quantile(t, jnp.asarray([0.2, 0.65]), 1) ** 2, (x,))  # fmt: skip
    yield Call("scatter", lambda t, u, i: pk.square(pk.scatter(t, 0, i, u)),
               lambda t, u, i: t.at[i, jnp.arange(4)].set(u) ** 2,
               (x, normal(rng, 2, 4)), (index,))  # fmt: skip
    yield Call("take_along_axis", lambda t, i: pk.square(pk.take_along_axis(t, i, 0)),
               lambda t, i: jnp.take_along_axis(t, i, 0) ** 2, (x[:, :4].copy(),), (index,)
               )  # fmt: skip
    yield Call("index_select", lambda t, i: pk.square(pk.index_select(t, 1, i)),
               lambda t, i: t[:, i] ** 2, (x,), (index[0],))  # fmt: skip


def _norms(pk: Any, jnp: Any, rng: Any) -> Iterator[Call]:
    def length(t: Any, axis: int) -> Any:
        return t / jnp.sqrt((t * t).sum(axis, keepdims=True))

    x, y, w, b = normal(rng, 2, 4), normal(rng, 2, 4), points(rng, 0.5, 2, 4), normal(rng, 4)
    for axis in (-1, 0):
        yield Call("l2_norm", lambda t, k=axis: pk.l2_norm(t, k),
                   lambda t, k=axis: length(t, k), (x,), order=3)  # fmt: skip

    def layer(t: Any, u: Any, w: Any, b: Any) -> Any:
        s = t + u
        n = (s - s.mean(-1, keepdims=True)) / jnp.sqrt(s.var(-1, keepdims=True) + 1e-5)
        return (n * w + b) * s

    def rms(t: Any, u: Any, w: Any) -> Any:
        s = t + u
        return s / jnp.sqrt((s * s).mean(-1, keepdims=True) + 1e-5) * w * s

    def product(pair: Any) -> Any:
        return pair[0] * pair[1]

    yield Call("add_layer_norm", lambda t, u, w, b: product(pk.add_layer_norm(t, u, 4, w, b)),
               layer, (x, y, w, b))  # fmt: skip
    yield Call("add_rms_norm", lambda t, u, w: product(pk.add_rms_norm(t, u, 4, w, eps=1e-5)), rms,
               (x, y, w))  # fmt: skip
    for order in (1, np.inf):
        yield Call("norm", lambda t, o=order: pk.square(pk.norm(t, 1, ord=o)),
                   lambda t, o=order: jnp.linalg.norm(t, o, 1) ** 2, (x,))  # fmt: skip


def _products(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    a, b, c = normal(rng, 2, 3), normal(rng, 4, 3), normal(rng, 4)
    yield Call("linear", lambda x, w, b: pk.square(pk.linear(x, w, b)),
               lambda x, w, b: (x @ w.T + b) ** 2, (a, b, c))  # fmt: skip
    yield Call("tensordot", lambda s, t: pk.square(pk.tensordot(s, t, 2)),
               lambda s, t: jnp.tensordot(s, t, 2) ** 2, (normal(rng, 2, 3, 2), normal(rng, 3, 2))
               )  # fmt: skip
    yield Call("dot", lambda s, t: pk.square(pk.dot(s, t)), lambda s, t: jnp.dot(s, t) ** 2,
               (a[0].copy(), a[1].copy()))  # fmt: skip
    whole = normal(rng, 3, 3) + 3 * np.eye(3, dtype="f4")
    for upper in (False, True):
        yield Call(
            "solve_triangular", lambda t, u, w=upper: pk.solve_triangular(t, u, upper=w),
            lambda t, u, w=upper: jax.scipy.linalg.solve_triangular(t, u, lower=not w),
            (whole, normal(rng, 3, 2)),
        )  # fmt: skip


def factors(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    whole = normal(rng, 3, 3) + 3 * np.eye(3, dtype="f4")
    for upper in (False, True):
        yield Call(
            "cholesky", lambda t, w=upper: pk.cholesky(t @ t.T, upper=w),
            lambda t, w=upper: jnp.linalg.cholesky(t @ t.T, upper=w), (whole,),
        )  # fmt: skip
        yield Call(
            "cholesky_solve", lambda t, u, w=upper: pk.cholesky_solve(u, t, upper=w),
            lambda t, u, w=upper: jax.scipy.linalg.cho_solve((t, not w), u),
            (whole, normal(rng, 3, 2)),
        )  # fmt: skip


def _ropes(pk: Any, jnp: Any, rng: Any) -> Iterator[Call]:
    def turned(x: Any, places: Any, style: str) -> Any:
        width = x.shape[-1]
        angle = places[:, None] * 10000.0 ** (-jnp.arange(0, width, 2) / width)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        near = style == "normal"
        a, b = (x[..., ::2], x[..., 1::2]) if near else (x[..., : width // 2], x[..., width // 2 :])
        pair = a * cos - b * sin, a * sin + b * cos
        found = jnp.stack(pair, -1).reshape(x.shape) if near else jnp.concatenate(pair, -1)
        return found**2

    for style in ("normal", "neox"):
        yield Call("rope", lambda x, p, s=style: pk.square(pk.rope(x, p, style=s)),
                   lambda x, p, s=style: turned(x, p, s), (normal(rng, 2, 3, 4),),
                   (np.array([0, 3, 700], np.int32),))  # fmt: skip


def _lstms(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    def theirs(x: Any, w: Any, u: Any, b: Any, d: Any, h: Any, c: Any, back: bool) -> Any:
        found: list[Any] = []
        for row in x[::-1] if back else x:
            i, f, g, o = jnp.split(row @ w.T + b + h @ u.T + d, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            found.append(h)
        return jnp.stack([*(found[::-1] if back else found), h * c])

    def ours(x: Any, w: Any, u: Any, b: Any, d: Any, h: Any, c: Any, back: bool) -> Any:
        found, (last, cell) = pk.lstm(x, w, u, b, d, (h, c), reverse=back)
        return pk.concatenate([found, (last * cell)[None]], 0)

    shapes = (3, 2, 2), (8, 2), (8, 2), (8,), (8,), (2, 2), (2, 2)
    for back in (False, True):
        yield Call("lstm", lambda *a, r=back: ours(*a, back=r), lambda *a, r=back: theirs(*a, r),
                   tuple(normal(rng, *s) for s in shapes))  # fmt: skip
