"""The cases of ci/demo.py: one case for each family, and numpy code for cases for which the
benchmarks have none."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykernels.bench.case import Case
from pykernels.bench.peers import numpy_peer
from pykernels.bench.run import Peer
from pykernels.reference import quant as reference

__all__ = ["NUMPY", "TIMED"]

Arrays = dict[str, np.ndarray[Any, Any]]
MILLION = (1 << 20,)
# For each family, a kernel, its shape on a software driver, and its shape on a GPU.
TIMED: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "attention": ("flash_attn", (1, 4, 4, 128, 128, 64), (1, 32, 32, 1024, 1024, 64)),
    "conv": ("conv2d", (1, 16, 56, 56, 16, 3, 3, 1, 1, 1), (16, 64, 56, 56, 64, 3, 3, 1, 1, 1)),
    "copy": ("cpy", MILLION, (1 << 24,)),
    "elementwise": ("exp", MILLION, (1 << 24,)),
    "fft": ("fft", (256, 1024), (16384, 1024)),
    "fill": ("fill", MILLION, (1 << 24,)),
    "linalg": ("solve_tri", (16, 64, 64), (1024, 64, 64)),
    "loss": ("cross_entropy", (256, 1024), (4096, 4096)),
    "matmul": ("mul_mat", (256, 256, 256), (2048, 2048, 2048)),
    "move": ("gather", (512, 1024), (4096, 4096)),
    "norm": ("layer_norm", (1024, 1024), (4096, 4096)),
    "optim": ("adamw_step", MILLION, (1 << 24,)),
    "pool": ("max_pool2d", (1, 16, 112, 112), (16, 64, 112, 112)),
    "quant": ("dequantize", (1024, 1024), (4096, 4096)),
    "random": ("randn", MILLION, (1 << 24,)),
    "recurrent": ("linear_recurrence", (1, 64, 4, 16, 16), (1, 1024, 32, 64, 64)),
    "reduce": ("sum", (1024, 1024), (4096, 4096)),
    "resize": ("resize", (1, 3, 256, 256), (8, 64, 128, 128)),
    "rope": ("rope", (1, 8, 256, 64), (1, 32, 4096, 128)),
    "rows": ("get_rows", (4096, 128), (131072, 128)),
    "scan": ("cumsum", (1024, 1024), (4096, 4096)),
    "softmax": ("softmax", (1024, 1024), (4096, 4096)),
    "sort": ("sort", (1, 1 << 16), (1, 1 << 22)),
    "sparse": ("csr_matmul", (1024, 1024, 16), (65536, 65536, 64)),
}


@numpy_peer
def conv2d(case: Case, t: Arrays) -> object:
    """conv2d as a product of a view of all windows and the weights, for one group and a stride of
    one."""
    pad = (t["w"].shape[-1] - 1) // 2
    x = np.pad(t["x"], ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, t["w"].shape[-2:], axis=(2, 3))
    return np.tensordot(windows, t["w"], ((1, 4, 5), (1, 2, 3)))


@numpy_peer
def linear_recurrence(case: Case, t: Arrays) -> object:
    state, rows = t["state"], []
    for i in range(t["q"].shape[1]):
        a, b = t["pair"][:, i, :, 0], t["pair"][:, i, :, 1]
        read = np.einsum("bhk,bhkv->bhv", a, state)
        state = t["decay"][:, i, :, :, None] * state + b[..., None] * read[:, :, None]
        state = state + t["k"][:, i, :, :, None] * t["v"][:, i, :, None]
        rows.append(np.einsum("bhk,bhkv->bhv", t["q"][:, i], state))
    return np.stack(rows, 1), state


@numpy_peer
def solve_tri(case: Case, t: Arrays) -> object:
    return np.linalg.solve(np.tril(t["a"]), t["b"])


@numpy_peer
def max_pool2d(case: Case, t: Arrays) -> object:
    """The maximum over windows of 3 x 3, with a stride of two."""
    x = np.pad(t["x"], ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return windows[:, :, ::2, ::2].max((-1, -2))


@numpy_peer
def randn(case: Case, t: Arrays) -> object:
    return np.random.default_rng(1).standard_normal(case.output.shape, np.float32)


@numpy_peer
def dequantize(case: Case, t: Arrays) -> object:
    planes = {n: a for n, a in t.items() if n != "dst"}
    return reference.dequantize(**planes, **case.args, shape=case.output.shape, dtype="f4")


NUMPY: dict[str, dict[str, Peer]] = {
    "conv2d": {"numpy": conv2d},
    "dequantize": {"numpy": dequantize},
    "linear_recurrence": {"numpy": linear_recurrence},
    "max_pool2d": {"numpy": max_pool2d},
    "randn": {"numpy": randn},
    "solve_tri": {"numpy": solve_tri},
}
