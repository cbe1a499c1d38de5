"""The named shapes of all benchmarks, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pykernels.bench.case import cut

__all__ = [
    "ATTENTION",
    "BYTES",
    "CONVOLUTIONS",
    "MATRICES",
    "PRODUCTS",
    "ROWS",
    "ROW_MOVES",
    "Shape",
    "cut",
    "pick",
]


class Shape(NamedTuple):
    """A problem's size by name; `origin` says who has it."""

    name: str
    dims: tuple[int, ...]
    origin: str


def pick(shapes: Sequence[Shape], edge: int) -> Iterator[Shape]:
    """The shapes, cut for a slow device. A single size may be as large as a square."""
    seen = set()
    for s in shapes:
        limit = edge * edge if len(s.dims) == 1 else edge
        dims = tuple(cut(n, limit) for n in s.dims)
        if dims not in seen:
            seen.add(dims)
            yield s._replace(dims=dims)


POWER, RAGGED = "a power of two", "a ragged size"

# bytes of a tensor
BYTES = [
    Shape("64KiB", (1 << 16,), POWER),
    Shape("1MiB", (1 << 20,), POWER),
    Shape("16MiB", (1 << 24,), POWER),
    Shape("256MiB", (1 << 28,), POWER),
    Shape("1GiB", (1 << 30,), POWER),
]

# rows x cols
MATRICES = [
    Shape("1024", (1024, 1024), POWER),
    Shape("4096", (4096, 4096), POWER),
    Shape("16384", (16384, 16384), POWER),
    Shape("4095", (4095, 4095), RAGGED),
    Shape("llama-3-8b-down", (4096, 14336), "Llama 3 8B: a down projection"),
]

# ... x rows x cols, for what runs over rows
ROWS = [
    Shape("65536x4096", (65536, 4096), POWER),
    Shape("4096", (4096, 4096), POWER),
    Shape("32768x1024", (32768, 1024), POWER),
    Shape("short-rows", (4194304, 8), POWER),
    Shape("head-dim", (1048576, 64), "one head of 64 for each row, as in GPT-2"),
    Shape("4095", (4095, 4095), RAGGED),
    Shape("long-rows", (4096, 32768), "longer than registers hold"),
    Shape("one-row", (1, 1 << 24), POWER),
    Shape("bert-base-scores", (8, 12, 512, 512), "BERT base, batch 8: attention scores"),
    Shape("llama-3-8b-scores", (32, 2048, 2048), "Llama 3 8B: scores of 2048 tokens"),
    Shape("gpt-2-logits", (1024, 50257), "GPT-2: logits of 1024 tokens"),
    Shape("llama-3-logits", (512, 128256), "Llama 3: logits of 512 tokens"),
    Shape("imagenet-logits", (4096, 1000), "ImageNet classes, batch 4096"),
]

# n x m x k: dst (n, m) is a product over k; with a fourth size in front, a batch
PRODUCTS = [
    Shape("4096", (4096, 4096, 4096), POWER),
    Shape("8192", (8192, 8192, 8192), POWER),
    Shape("2048", (2048, 2048, 2048), POWER),
    Shape("1024", (1024, 1024, 1024), POWER),
    Shape("512", (512, 512, 512), POWER),
    Shape("256", (256, 256, 256), POWER),
    Shape("4095", (4095, 4095, 4095), RAGGED),
    Shape("llama-3-8b-down", (512, 4096, 14336), "Llama 3 8B: down projection, 512 tokens"),
    Shape("llama-3-8b-up", (512, 14336, 4096), "Llama 3 8B: up projection, 512 tokens"),
    Shape("64-tokens", (64, 4096, 4096), "Llama 3 8B: output projection, 64 tokens"),
    Shape("deep", (128, 128, 65536), "few sums over a long k"),
    Shape("bert-scores", (1536, 512, 512, 64), "BERT base, batch 128: scores of 1536 heads"),
    Shape("decode-4096", (1, 4096, 4096), "Llama 3 8B: output projection, one token"),
    Shape("decode-16384", (1, 16384, 16384), POWER),
    Shape("decode-lm-head", (1, 128256, 4096), "Llama 3 8B: logits of one token"),
    Shape("decode-8", (8, 16384, 16384), "eight tokens at a time"),
    Shape("dot", (1, 1, 1 << 24), "a dot product"),
]

# batch x channels x height x width, filters x height x width, stride, padding, groups
CONVOLUTIONS = [
    Shape("resnet-50-conv1", (16, 3, 224, 224, 64, 7, 7, 2, 3, 1), "ResNet-50: the first layer"),
    Shape("resnet-50-conv2", (16, 64, 56, 56, 64, 3, 3, 1, 1, 1), "ResNet-50: conv2_x"),
    Shape("resnet-50-conv4", (16, 256, 14, 14, 256, 3, 3, 1, 1, 1), "ResNet-50: conv4_x"),
    Shape("resnet-50-1x1", (16, 256, 56, 56, 64, 1, 1, 1, 0, 1), "ResNet-50: conv2_x, pointwise"),
    Shape("mobilenet-v2-dw", (16, 144, 56, 56, 144, 3, 3, 1, 1, 144), "MobileNetV2: depthwise"),
    Shape("unet-64", (8, 64, 256, 256, 64, 3, 3, 1, 1, 1), "a U-Net's outer layer"),
    Shape("sd-512", (1, 512, 64, 64, 512, 3, 3, 1, 1, 1), "Stable Diffusion: VAE, 64 x 64"),
    Shape("ragged-image", (3, 13, 29, 31, 17, 3, 5, 2, 1, 1), RAGGED),
]

# batch x heads x key heads x queries x keys x head size
ATTENTION = [
    Shape("llama-2-7b-4096", (1, 32, 32, 4096, 4096, 128), "Llama 2 7B: a prompt of 4096"),
    Shape("llama-3-8b-4096", (1, 32, 8, 4096, 4096, 128), "Llama 3 8B: a prompt of 4096"),
    Shape("llama-3-8b-decode", (1, 32, 8, 1, 16384, 128), "Llama 3 8B: one token, 16384 before"),
    Shape("llama-3-8b-long", (1, 32, 8, 1, 65536, 128), "Llama 3 8B: one token, 65536 before"),
    Shape("llama-3-8b-2048", (1, 32, 8, 2048, 2048, 128), "Llama 3 8B: a prompt of 2048"),
    Shape("gpt-2-1024", (8, 16, 16, 1024, 1024, 64), "GPT-2 medium, batch 8"),
    Shape("bert-base-512", (8, 12, 12, 512, 512, 64), "BERT base, batch 8"),
    Shape("ragged-heads", (2, 6, 2, 77, 93, 40), RAGGED),
]

# rows x elements: rows that are written to, or read from, places in any order
ROW_MOVES = [
    Shape("rows-of-512-bytes", (131072, 128), "a head of 128 in f32: the keys of a cache"),
    Shape("rows-of-4-KiB", (32768, 1024), POWER),
    Shape("rows-of-16-KiB", (8192, 4096), "Llama 3 8B: a token in f32"),
    Shape("ragged-rows", (131072, 127), RAGGED),
]

# The cases that stand for their kernel, by id: where time is short, peers run beside these only,
# and README shows them.
_CONV2, _UNET = "16x64x56x56x64x3x3", "8x64x256x256x64x3x3"
_LLAMA_2, _GPT_2 = "1x32x32x4096x4096x128", "8x16x16x1024x1024x64"
MAIN: dict[str, tuple[str, ...]] = {
    "conv2d": (
        f"f32-{_CONV2}", f"f16-{_CONV2}", f"f32-{_UNET}", "f32-1x512x64x64x512x3x3",
        "f32-16x256x56x56x64x1x1", "f32-16x144x56x56x144x3x3-groups_144",
    ),
    "conv2d_backward_bias": ("f32-8x64x256x256",),
    "conv2d_backward_input": (f"f32-{_CONV2}", f"f32-{_UNET}"),
    "conv2d_backward_weight": (f"f32-{_CONV2}", f"f32-{_UNET}"),
    "conv_transpose2d": (f"f32-{_CONV2}",),
    "cpy": ("f32-16384x16384-transposed", "f32-268435456", "f32>f16-16384x16384"),
    "fill": ("f32-268435456",),
    "flash_attn": (
        f"f32-{_LLAMA_2}", f"f16-{_LLAMA_2}", f"f32-{_LLAMA_2}-causal", f"f32-{_GPT_2}",
        "f16-1x32x8x1x16384x128",
    ),
    "flash_attn_backward": (f"f32-{_LLAMA_2}", f"f32-{_GPT_2}-causal"),
    "get_rows": ("f32xi32>f32-8192x4096", "f16xi64>f16-128256x4096x4096-embedding"),
    "log_softmax": ("f32-4096x4096",),
    "memset": ("u8-1073741824",),
    "mul_mat": (
        "f32-4096x4096x4096", "f32-4096x4096x4096-a_turned", "f32-2048x2048x2048",
        "f32-512x4096x14336", "f32-1x16384x16384", "f16-4096x4096x4096",
    ),
    "set_rows": ("f32xi32>f32-8192x4096",),
    "softmax": ("f32-65536x4096", "f16-65536x4096", "f32-32768x1024", "f32-4096x4096"),
    "softmax_backward": ("f32-65536x4096", "f32-4096x4096"),
}  # fmt: skip
