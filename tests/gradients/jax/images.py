"""Calls on images, beside JAX's: pools, sizes, convolutions, windows and norms by channel.

Linear ones are squared, so that they have a second order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.gradients.jax.call import Array, Call, normal, points


def calls(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    yield from _pools(pk, jnp, rng)
    yield from _adaptive_pools(pk, jnp, rng)
    yield from _sizes(pk, jnp, jax, rng)
    yield from _convolutions(pk, jax, rng)
    yield from _folds(pk, jnp, jax, rng)
    yield from _norms(pk, jnp, rng)


def different(rng: Any, *shape: int) -> Array:
    """Numbers that are apart from each other, so that each window has one maximum."""
    size = int(np.prod(shape))
    return (rng.permutation(size) * 0.3 - 0.13 * size).astype(np.float32).reshape(shape)  # type: ignore[no-any-return]


def _windows(jnp: Any, x: Any, kernel: int, stride: int, pad: int, apart: int, fill: float) -> Any:
    """(taps, N, C, OH, OW): the elements of each window, with `fill` around the image."""
    x = jnp.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    rows, cols = ((n - apart * (kernel - 1) - 1) // stride * stride + 1 for n in x.shape[2:])
    taps = [x[:, :, i * apart : i * apart + rows : stride, j * apart : j * apart + cols : stride]
            for i in range(kernel) for j in range(kernel)]  # fmt: skip
    return jnp.stack(taps)


def _pools(pk: Any, jnp: Any, rng: Any) -> Iterator[Call]:
    for kernel, stride, pad, apart in ((2, 2, 0, 1), (3, 2, 1, 1), (2, 1, 1, 2)):
        yield Call(
            "max_pool2d",
            lambda x, o=(kernel, stride, pad, apart): pk.square(pk.max_pool2d(x, *o)),
            lambda x, o=(kernel, stride, pad, apart): _windows(jnp, x, *o, -1e9).max(0) ** 2,
            (different(rng, 1, 2, 5, 4),),
        )  # fmt: skip
    for kernel, stride, pad in ((2, 2, 0), (3, 2, 1)):
        for whole in (False, True):

            def mean(x: Any, k: int = kernel, s: int = stride, p: int = pad, w: Any = whole) -> Any:
                total = _windows(jnp, x, k, s, p, 1, 0).sum(0)
                count = _windows(jnp, jnp.ones_like(x), k, s, p, 1, 0).sum(0)
                return (total / (k * k if w else count)) ** 2

            yield Call(
                "avg_pool2d",
                lambda x, o=(kernel, stride, pad, False, whole): pk.square(pk.avg_pool2d(x, *o)),
                mean, (normal(rng, 1, 2, 5, 4),),
            )  # fmt: skip
    row = different(rng, 2, 2, 6)
    yield Call("max_pool1d", lambda x: pk.square(pk.max_pool1d(x, 2)),
               lambda x: x.reshape(2, 2, 3, 2).max(-1) ** 2, (row,))  # fmt: skip
    yield Call("avg_pool1d", lambda x: pk.square(pk.avg_pool1d(x, 3)),
               lambda x: x.reshape(2, 2, 2, 3).mean(-1) ** 2, (row,))  # fmt: skip
    # One place of each window of 2 x 2.
    index = np.array([[0, 3], [8, 14]], np.int32).reshape(1, 1, 2, 2)
    yield Call("max_unpool2d", lambda x, i: pk.square(pk.max_unpool2d(x, i, 2)),
               lambda x, i: (jnp.zeros((1, 1, 16), x.dtype).at[0, 0, i.ravel()].set(x.ravel())
                             .reshape(1, 1, 4, 4) ** 2), (normal(rng, 1, 1, 2, 2),), (index,)
               )  # fmt: skip


def _adaptive_pools(pk: Any, jnp: Any, rng: Any) -> Iterator[Call]:
    def pooled(x: Any, size: tuple[int, int], how: str) -> Any:
        rows, cols = (
            [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
            for n, m in zip(x.shape[2:], size, strict=True)
        )
        parts = [getattr(x[:, :, a:b, c:d], how)((2, 3)) for a, b in rows for c, d in cols]
        return jnp.stack(parts, -1).reshape(*x.shape[:2], *size) ** 2

    for size in ((1, 1), (2, 3)):
        for how, name in (("mean", "adaptive_avg_pool2d"), ("max", "adaptive_max_pool2d")):
            yield Call(name, lambda x, n=name, s=size: pk.square(getattr(pk, n)(x, s)),
                       lambda x, h=how, s=size: pooled(x, s, h), (different(rng, 1, 2, 5, 4),)
                       )  # fmt: skip


def _sizes(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    for mode, size, smooth in (("linear", (5, 7), False), ("linear", (3, 2), False),
                               ("linear", (2, 3), True), ("cubic", (2, 3), True)):  # fmt: skip
        yield Call(
            f"resize {mode}",
            lambda x, m=mode, s=size, a=smooth: pk.square(pk.resize(x, s, m, antialias=a)),
            lambda x, m=mode, s=size, a=smooth: jax.image.resize(
                x, (*x.shape[:2], *s), m, antialias=a
            ) ** 2, (normal(rng, 1, 2, 4, 5),),
        )  # fmt: skip
    yield Call("interpolate nearest",
               lambda x: pk.square(pk.interpolate(x, scale_factor=2)),
               lambda x: x.repeat(2, 2).repeat(2, 3) ** 2, (normal(rng, 1, 2, 2, 3),))  # fmt: skip
    yield Call("pixel_shuffle", lambda x: pk.square(pk.pixel_shuffle(x, 2)), lambda x:
               x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6) ** 2,
               (normal(rng, 1, 8, 2, 3),))  # fmt: skip


def _convolutions(pk: Any, jax: Any, rng: Any) -> Iterator[Call]:
    def conv(x: Any, w: Any, b: Any, **options: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, **options) + b[:, None, None]

    def transposed(x: Any, w: Any, b: Any, s: int, p: int, more: int, groups: int, d: int) -> Any:
        first, *kernel = w.shape[0], *w.shape[2:]
        w = w[..., ::-1, ::-1].reshape(groups, first // groups, -1, *kernel).swapaxes(1, 2)
        w = w.reshape(-1, first // groups, *kernel)
        ends = [(d * (k - 1) - p, d * (k - 1) - p + more) for k in kernel]
        return conv(x, w, b, window_strides=(1, 1), padding=ends, lhs_dilation=(s, s),
                    rhs_dilation=(d, d), feature_group_count=groups) ** 2  # fmt: skip

    for options in ((1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (2, 1, 0, 2, 2)):
        yield Call(
            "conv_transpose2d",
            lambda x, w, b, o=options: pk.square(pk.conv_transpose2d(x, w, b, *o)),
            lambda x, w, b, o=options: transposed(x, w, b, *o),
            (normal(rng, 1, 2, 3, 3), normal(rng, 2, 3 // options[3], 3, 2),
             normal(rng, 3 // options[3] * options[3])),
        )  # fmt: skip
    yield Call(
        "conv2d of groups and a bias",
        lambda x, w, b: pk.square(pk.conv2d(x, w, b, padding=1, dilation=2, groups=2)),
        lambda x, w, b: conv(x, w, b, window_strides=(1, 1), padding=[(1, 1)] * 2,
                             rhs_dilation=(2, 2), feature_group_count=2) ** 2,
        (normal(rng, 1, 2, 4, 5), normal(rng, 4, 1, 2, 3), normal(rng, 4)),
    )  # fmt: skip
    yield Call(
        "conv2d with a residual and silu",
        lambda x, w, b, r: pk.conv2d(x, w, b, residual=r, activation="silu"),
        lambda x, w, b, r: jax.nn.silu(
            conv(x, w, b, window_strides=(1, 1), padding=[(0, 0)] * 2) + r),
        (normal(rng, 1, 2, 3, 4), normal(rng, 2, 2, 2, 2), normal(rng, 2), normal(rng, 1, 2, 2, 3)),
    )  # fmt: skip
    yield Call(
        "conv1d", lambda x, w, b: pk.square(pk.conv1d(x, w, b, stride=2, padding=1)),
        lambda x, w, b: (jax.lax.conv_general_dilated(x, w, (2,), [(1, 1)]) + b[:, None]) ** 2,
        (normal(rng, 2, 2, 5), normal(rng, 3, 2, 3), normal(rng, 3)),
    )  # fmt: skip


def _folds(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    def columns(x: Any, p: int, s: int) -> Any:
        parts = _windows(jnp, x, 2, s, p, 1, 0)
        return parts.transpose(1, 2, 0, 3, 4).reshape(x.shape[0], 4 * x.shape[1], -1)

    def image(c: Any, p: int, s: int) -> Any:
        shape = jnp.zeros((1, 2, 4, 3), c.dtype)
        return jax.linear_transpose(lambda x: columns(x, p, s), shape)(c)[0]

    for p, s, count in ((0, 1, 6), (1, 2, 6)):
        yield Call("unfold", lambda x, p=p, s=s: pk.square(pk.unfold(x, 2, 1, p, s)),
                   lambda x, p=p, s=s: columns(x, p, s) ** 2, (normal(rng, 1, 2, 4, 3),)
                   )  # fmt: skip
        yield Call("fold", lambda c, p=p, s=s: pk.square(pk.fold(c, (4, 3), 2, 1, p, s)),
                   lambda c, p=p, s=s: image(c, p, s) ** 2, (normal(rng, 1, 8, count),)
                   )  # fmt: skip


def _norms(pk: Any, jnp: Any, rng: Any) -> Iterator[Call]:
    def normed(x: Any, w: Any, b: Any, mean: Any, variance: Any) -> Any:
        w, b, mean, variance = (t.reshape(-1, 1, 1) for t in (w, b, mean, variance))
        return (x - mean) / jnp.sqrt(variance + 1e-5) * w + b

    def batch(x: Any, w: Any, b: Any) -> Any:
        return normed(x, w, b, x.mean((0, 2, 3)), x.var((0, 2, 3)))

    def instance(x: Any, w: Any, b: Any) -> Any:
        mean, variance = (f((2, 3), keepdims=True) for f in (x.mean, x.var))
        n = (x - mean) / jnp.sqrt(variance + 1e-5)
        return n * w[:, None, None] + b[:, None, None]

    def local(x: Any) -> Any:
        around = jnp.pad(x * x, ((0, 0), (1, 1), (0, 0)))
        total = around[:, :-2] + around[:, 1:-1] + around[:, 2:]
        return x / (1.5 + 0.3 * total / 3) ** 0.75

    given = normal(rng, 2, 3, 2, 2), points(rng, 0.5, 2, 3), normal(rng, 3)
    running = normal(rng, 3), points(rng, 0.5, 2, 3)
    yield Call("batch_norm in training",
               lambda x, w, b: pk.batch_norm(x, None, None, w, b, training=True), batch, given
               )  # fmt: skip
    yield Call("batch_norm", lambda x, w, b, m, v: pk.batch_norm(x, m, v, w, b), normed,
               (*given, *running))  # fmt: skip
    yield Call("instance_norm", lambda x, w, b: pk.instance_norm(x, weight=w, bias=b), instance,
               given)  # fmt: skip
    yield Call("local_response_norm", lambda x: pk.local_response_norm(x, 3, 0.3, 0.75, 1.5), local,
               (normal(rng, 2, 4, 3),))  # fmt: skip
