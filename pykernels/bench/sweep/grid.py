"""The grid of a sweep: which functions are called, and at which sizes, family by family.

`calls.FUNCTIONS` describes the numbers of a size. Every family except "order" has calls in float32
and in float16. Sizes go from one element to the largest that fit on a large GPU, and some are odd.
The ratios of two sweeps can be compared only if the grid is the same, so tests/bench/test_sweep.py
pins it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

__all__ = ["FAMILIES", "Call", "calls"]

Dims = tuple[int, ...]
Rows = list[tuple[str, Dims]]  # function, size


@dataclass(frozen=True)
class Call:
    """A call of a sweep: `function` names one of calls.FUNCTIONS, `dims` is its size."""

    family: str
    function: str
    dims: Dims
    dtype: str

    @property
    def id(self) -> str:
        short = {"float32": "f32", "float16": "f16"}[self.dtype]
        return f"{short}-{'x'.join(map(str, self.dims))}"


def _each(functions: str, sizes: Sequence[Dims]) -> Rows:
    return [(f, dims) for f in functions.split() for dims in sizes]


# rows x K x N: GPT-2, Llama 3 8B, an output over a vocabulary
WEIGHTS = [
    (768, 768), (768, 3072), (4096, 4096), (4096, 14336), (14336, 4096), (768, 50257),
]  # fmt: skip
LINEAR = [(2**i, *w) for w, i in product(WEIGHTS, range(11))]
LINEAR += [(1, 1, 1), (37, 64, 100003), (77, 1025, 1023)]
SQUARE = [
    100, 127, 128, 200, 256, 300, 384, 500, 512, 640, 768, 1000, 1024, 1500, 2048, 3000, 4096,
]  # fmt: skip
# batch x M x N x K
BATCHED: list[Dims] = [
    (1, 1, 1, 1), (4096, 8, 8, 8), (10000, 16, 16, 16), (1000, 32, 32, 32), (100, 100, 100, 100),
    (16, 333, 65, 127), (32, 77, 77, 64), (384, 128, 128, 64), (64, 256, 256, 64),
    (12, 512, 64, 512), (12, 512, 512, 64), (8, 1024, 1024, 64), (2, 2048, 2048, 128),
]  # fmt: skip
# C x H x W x outputs x kernel x stride x padding
RESNET_50: list[Dims] = [
    (3, 224, 224, 64, 7, 2, 3), (64, 56, 56, 64, 1, 1, 0), (64, 56, 56, 64, 3, 1, 1),
    (64, 56, 56, 256, 1, 1, 0), (256, 56, 56, 64, 1, 1, 0), (256, 56, 56, 128, 1, 1, 0),
    (128, 56, 56, 128, 3, 2, 1), (128, 28, 28, 512, 1, 1, 0), (512, 28, 28, 128, 1, 1, 0),
    (128, 28, 28, 128, 3, 1, 1), (256, 56, 56, 512, 1, 2, 0), (512, 28, 28, 256, 1, 1, 0),
    (256, 28, 28, 256, 3, 2, 1), (256, 14, 14, 1024, 1, 1, 0), (1024, 14, 14, 256, 1, 1, 0),
    (256, 14, 14, 256, 3, 1, 1), (512, 28, 28, 1024, 1, 2, 0), (1024, 14, 14, 512, 1, 1, 0),
    (512, 14, 14, 512, 3, 2, 1), (512, 7, 7, 2048, 1, 1, 0), (2048, 7, 7, 512, 1, 1, 0),
    (512, 7, 7, 512, 3, 1, 1), (1024, 14, 14, 2048, 1, 2, 0),
]  # fmt: skip
# N (the batch) x the numbers above: ResNet-50's layers, then layers of Stable Diffusion's U-Net and
# of AlexNet, few channels, few outputs, odd sizes
CONV: list[Dims] = [(n, *layer) for n, layer in product((1, 8, 32), RESNET_50)] + [
    (1, 320, 64, 64, 320, 3, 1, 1), (1, 640, 32, 32, 640, 3, 1, 1),
    (1, 1280, 16, 16, 1280, 3, 1, 1), (1, 320, 64, 64, 320, 3, 2, 1),
    (1, 512, 128, 128, 512, 3, 1, 1), (4, 64, 128, 128, 64, 3, 1, 1),
    (4, 128, 128, 128, 3, 3, 1, 1), (32, 128, 256, 256, 3, 3, 1, 1), (1, 3, 512, 512, 32, 3, 1, 1),
    (1, 64, 1024, 1024, 64, 3, 1, 1), (16, 32, 112, 112, 64, 1, 1, 0),
    (2, 96, 55, 55, 256, 5, 1, 2), (8, 3, 227, 227, 96, 11, 4, 0), (1, 1, 1, 1, 1, 1, 1, 0),
    (1, 16, 31, 33, 24, 3, 1, 1), (4, 17, 61, 61, 19, 5, 1, 2), (1, 7, 101, 99, 13, 7, 2, 3),
]  # fmt: skip
# N x C x H x W x kernel x stride
DEPTHWISE: list[Dims] = [
    (8, 32, 112, 112, 3, 1), (8, 96, 112, 112, 3, 2), (8, 144, 56, 56, 3, 1),
    (8, 384, 14, 14, 3, 1), (8, 960, 7, 7, 3, 1), (8, 240, 28, 28, 5, 1), (1, 33, 57, 55, 5, 2),
]  # fmt: skip
# batch x heads x KV heads x queries x keys x head size x causal
ATTENTION: list[Dims] = [
    (1, 1, 1, 1, 1, 16, 0), (1, 12, 12, 256, 256, 64, 0), (8, 12, 12, 512, 512, 64, 0),
    (8, 16, 16, 1024, 1024, 64, 1), (1, 32, 32, 4096, 4096, 128, 1),
    (1, 32, 32, 4096, 4096, 128, 0), (1, 32, 8, 2048, 2048, 128, 1), (1, 32, 8, 1, 1000, 128, 0),
    (1, 32, 8, 1, 16384, 128, 0), (4, 32, 8, 4, 8192, 128, 0), (1, 32, 8, 64, 16384, 128, 0),
    (1, 8, 8, 4096, 4096, 40, 0), (2, 8, 8, 4096, 77, 40, 0), (2, 8, 8, 1024, 77, 80, 0),
    (2, 10, 10, 4096, 77, 64, 0), (1, 8, 1, 2048, 2048, 256, 1), (1, 8, 8, 1024, 1024, 256, 0),
    (1, 4, 4, 1024, 1024, 512, 0), (2, 6, 2, 77, 93, 40, 0), (1, 25, 25, 1023, 1023, 64, 1),
    (64, 4, 4, 49, 49, 32, 0), (1, 12, 12, 1, 512, 64, 0),
]  # fmt: skip
SOFTMAX: list[Dims] = [
    (1, 1), (8, 128), (4096, 1000), (1024, 1024), (4096, 4096), (8192, 8192), (1, 128256),
    (128, 128256), (512, 50257), (65536, 64), (100003, 33), (12288, 77),
]  # fmt: skip
# axis x sizes
REDUCED: list[Dims] = [
    (0, 1), (0, 7), (0, 1000), (0, 100000), (0, 1000003), (0, 1 << 24), (0, 1 << 28),
    (1, 4096, 768), (0, 4096, 4096), (1, 4096, 4096), (0, 100000, 32), (1, 100000, 32),
    (1, 32, 100003), (1, 65536, 1024), (0, 1023, 1025), (1, 1023, 1025), (1, 1, 128256),
    (1, 8, 64, 56, 56),
]  # fmt: skip
NORMED: list[Dims] = [
    (1, 1), (1, 768), (8, 2048), (512, 768), (4096, 768), (8192, 4096), (100000, 32), (333, 1001),
    (16384, 8192),
]  # fmt: skip
ELEMENTS: list[Dims] = [
    (1,), (1000,), (1 << 16,), (1000003,), (1 << 22,), (1 << 25,), (1 << 28,),
]  # fmt: skip
# order of the axes, then their sizes
PERMUTED: list[Dims] = [
    (1, 0, 1, 1), (1, 0, 1024, 1024), (1, 0, 4096, 4096), (1, 0, 4095, 4097), (1, 0, 100003, 33),
    (0, 2, 1, 4096, 16, 4096), (0, 2, 1, 3, 8, 12, 512, 64), (0, 2, 1, 3, 8, 512, 12, 64),
    (0, 2, 3, 1, 32, 3, 224, 224), (0, 3, 1, 2, 32, 224, 224, 3), (0, 2, 3, 1, 16, 256, 56, 56),
    (3, 2, 1, 0, 64, 64, 64, 64),
]  # fmt: skip
IMAGES: Rows = [
    *_each("max_pool2d", [(1, 1, 2, 2, 2, 2, 0), (16, 64, 112, 112, 3, 2, 1),
                          (8, 512, 14, 14, 2, 2, 0), (32, 33, 57, 55, 3, 2, 1)]),
    *_each("avg_pool2d", [(8, 2048, 7, 7, 7, 7, 0), (16, 64, 56, 56, 2, 2, 0),
                          (4, 33, 57, 55, 3, 1, 1)]),
    *_each("resize", [(1, 3, 512, 512, 1024, 1024), (8, 64, 56, 56, 28, 28),
                      (4, 320, 33, 31, 64, 64)]),
    *_each("pad", [(16, 64, 56, 56, 1), (1, 3, 1023, 1025, 7)]),
    *_each("concatenate", [(1, 1000, 3), (4096, 1024, 2), (33, 1025, 5)]),
    *_each("group_norm", [(8, 320, 64, 64, 32), (1, 64, 33, 31, 8)]),
]  # fmt: skip
ORDER: Rows = [
    *_each("sort", [(1,), (1000,), (10000,), (100000,), (1000003,), (16000000,), (4096, 1000),
                    (64, 50257)]),
    *_each("argsort", [(10000,), (1000003,), (1 << 24,), (4096, 1000)]),
    *_each("gather", [(1, 1, 1), (1000, 100, 10), (10000, 64, 64), (1000003, 8, 1),
                      (4096, 4096, 4096), (512, 50257, 1), (33, 1025, 77)]),
    *_each("embedding", [(50257, 768, 512), (128256, 4096, 64), (1000, 64, 100003)]),
    *_each("scatter_add", [(1, 1), (10000, 10000), (10000, 10), (1000000, 1000000),
                           (1000000, 100), (1 << 24, 1000003), (100003, 1)]),
    *_each("nonzero", [(1,), (10000,), (1000003,), (1 << 24,), (4096, 4096), (1023, 1025)]),
    *_each("bincount", [(1, 1), (10000, 100), (1000003, 1000), (1 << 24, 256), (1000003, 1),
                        (1000003, 1000003)]),
    *_each("top_k", [(1, 1, 1), (1, 1000, 5), (1, 50257, 50), (64, 50257, 50), (4096, 1000, 5),
                     (1, 1000003, 100), (1024, 1025, 8), (32, 128256, 40), (8, 1 << 20, 1)]),
]  # fmt: skip

FAMILIES: dict[str, Rows] = {
    "linear": _each("linear", LINEAR),
    "square": [("matmul", (1, n, n, n)) for n in SQUARE],
    "batched": _each("matmul", BATCHED),
    "conv": _each("conv2d", CONV),
    "depthwise": _each("depthwise", DEPTHWISE),
    "attention": _each("attention", ATTENTION),
    "softmax": _each("softmax log_softmax", SOFTMAX),
    "reduce": _each("sum max argmax cumsum", REDUCED),
    "norm": _each("layer_norm rms_norm", NORMED),
    "elementwise": _each("add mul gelu exp", ELEMENTS),
    "permute": _each("permute", PERMUTED),
    "image": IMAGES,
    "order": ORDER,
}


def calls() -> Iterator[Call]:
    """All calls, float32 first."""
    for dtype in ("float32", "float16"):
        for family, rows in FAMILIES.items():
            if dtype == "float32" or family != "order":
                for function, dims in rows:
                    yield Call(family, function, dims, dtype)
