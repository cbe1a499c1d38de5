"""Calls of norms that are compared with torch's, three and more of each: (name, ours, torch's,
inputs), the inputs being those whose gradients are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Call = tuple[str, Callable[..., Any], Callable[..., Any], tuple[Array, ...]]


def calls(pk: Any, torch: Any) -> Iterator[Call]:
    """All cases; where one of the modules is None, its functions are not called."""
    rng = np.random.default_rng(0)
    f = None if torch is None else torch.nn.functional

    def normal(*shape: int, about: float = 0.0) -> Array:
        return (rng.normal(0, 1, shape) + about).astype(np.float32)

    for shape, last, about in (((5, 7), 7, 0.0), ((3, 4, 6), (4, 6), 2.0), ((2, 130), 130, 9.0)):
        size = shape[-len(last) :] if isinstance(last, tuple) else (last,)
        x, w, b = normal(*shape, about=about), normal(*size), normal(*size)
        yield ("layer_norm", lambda x, w, b, s=last: pk.layer_norm(x, s, w, b),
               lambda x, w, b, s=size: f.layer_norm(x, s, w, b), (x, w, b))  # fmt: skip
        yield ("rms_norm", lambda x, w, s=last: pk.rms_norm(x, s, w),
               lambda x, w, s=size: f.rms_norm(x, s, w, 2.0**-23), (x, w))  # fmt: skip
        yield ("add_layer_norm", lambda x, r, w, s=last: _both(pk.add_layer_norm(x, r, s, w)),
               lambda x, r, w, s=size: _both((f.layer_norm(x + r, s, w), x + r)),
               (x, normal(*shape), w))  # fmt: skip
        yield ("add_rms_norm", lambda x, r, w, s=last: _both(pk.add_rms_norm(x, r, s, w)),
               lambda x, r, w, s=size: _both((f.rms_norm(x + r, s, w, 2.0**-23), x + r)),
               (x, normal(*shape), w))  # fmt: skip
    for axis, eps in ((-1, 1e-12), (0, 1e-12), (1, 2.5)):
        yield ("l2_norm", lambda x, a=axis, e=eps: pk.l2_norm(x, axis=a, eps=e),
               lambda x, a=axis, e=eps: f.normalize(x, dim=a, eps=e), (normal(4, 6),)
               )  # fmt: skip
    for shape, groups in (((2, 6, 4, 3), 3), ((3, 4, 8), 1), ((2, 4, 5, 5), 4)):
        x, w, b = normal(*shape, about=1.0), normal(shape[1]), normal(shape[1])
        yield ("group_norm", lambda x, w, b, g=groups: pk.group_norm(x, g, w, b),
               lambda x, w, b, g=groups: f.group_norm(x, g, w, b), (x, w, b))  # fmt: skip
        yield ("instance_norm", lambda x, w, b: pk.instance_norm(x, None, None, w, b),
               lambda x, w, b: f.instance_norm(x, None, None, w, b), (x, w, b))  # fmt: skip
    for shape in ((4, 3, 2, 5), (7, 4), (3, 2, 6)):
        x, w, b = normal(*shape, about=-1.0), normal(shape[1]), normal(shape[1])
        mean, variance = normal(shape[1]), np.abs(normal(shape[1])) + np.float32(0.5)
        yield ("batch_norm", lambda x, m, v, w, b: pk.batch_norm(x, m, v, w, b),
               lambda x, m, v, w, b: _known(x, m, v, w, b), (x, mean, variance, w, b)
               )  # fmt: skip
        yield ("batch_norm_training",
               lambda x, w, b: pk.batch_norm(x, None, None, w, b, training=True),
               lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True), (x, w, b)
               )  # fmt: skip


def _both(found: tuple[Any, Any]) -> Any:
    """Something of both results."""
    return found[0] + found[1] * 0.5


def _known(x: Any, mean: Any, variance: Any, w: Any, b: Any) -> Any:
    """batch_norm of torch, which gives statistics no gradient, written out."""
    shape = (-1, *[1] * (x.ndim - 2))
    factor = w / (variance + 1e-5).sqrt()
    return (x - mean.reshape(shape)) * factor.reshape(shape) + b.reshape(shape)
