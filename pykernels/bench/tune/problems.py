"""The problems that `pykernels tune` measures, and random problems that it did not measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pykernels.bench.case import Case
from pykernels.bench.cases import problem

__all__ = ["Limits", "Problem", "others", "problems"]


@dataclass(frozen=True)
class Problem:
    """A call of one kernel; `shape` has the form of `pykernels bench --shape`. `args` are further
    arguments of the kernel."""

    kernel: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    args: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def case(self) -> Case:
        out = "" if self.dtype == "float32" else f":{self.dtype}"
        return problem(self.kernel, self.shape, f"{self.dtype}{out}", **dict(self.args))

    @property
    def name(self) -> str:
        more = "".join(f" {name}={value}" for name, value in self.args)
        return f"{self.kernel} {'x'.join(map(str, self.shape))} {self.dtype}{more}"

    @property
    def operations(self) -> int:
        """The number of operations; a multiply-add counts as two."""
        s = self.shape
        if self.kernel.startswith("mul_mat"):
            return 2 * math.prod(s)
        if self.kernel.startswith("flash_attn"):
            products = 5 if self.kernel == "flash_attn_backward" else 2
            return 2 * products * math.prod((s[0], s[1], s[3], s[4], s[5]))
        if not self.kernel.startswith("conv2d") or len(s) < 9:
            return 8 * math.prod(s)  # problems of sums, gradients of norms, and copies
        n, c, h, w, o, kh, kw, stride, _ = s
        return 2 * n * c * h * w * o * kh * kw // stride**2

    def smaller(self, operations: float) -> Problem:
        """This problem with shorter axes: at most this number of operations, if that is possible.

        The first axes of `_CUTS` are made shorter first, so that the others, on which a body's
        limits depend, stay as they are. A shorter axis above 16 becomes a multiple of 16.
        """
        found = self
        for axis in _CUTS.get(self.kernel, (0, 1)):
            over = found.operations / operations
            if over <= 1:
                break
            shape = [*found.shape]
            axis %= len(shape)
            size = max(int(shape[axis] / over), 1)
            shape[axis] = size - size % 16 if size > 16 else size
            found = replace(found, shape=tuple(shape))
        return found

    @property
    def nbytes(self) -> int:
        return sum(o.nbytes for o in self.case.tensors.values())


# The axes of a problem that may be cut, in this order. Other kernels cut rows and columns.
_CUTS = {
    **dict.fromkeys(("mul_mat", "mul_mat_i8", "mul_mat_quant"), (-2, -3, 0)),
    "conv2d": (0, 2, 4, 3, 1), "conv2d_backward_weight": (4, 1, 0, 2, 3),
    "conv2d_backward_bias": (0, 2, 3, 1),
    **dict.fromkeys(("flash_attn", "flash_attn_backward"), (0, 3, 4)),
}  # fmt: skip
# Products: rows x columns x k; a number in front is a batch.
_PRODUCTS = (
    (1, 4096, 4096), (2, 2048, 2048), (4, 1024, 4096), (8, 4096, 1024), (8, 256, 256),
    (16, 4096, 4096), (32, 1024, 1024), (64, 4096, 1024), (50000, 3, 768), (64, 64, 64),
    (128, 128, 128), (128, 2048, 2048), (256, 256, 256), (256, 1024, 4096), (48, 48, 8192),
    (512, 512, 512), (1000, 1000, 1000), (1024, 1024, 1024), (2048, 2048, 2048),
    (4096, 4096, 4096), (64, 128, 128, 64), (1000, 16, 16, 16),
    # Products with sizes at the borders between gemv and tiles, and between small tiles and large
    # tiles in splits.
    (2, 640, 768), (5, 512, 512), (768, 7, 48), (4, 1000, 700), (24, 3800, 1700), (48, 300, 3000),
    (12, 700, 4000), (2048, 16, 2048), (20, 300, 700), (1600, 24, 1500), (32, 200, 2000),
)  # fmt: skip
# Products of bytes, with the same dims.
_BYTES = ((1, 4096, 4096), (8, 1024, 2048), (16, 2048, 2048), (128, 512, 1024), (512, 512, 512),
          (256, 2048, 1024))  # fmt: skip
# Products with quantised weights (columns x k), with the same dims.
_QUANTISED = (
    (1, 4096, 4096), (4, 4096, 4096), (8, 2048, 2048), (16, 4096, 4096), (32, 4096, 2048),
    (64, 2048, 4096), (128, 4096, 4096), (256, 2048, 2048), (512, 4096, 4096),
)  # fmt: skip
# Convolutions: images x channels x height x width x outputs x kernel, kernel x stride x padding.
_LAYERS = (
    (8, 64, 56, 56, 64, 3, 3, 1, 1), (8, 256, 14, 14, 256, 3, 3, 1, 1),
    (8, 512, 7, 7, 512, 3, 3, 1, 1), (1, 64, 56, 56, 64, 3, 3, 1, 1),
    (1, 320, 64, 64, 320, 3, 3, 1, 1), (8, 256, 56, 56, 64, 1, 1, 1, 0),
    (8, 1024, 14, 14, 256, 1, 1, 1, 0), (1, 512, 14, 14, 512, 1, 1, 1, 0),
    (8, 3, 224, 224, 64, 7, 7, 2, 3), (1, 16, 112, 112, 32, 3, 3, 2, 1),
    (8, 128, 28, 28, 128, 3, 3, 2, 1), (2, 40, 33, 35, 24, 5, 5, 1, 2),
    (4, 32, 128, 128, 3, 3, 3, 1, 1), (2, 24, 64, 64, 4, 3, 3, 2, 1),
    (4, 400, 10, 10, 8, 1, 1, 1, 0),
)  # fmt: skip
_GRADIENTS = (
    (8, 64, 56, 56, 64, 3, 3, 1, 1), (8, 256, 14, 14, 256, 3, 3, 1, 1),
    (1, 64, 28, 28, 64, 1, 1, 1, 0),
)  # fmt: skip
# Attention: batch x heads x KV heads x queries x keys x head size.
_ATTENTION = (
    (1, 32, 8, 1, 4096, 128), (8, 16, 16, 1, 1024, 64), (1, 12, 12, 16, 1024, 64),
    (1, 16, 16, 128, 128, 64), (8, 12, 12, 256, 256, 64), (1, 32, 32, 1024, 1024, 128),
    (8, 16, 16, 1024, 1024, 64), (1, 8, 8, 4096, 4096, 64), (2, 8, 8, 4096, 77, 40),
    # Attention with sizes at the border between few queries and tiles.
    (2, 12, 12, 32, 512, 64), (4, 8, 8, 32, 64, 64), (2, 12, 12, 6, 800, 64),
    (4, 16, 16, 8, 2000, 40), (1, 12, 12, 24, 1200, 128), (1, 4, 4, 48, 2000, 64),
)  # fmt: skip
# Sizes for software drivers, where the sizes above take minutes.
_SMALL = (
    *(Problem("mul_mat", s) for s in (
        (1, 256, 256), (2, 512, 128), (4, 256, 256), (8, 64, 64), (8, 256, 256), (16, 64, 512),
        (64, 64, 64), (128, 128, 128), (33, 65, 127), (192, 192, 192), (8, 64, 64, 32),
    )),
    *(Problem("mul_mat_i8", s) for s in ((1, 256, 256), (16, 64, 512), (128, 128, 128))),
    *(Problem("mul_mat_quant", s) for s in ((1, 256, 256), (16, 64, 512), (128, 128, 128))),
    *(Problem("conv2d", s) for s in (
        (1, 16, 14, 14, 16, 3, 3, 1, 1), (2, 8, 28, 28, 16, 1, 1, 1, 0),
        (1, 3, 32, 32, 16, 3, 3, 2, 1), (1, 32, 14, 14, 32, 3, 3, 1, 1),
    )),
    Problem("conv2d_backward_weight", (1, 16, 14, 14, 16, 3, 3, 1, 1)),
    *(Problem("flash_attn", s) for s in (
        (1, 4, 4, 1, 256, 64), (1, 2, 2, 16, 128, 64), (1, 2, 2, 128, 128, 64),
    )),
)  # fmt: skip
# Products of halves run another body on matrix units, so they are measured in addition to f32.
_HALVES = {
    "mul_mat": [s for s in _PRODUCTS if min(s) > 64],
    "mul_mat_quant": _QUANTISED,
    "conv2d": _LAYERS[:8],
    "flash_attn": _ATTENTION[3:],
}


def problems(small: bool = False, halves: bool = False) -> list[Problem]:
    """The measured problems. With `halves`, products on matrix units are included."""
    if small:
        return [*_SMALL]
    found = [Problem("mul_mat", s) for s in _PRODUCTS]
    found += [Problem("mul_mat_i8", s) for s in _BYTES]
    found += [Problem("mul_mat_quant", s) for s in _QUANTISED]
    found += [Problem("conv2d", s) for s in _LAYERS]
    found += [Problem("conv2d_backward_weight", s) for s in _GRADIENTS]
    found += [Problem("flash_attn", s) for s in _ATTENTION]
    if halves:
        found += [Problem(k, s, "float16") for k, shapes in _HALVES.items() for s in shapes]
    return found


def _log_size(rng: np.random.Generator, least: int, most: int) -> int:
    """A random size whose logarithm is uniform; half of the sizes are multiples of 16."""
    size = round(math.exp(rng.uniform(math.log(least), math.log(most))))
    return -(-size // 16) * 16 if size > 16 and rng.random() < 0.5 else size


def _product(rng: np.random.Generator, most: int) -> tuple[int, ...]:
    sides = (_log_size(rng, 1, most), _log_size(rng, 16, most))
    return (*(sides if rng.random() < 0.8 else sides[::-1]), _log_size(rng, 16, most))


def _layer(rng: np.random.Generator, most: int) -> tuple[int, ...]:
    side, kernel = _log_size(rng, 7, min(most, 128)), int(rng.choice([1, 3, 3, 5]))
    sizes = (_log_size(rng, 3, min(most, 512)), _log_size(rng, 8, min(most, 512)))
    batch, stride = int(rng.choice([1, 1, 2, 4, 8])), int(rng.choice([1, 1, 2]))
    return (batch, sizes[0], side, side, sizes[1], kernel, kernel, stride, kernel // 2)


def _attended(rng: np.random.Generator, most: int) -> tuple[int, ...]:
    heads = int(rng.choice([4, 8, 12, 16]))
    queries = 1 if rng.random() < 0.3 else _log_size(rng, 2, most // 2)
    depth = int(rng.choice([40, 64, 64, 80, 128]))
    return (int(rng.choice([1, 2, 4])), heads, heads, queries, _log_size(rng, 16, most), depth)


_MAKERS: tuple[tuple[str, Callable[[np.random.Generator, int], tuple[int, ...]]], ...] = (
    ("mul_mat", _product), ("conv2d", _layer), ("mul_mat", _product), ("flash_attn", _attended),
    ("mul_mat_quant", _product),
)  # fmt: skip


class Limits(NamedTuple):
    """The limits of a problem on a device."""

    operations: float
    nbytes: float

    def allow(self, p: Problem) -> bool:
        return p.operations <= self.operations and p.nbytes <= self.nbytes


def others(count: int, limits: Limits, *, seed: int = 0, small: bool = False) -> Iterator[Problem]:
    """`count` random problems that are not in `problems`; a seed always gives the same problems."""
    known: set[Any] = {*problems(), *problems(small=True)}
    rng = np.random.default_rng(seed)
    for tried in range(200 * count):
        kernel, make = _MAKERS[tried % len(_MAKERS)]
        p = Problem(kernel, make(rng, 256 if small else 4096))
        if p not in known and limits.allow(p):
            known.add(p)
            yield p
            count -= 1
            if not count:
                return
