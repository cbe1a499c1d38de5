"""Calls whose values and derivatives are compared with JAX's float64 ones.

A case is (name, ours, JAX's, inputs, others): both take the inputs, by which they are derived, then
the others. `make_functions.py` keeps JAX's values. What JAX lacks is written by torch's definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.gradients.jax import images, layers, nested
from tests.gradients.jax.call import Array, Call, named, normal, points

# Rows by JAX's names, where another: derived three times.
ROWS = {
    "neg": "negative", "square": "", "reciprocal": "", "exp": "", "exp2": "", "expm1": "",
    "sin": "", "cos": "", "tan": "", "atan": "arctan", "sinh": "", "cosh": "", "tanh": "",
    "asinh": "arcsinh",
    "erf": "scipy.special.erf", "sigmoid": "nn.sigmoid", "silu": "nn.silu",
    "gelu_tanh": "nn.gelu", "logsigmoid": "nn.log_sigmoid", "mish": "nn.mish", "elu": "nn.elu",
    "celu": "nn.celu", "selu": "nn.selu", "softplus": "nn.softplus", "softsign": "nn.soft_sign",
    "relu": "nn.relu", "hardswish": "nn.hard_swish", "leaky_relu": "nn.leaky_relu",
}  # fmt: skip
POSITIVE = {"sqrt": "", "rsqrt": "lax.rsqrt", "log": "", "log2": "", "log10": "", "log1p": ""}
SMALL = {"asin": "arcsin", "acos": "arccos", "atanh": "arctanh"}
TWO = {"add": "", "sub": "subtract", "mul": "multiply", "div": "divide", "atan2": "arctan2",
       "pow": "power", "logaddexp": "", "minimum": "", "maximum": ""}  # fmt: skip


def calls(pk: Any, jax: Any) -> Iterator[Call]:
    """All cases; where one of the modules is None, its functions are not called."""
    rng = np.random.default_rng(0)
    jnp = None if jax is None else jax.numpy
    yield from _rows(pk, jax, rng)
    yield from _gated(pk, jax, rng)
    yield from _losses(pk, jnp, jax, rng)
    yield from _reduced(pk, jnp, jax, rng)
    yield from _moved(pk, jnp, rng)
    yield from _products(pk, jnp, jax, rng)
    yield from _images(pk, jnp, jax, rng)
    yield from _sequences(pk, jnp, jax, rng)
    # New numbers, so that those above stay.
    rng = np.random.default_rng(1)
    yield from images.calls(pk, jnp, jax, rng)
    yield from layers.calls(pk, jnp, jax, rng)
    yield from nested.calls(pk, jnp, jax, rng)
    yield from layers.factors(pk, jnp, jax, np.random.default_rng(2))


def _rows(pk: Any, jax: Any, rng: Any) -> Iterator[Call]:
    for names, low, high in ((ROWS, -2.5, 2.5), (POSITIVE, 0.3, 6.0), (SMALL, -0.8, 0.8)):
        for name, other in names.items():
            x = points(rng, low, high, 5)
            x = x + np.sign(x).astype("f4") * np.float32(0.3) if name == "reciprocal" else x
            yield Call(name, lambda t, n=name: getattr(pk, n)(t),
                       lambda t, n=other or name: named(jax, n)(t), (x,), order=3)  # fmt: skip
    gelu = "nn.gelu"
    yield Call("gelu", lambda t: pk.gelu(t), lambda t: named(jax, gelu)(t, approximate=False),
               (points(rng, -2, 2, 5),), order=3)  # fmt: skip
    for name, other in TWO.items():
        a, b = points(rng, 0.5, 3, 2, 3), points(rng, 0.6, 2.5, 3)
        yield Call(name, lambda s, t, n=name: getattr(pk, n)(s, t),
                   lambda s, t, n=other or name: named(jax, n)(s, t), (a, b), order=3)  # fmt: skip


def _gated(pk: Any, jax: Any, rng: Any) -> Iterator[Call]:
    x = normal(rng, 2, 6)
    yield Call("glu", lambda t: pk.glu(t), lambda t: jax.nn.glu(t), (x,), order=3)
    x = normal(rng, 4, 3)
    yield Call("glu of axis 0", lambda t: pk.glu(t, 0), lambda t: jax.nn.glu(t, 0), (x,))
    half = normal(rng, 2, 3), normal(rng, 2, 3)
    yield Call("swiglu", lambda a, b: pk.swiglu(a, b), lambda a, b: a * jax.nn.silu(b), half)
    yield Call("geglu", lambda a, b: pk.geglu(a, b),
               lambda a, b: a * jax.nn.gelu(b, approximate=False), half)  # fmt: skip


def _losses(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    def reduced(loss: Any, how: str) -> Any:
        return loss if how == "none" else getattr(loss, how)()

    def bce(x: Any, t: Any, w: Any) -> Any:
        logs = [jnp.maximum(jnp.log(p), -100) for p in (x, 1 - x)]
        return -w * (t * logs[0] + (1 - t) * logs[1])

    def cosine(a: Any, b: Any, axis: int) -> Any:
        size = [jnp.maximum(jnp.sqrt((t * t).sum(axis, keepdims=True)), 1e-8) for t in (a, b)]
        return (a / size[0] * b / size[1]).sum(axis)

    for how in ("none", "mean", "sum"):
        p, t = points(rng, 0.05, 0.95, 2, 3), points(rng, 0.05, 0.95, 2, 3)
        yield Call(
            "binary_cross_entropy",
            lambda x, t, w, h=how: pk.binary_cross_entropy(x, t, w, reduction=h),
            lambda x, t, w, h=how: reduced(bce(x, t, w), h), (p, t, points(rng, 0.5, 2, 3)),
        )  # fmt: skip
    for shapes, axis in ((((2, 3), (2, 3)), 1), (((3, 2), (3, 1)), 0), (((2, 3, 2), (3, 2)), -2)):
        yield Call(
            "cosine_similarity", lambda a, b, k=axis: pk.cosine_similarity(a, b, k),
            lambda a, b, k=axis: cosine(a, b, k), tuple(normal(rng, *s) for s in shapes),
        )  # fmt: skip
    pair = normal(rng, 2, 3), normal(rng, 2, 3)
    yield Call("mse_loss", lambda a, b: pk.mse_loss(a, b), lambda a, b: ((a - b) ** 2).mean(), pair)
    yield Call("huber_loss", lambda a, b: pk.huber_loss(a, b, reduction="sum"), lambda a, b:
               jnp.where(abs(a - b) < 1, (a - b) ** 2 / 2, abs(a - b) - 0.5).sum(), pair
               )  # fmt: skip
    yield Call(
        "binary_cross_entropy_with_logits",
        lambda x, t: pk.binary_cross_entropy_with_logits(x, t),
        lambda x, t: (jax.nn.softplus(x) - x * t).mean(), (pair[0], points(rng, 0, 1, 2, 3)),
    )  # fmt: skip
    logs = np.log(points(rng, 0.1, 1, 2, 3))
    yield Call("kl_div", lambda x, t: pk.kl_div(x, t, reduction="batchmean"),
               lambda x, t: (t * (jnp.log(t) - x)).sum() / 2, (logs, points(rng, 0.1, 1, 2, 3))
               )  # fmt: skip
    classes, s = np.array([1, 3, 0], np.int32), 0.2

    def entropy(x: Any, w: Any, c: Any) -> Any:
        logs = jax.nn.log_softmax(x)
        hot = jax.nn.one_hot(c, 4, dtype=x.dtype)
        return -(((1 - s) * hot + s / 4) * w * logs).sum() / w[c].sum()

    yield Call("cross_entropy", lambda x, w, c: pk.cross_entropy(x, c, w, label_smoothing=s),
               entropy, (normal(rng, 3, 4), points(rng, 0.5, 2, 4)), (classes,))  # fmt: skip
    yield Call("nll_loss", lambda x, w, c: pk.nll_loss(x, c, w), lambda x, w, c:
               -(w[c] * x[jnp.arange(3), c]).sum() / w[c].sum(),
               (normal(rng, 3, 4), points(rng, 0.5, 2, 4)), (classes,))  # fmt: skip
    shares = points(rng, 0.1, 1, 3, 4)
    yield Call("cross_entropy of shares", lambda x, w, t: pk.cross_entropy(x, t, w),
               lambda x, w, t: -(w * t * jax.nn.log_softmax(x)).sum() / 3,
               (normal(rng, 3, 4), points(rng, 0.5, 2, 4), shares))  # fmt: skip


def _reduced(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    x = points(rng, 0.5, 2, 2, 3)
    for axis in (None, 1):
        for name in ("sum", "mean", "max", "min", "prod", "var", "std"):
            yield Call(name, lambda t, n=name, k=axis: getattr(pk, n)(t, k),
                       lambda t, n=name, k=axis: getattr(jnp, n)(t, k), (x,))  # fmt: skip
        yield Call("norm", lambda t, k=axis: pk.norm(t, k),
                   lambda t, k=axis: jnp.sqrt((t * t).sum(k)), (x,))  # fmt: skip
        yield Call("logsumexp", lambda t, k=axis: pk.logsumexp(t, k),
                   lambda t, k=axis: jax.nn.logsumexp(t, k), (x,))  # fmt: skip
    for name in ("cumsum", "cumprod", "softmax", "log_softmax", "sort"):
        home = "nn" if "soft" in name else "numpy"
        yield Call(name, lambda t, n=name: getattr(pk, n)(t, 1),
                   lambda t, n=name, h=home: getattr(getattr(jax, h), n)(t, axis=1), (x,)
                   )  # fmt: skip

    def normed(t: Any, axes: Any, eps: float = 1e-5) -> Any:
        return (t - t.mean(axes, keepdims=True)) / jnp.sqrt(t.var(axes, keepdims=True) + eps)

    row = normal(rng, 2, 4), points(rng, 0.5, 2, 4), normal(rng, 4)
    yield Call("layer_norm", lambda t, w, b: pk.layer_norm(t, 4, w, b),
               lambda t, w, b: normed(t, -1) * w + b, row)  # fmt: skip
    yield Call("rms_norm", lambda t, w: pk.rms_norm(t, 4, w, eps=1e-5), lambda t, w:
               t / jnp.sqrt((t * t).mean(-1, keepdims=True) + 1e-5) * w, row[:2])  # fmt: skip
    image = normal(rng, 2, 4, 3), points(rng, 0.5, 2, 4), normal(rng, 4)
    yield Call("group_norm", lambda t, w, b: pk.group_norm(t, 2, w, b), lambda t, w, b:
               normed(t.reshape(2, 2, 6), -1).reshape(2, 4, 3) * w[:, None] + b[:, None], image
               )  # fmt: skip


def _moved(pk: Any, jnp: Any, rng: Any) -> Iterator[Call]:
    """Moves are linear: what is not 0 in second order is by the square behind them."""
    x, index = normal(rng, 3, 4), np.array([[2, 0, 1, 2], [0, 0, 2, 1]], np.int32)

    def squared(f: Any) -> Any:
        return lambda *a: f(*a) ** 2

    cases: list[tuple[str, Any, Any, tuple[Array, ...]]] = [
        ("gather", lambda t, i: pk.gather(t, 0, i),
         lambda t, i: jnp.take_along_axis(t, i, 0), (x,)),
        ("scatter_add", lambda t, u, i: pk.scatter_add(t, 0, i, u),
         lambda t, u, i: t.at[i, jnp.arange(4)].add(u), (x, normal(rng, 2, 4))),
        ("embedding", lambda t, i: pk.embedding(t, i), lambda t, i: t[i], (x,)),
        ("pad", lambda t, i: pk.pad(t, ((0, 1), (2, 0)), mode="reflect"),
         lambda t, i: jnp.pad(t, ((0, 1), (2, 0)), mode="reflect"), (x,)),
        ("tril", lambda t, i: pk.tril(t, 1), lambda t, i: jnp.tril(t, 1), (x,)),
        ("roll", lambda t, i: pk.roll(t, 2, 1), lambda t, i: jnp.roll(t, 2, 1), (x,)),
        ("flip", lambda t, i: pk.flip(t, 1), lambda t, i: jnp.flip(t, 1), (x,)),
        ("tile", lambda t, i: pk.tile(t, (2, 1)), lambda t, i: jnp.tile(t, (2, 1)), (x,)),
        ("concatenate", lambda a, b, i: pk.concatenate([a, b], 0),
         lambda a, b, i: jnp.concatenate([a, b], 0), (x, normal(rng, 2, 4))),
        ("diagonal", lambda t, i: pk.diagonal(t), lambda t, i: jnp.diagonal(t), (x,)),
    ]  # fmt: skip
    for name, ours, theirs, inputs in cases:
        yield Call(name, squared(ours), squared(theirs), inputs, (index,))


def _products(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    yield Call("matmul", lambda a, b: pk.matmul(a, b), lambda a, b: a @ b,
               (normal(rng, 2, 2, 3), normal(rng, 3, 2)))  # fmt: skip
    three = normal(rng, 2, 3), normal(rng, 3, 2), normal(rng, 2, 3)
    for text, count in (("ij->j", 1), ("ij,jk->ki", 2), ("ij,jk,kl->il", 3), ("ij,ji,kj->", 3)):
        yield Call(f"einsum {text}", lambda *a, t=text: pk.square(pk.einsum(t, *a)),
                   lambda *a, t=text: jnp.einsum(t, *a) ** 2, three[:count])  # fmt: skip
    q, k, v, m = (normal(rng, *s) for s in ((1, 2, 3, 2), (1, 2, 4, 2), (1, 2, 4, 2), (3, 4)))

    def attend(q: Any, k: Any, v: Any, m: Any, slopes: Any = 1.0, d: Any = 1.0) -> Any:
        return (jax.nn.softmax(q @ k.swapaxes(-1, -2) / 2**0.5 + slopes * m) * d) @ v

    yield Call("scaled_dot_product_attention",
               lambda *a: pk.scaled_dot_product_attention(*a), attend, (q, k, v, m))  # fmt: skip
    slopes = np.array([2.0**-4, 2.0**-8]).reshape(2, 1, 1)
    yield Call("flash_attn with max_bias",
               lambda q, k, v, m: pk.flash_attn(q, k, v, mask=m, max_bias=8.0),
               lambda *a: attend(*a, slopes=slopes), (q, k, v, m))  # fmt: skip
    yield Call("softmax with max_bias", lambda x, m: pk.softmax(x, mask=m, max_bias=8.0),
               lambda x, m: jax.nn.softmax(x + slopes * m), (normal(rng, 2, 3, 4), m))  # fmt: skip


def _images(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    def transposed(x: Any, w: Any, b: Any, s: int, p: int, more: int, d: int) -> Any:
        left = d * (w.shape[-1] - 1) - p
        found = jax.lax.conv_general_dilated(
            x, w[:, :, ::-1].swapaxes(0, 1), (1,), [(left, left + more)], lhs_dilation=(s,),
            rhs_dilation=(d,), dimension_numbers=("NCH", "OIH", "NCH"),
        )  # fmt: skip
        return (found + b[:, None]) ** 2

    for s, p, more, d in ((1, 0, 0, 1), (2, 1, 1, 1), (2, 1, 0, 2)):
        yield Call(
            "conv_transpose1d",
            lambda x, w, b, o=(s, p, more, 1, d): pk.square(pk.conv_transpose1d(x, w, b, *o)),
            lambda x, w, b, o=(s, p, more, d): transposed(x, w, b, *o),
            (normal(rng, 2, 2, 4), normal(rng, 2, 3, 3), normal(rng, 3)),
        )  # fmt: skip
    yield Call(
        "conv2d", lambda x, w: pk.square(pk.conv2d(x, w, padding=1, stride=2)),
        lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 2), [(1, 1), (1, 1)]) ** 2,
        (normal(rng, 1, 2, 4, 3), normal(rng, 2, 2, 3, 3)),
    )  # fmt: skip
    grid = points(rng, -1.6, 1.6, 1, 2, 3, 2)
    for padding in ("zeros", "border", "reflection"):
        for corners in (False, True):
            yield Call(
                f"grid_sample {padding} {corners}",
                lambda x, g, p=padding, c=corners: pk.grid_sample(x, g, "bilinear", p, c) ** 2,
                lambda x, g, p=padding, c=corners: _sampled(jnp, x, g, p, c) ** 2,
                (normal(rng, 1, 2, 3, 4), grid),
            )  # fmt: skip


def _sampled(jnp: Any, x: Any, grid: Any, padding: str, corners: bool) -> Any:
    """grid_sample, bilinear, as torch defines it."""

    def place(v: Any, n: int) -> Any:
        v = (v + 1) / 2 * (n - 1) if corners else ((v + 1) * n - 1) / 2
        if padding == "reflection":
            low, span = (0.0, n - 1.0) if corners else (-0.5, float(n))
            v = abs(v - low)
            times = jnp.floor(v / span)
            rest = v - span * times
            v = jnp.where(times % 2 == 0, rest + low, span - rest + low)
        return v if padding == "zeros" else jnp.clip(v, 0, n - 1)

    height, width = x.shape[2:]
    across, down = place(grid[0, ..., 0], width), place(grid[0, ..., 1], height)
    total = 0
    for i in (0, 1):
        for j in (0, 1):
            col, row = jnp.floor(across) + i, jnp.floor(down) + j
            share = (1 - abs(across - col)) * (1 - abs(down - row))
            seen = (col >= 0) & (col < width) & (row >= 0) & (row < height)
            at = [jnp.clip(a, 0, n - 1).astype(int) for a, n in ((row, height), (col, width))]
            total = total + jnp.where(seen, share, 0) * x[:, :, at[0], at[1]]
    return total


def _sequences(pk: Any, jnp: Any, jax: Any, rng: Any) -> Iterator[Call]:
    targets = np.array([[1, 2, 1], [1, 1, 0], [2, 0, 0]], np.int32)
    lengths, theirs = np.array([5, 4, 3], np.int32), np.array([3, 2, 0], np.int32)

    def loss(x: Any, how: str) -> Any:
        logs = jax.nn.log_softmax(x)
        each = []
        for n, (length, count) in enumerate(zip(lengths, theirs, strict=True)):
            states = np.zeros(2 * count + 1, int)
            states[1::2] = targets[n, :count]
            alpha = [logs[0, n, states[0]], *([logs[0, n, states[1]]] if count else [])]
            alpha += [None] * (len(states) - len(alpha))
            for t in range(1, length):
                before, alpha = alpha, []
                for k, state in enumerate(states):
                    skips = k > 1 and state not in (0, states[k - 2])
                    ways = [before[i] for i in (k, k - 1, *([k - 2] if skips else [])) if i >= 0]
                    known = [w for w in ways if w is not None]
                    found = jax.nn.logsumexp(jnp.stack(known)) if known else None
                    alpha.append(None if found is None else found + logs[t, n, state])
            ends = [a for a in alpha[-2:] if a is not None]
            each.append(-jax.nn.logsumexp(jnp.stack(ends)))
        losses = jnp.stack(each)
        if how == "mean":
            return (losses / np.maximum(theirs, 1)).mean()
        return losses if how == "none" else losses.sum()

    for how in ("none", "mean", "sum"):
        yield Call(
            "ctc_loss",
            lambda x, h=how: pk.ctc_loss(pk.log_softmax(x), targets, lengths, theirs, reduction=h),
            lambda x, h=how: loss(x, h), (normal(rng, 5, 3, 3),),
        )  # fmt: skip
