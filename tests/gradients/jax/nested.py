"""Losses that have gradients inside: a gradient penalty, inner steps of MAML, functional forms. The
test derives them again, so that three and four tapes nest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.gradients.jax.call import Call, normal


def calls(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    yield from _penalties(pk, jnp, jax, rng)
    yield from _maml(pk, jnp, jax, rng)
    yield from _forms(pk, jnp, jax, rng)


def _network(m: Any, act: Any, x: Any, w: Any, b: Any, v: Any) -> Any:
    return m.matmul(act(m.matmul(x, w) + b), v)


def _penalties(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    """WGAN-GP's: the critic's difference, and ten times the squares of slopes' lengths less 1."""

    def loss(m: Any, act: Any, slopes: Any, real: Any, made: Any, w: Any, b: Any, v: Any) -> Any:
        between = 0.3 * real + 0.7 * made
        slope = slopes(lambda x: m.sum(_network(m, act, x, w, b, v)))(between)
        length = m.sqrt(m.sum(m.square(slope), axis=1))
        critic = m.mean(_network(m, act, made, w, b, v)) - m.mean(_network(m, act, real, w, b, v))
        return critic + 10 * m.mean(m.square(length - 1))

    shapes = (3, 2), (3, 2), (2, 4), (4,), (4, 1)
    for act, theirs in (("tanh", "tanh"), ("leaky_relu", "nn.leaky_relu")):
        yield Call(
            "gradient penalty", lambda *a, n=act: loss(pk, getattr(pk, n), pk.grad, *a),
            lambda *a, n=theirs: loss(jnp, _of(jax, n), jax.grad, *a),
            tuple(normal(rng, *s) for s in shapes),
        )  # fmt: skip


def _of(jax: Any, name: str) -> Any:
    return jax.nn.leaky_relu if "." in name else getattr(jax.numpy, name)


def _maml(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    """The loss of other points after one and two steps on some, by weights and the step's size."""

    def loss(m: Any, slopes: Any, steps: int, x: Any, y: Any, w: Any, b: Any, v: Any, r: Any,
             other: Any, wanted: Any) -> Any:  # fmt: skip
        def fit(w: Any, b: Any, v: Any, x: Any, y: Any) -> Any:
            return m.mean(m.square(_network(m, m.tanh, x, w, b, v) - y))

        for _ in range(steps):
            found = slopes(fit, argnums=(0, 1, 2))(w, b, v, x, y)
            w, b, v = (t - r * g for t, g in zip((w, b, v), found, strict=True))
        return fit(w, b, v, other, wanted)

    shapes = (4, 1), (4, 1), (1, 3), (3,), (3, 1)
    points = normal(rng, 5, 1), normal(rng, 5, 1)
    for steps in (1, 2):
        inputs = *(normal(rng, *s) for s in shapes), np.float32([0.1])
        yield Call(
            "MAML", lambda *a, n=steps: loss(pk, pk.grad, n, *a),
            lambda *a, n=steps: loss(jnp, jax.grad, n, *a), inputs, points, order=3 - steps,
        )  # fmt: skip


def _forms(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    """Each by all that goes in, directions too."""
    classes = np.array([2, 0, 1], np.int32)

    def entropy(w: Any, x: Any, c: Any) -> Any:
        return -jax.nn.log_softmax(x @ w)[jnp.arange(3), c].mean()

    def along(w: Any, v: Any, x: Any, c: Any) -> Any:
        return jax.jvp(jax.grad(lambda w: entropy(w, x, c)), (w,), (v,))[1]

    w, v = normal(rng, 2, 3), normal(rng, 2, 3)
    yield Call("hvp", lambda w, v, x, c: pk.hvp(lambda w: pk.cross_entropy(x @ w, c), w, v), along,
               (w, v), (normal(rng, 3, 2), classes))  # fmt: skip
    yield Call("hvp along its own argument",
               lambda w, x, c: pk.hvp(lambda w: pk.cross_entropy(x @ w, c), w, w),
               lambda w, x, c: along(w, w, x, c), (w,), (normal(rng, 3, 2), classes))  # fmt: skip

    def f(m: Any, x: Any) -> Any:
        return m.sin(x) * m.cumsum(x, 0)

    x, u = normal(rng, 3), normal(rng, 3)
    yield Call("jvp", lambda x, u: pk.multiply(*pk.jvp(lambda x: f(pk, x), (x,), (u,))),
               lambda x, u: jnp.multiply(*jax.jvp(lambda x: f(jnp, x), (x,), (u,))), (x, u)
               )  # fmt: skip
    yield Call("vjp", lambda x, u: pk.vjp(lambda x: f(pk, x), x)[1](u)[0],
               lambda x, u: jax.vjp(lambda x: f(jnp, x), x)[1](u)[0], (x, u))  # fmt: skip
    yield Call("jacobian", lambda x: pk.jacobian(lambda x: f(pk, x))(x),
               lambda x: jax.jacrev(lambda x: f(jnp, x))(x), (x,))  # fmt: skip
    yield Call("hessian", lambda x: pk.hessian(lambda x: pk.sum(f(pk, x)))(x),
               lambda x: jax.hessian(lambda x: jnp.sum(f(jnp, x)))(x), (x,), order=1)  # fmt: skip

    def again(x: Any, w: Any) -> Any:
        """w is reached by closure."""
        h = pk.checkpoint(lambda x: pk.tanh(pk.matmul(x, w)), x)
        return pk.checkpoint(lambda h: pk.softmax(pk.matmul(h, w[:]), -1), h)

    yield Call("checkpoint", again,
               lambda x, w: jax.nn.softmax(jnp.tanh(x @ w) @ w), (normal(rng, 2, 3),
               normal(rng, 3, 3)))  # fmt: skip
