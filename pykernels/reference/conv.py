"""conv2d, its gradients, and the transposed convolution, with one multiply-add for each tap and
channel.

Layout "NCHW" has images (N, C, H, W), "NHWC" (N, H, W, C); weights are (O, C / groups, KH, KW) in
both, and (C, O / groups, KH, KW) for conv_transpose2d. All is computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .matmul import activate

__all__ = [
    "conv2d",
    "conv2d_backward_bias",
    "conv2d_backward_bias_budget",
    "conv2d_backward_input",
    "conv2d_backward_weight",
    "conv2d_backward_weight_budget",
    "conv2d_budget",
    "conv_transpose2d",
    "output_size",
    "window_budget",
    "winograd_size",
]

Array = np.ndarray[Any, Any]
Pair = int | tuple[int, int]
# For each M, the matrices A^T, G and B^T of Winograd's F(M x M, 3 x 3), as in
# kernels/conv/lib/winograd.wgsl.
WINOGRAD: dict[int, tuple[Array, Array, Array]] = {
    2: (
        np.array([[1, 1, 1, 0], [0, 1, -1, 1]]),
        np.array([[-2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]]) / 2,
        np.array([[-1, 0, 1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, -1, 0, 1]]),
    ),
    4: (
        np.array([
            [64, 64, 64, 64, 64, 0], [0, 48, -48, 96, -96, 0], [0, 36, 36, 144, 144, 0],
            [0, 27, -27, 216, -216, 64],
        ]) / 64,
        np.array([
            [192, 0, 0], [-128, -96, -72], [-128, 96, -72], [32, 48, 72], [32, -48, 72],
            [0, 0, 243],
        ]) / 243,
        np.array([
            [81, 0, -180, 0, 64, 0], [0, -108, -144, 48, 64, 0], [0, 108, -144, -48, 64, 0],
            [0, -54, -36, 96, 64, 0], [0, 54, -36, -96, 64, 0], [0, 81, 0, -180, 0, 64],
        ]) / 64,
    ),
}  # fmt: skip
Padding = int | tuple[int, int] | tuple[int, int, int, int] | str


def conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: str = "NCHW",
    activation: str | None = None,
    precision: str | None = None,
) -> Array:
    """act(sum_{c,i,j} x[n, c, y s + i d - top, x s + j d - left] w[o, c, i, j] + bias[o] +
    residual).

    Here s is the stride and d the dilation; x counts as 0 outside of the image. Output channel o of
    group g reads the input channels of group g. residual broadcasts to the result in the axes of
    the layout. `precision` changes the allowed error of the kernel (`conv2d_budget`), not the
    reference.
    """
    x, w = _channels_first(x, layout), w.astype(np.float64)
    a = _Args.of(w.shape, stride, padding, dilation)
    padded = np.pad(x, ((0, 0), (0, 0), a.padding[:2], a.padding[2:]))
    n, size = len(x), output_size(x.shape[2:], w.shape[2:], a)
    out = np.zeros((n, groups, w.shape[0] // groups, *size))
    taps = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for i, j, rows, cols in a.taps(size):
        part = padded[:, :, rows, cols].reshape(n, groups, w.shape[1], *size)
        out += np.einsum("ngcyx,goc->ngoyx", part, taps[..., i, j], optimize=True)
    return _finish(out.reshape(n, w.shape[0], *size), bias, activation, layout, residual)


def conv2d_budget(
    x: Array,
    w: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: str = "NCHW",
    activation: str | None = None,
    precision: str | None = None,
    dtype: Any = None,
) -> Array:
    """The largest error of a convolution with a result of `dtype`, before the result is rounded:
    `window_budget` for the sum of |x w|.

    With precision "fast", and with precision None if the result is float16, matrix units may add
    all products of float16 in one sum. With "fast", float32 windows of 3 x 3 with stride 1 may take
    Winograd's transforms, with tiles of 2 x 2 or 4 x 4 pixels (`winograd_size`).
    """
    size = conv2d(
        np.abs(x), np.abs(w), stride=stride, padding=padding, dilation=dilation, groups=groups,
        layout=layout,
    )  # fmt: skip
    steps = _Args.of(w.shape, stride, padding, dilation)
    one = steps.stride == steps.dilation == (1, 1) and groups == 1 and w.shape[2:] == (3, 3)
    if precision == "fast" and x.dtype == np.float32 and one:
        tiles = [winograd_size(x, w, m, padding=padding, layout=layout) for m in WINOGRAD]
        size = np.maximum.reduce([size, *tiles])
    halves = x.dtype == w.dtype == np.float16
    in_one_piece = halves and (precision == "fast" or (precision is None and dtype == np.float16))
    return window_budget(
        size, math.prod(w.shape[1:]), bias, residual, layout=layout, activation=activation,
        in_one_piece=in_one_piece,
    )  # fmt: skip


def conv2d_backward_input(
    dy: Array,
    w: Array,
    shape: Sequence[int],
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: str = "NCHW",
) -> Array:
    """The gradient of sum(conv2d(x, w) * dy) with respect to x; `shape` is the shape of x."""
    dy, w = _channels_first(dy, layout), w.astype(np.float64)
    a = _Args.of(w.shape, stride, padding, dilation)
    n, c, *image = _first(shape, layout)
    top, bottom, left, right = a.padding
    padded = np.zeros((n, c, image[0] + top + bottom, image[1] + left + right))
    size = dy.shape[2:]
    split = dy.reshape(n, groups, w.shape[0] // groups, *size)
    taps = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    for i, j, rows, cols in a.taps(size):
        part = np.einsum("ngoyx,goc->ngcyx", split, taps[..., i, j], optimize=True)
        padded[:, :, rows, cols] += part.reshape(n, c, *size)
    inner = padded[:, :, top : top + image[0], left : left + image[1]]
    return _finish(inner, None, None, layout)


def conv2d_backward_weight(
    dy: Array,
    x: Array,
    shape: Sequence[int],
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: str = "NCHW",
) -> Array:
    """The gradient of sum(conv2d(x, w) * dy) with respect to w; `shape` is the shape of w, (O, C /
    groups, KH, KW)."""
    dy, x = _channels_first(dy, layout), _channels_first(x, layout)
    a = _Args.of(shape, stride, padding, dilation)
    padded = np.pad(x, ((0, 0), (0, 0), a.padding[:2], a.padding[2:]))
    n, size = len(x), dy.shape[2:]
    out = np.zeros((groups, shape[0] // groups, *shape[1:]))
    split = dy.reshape(n, groups, shape[0] // groups, *size)
    for i, j, rows, cols in a.taps(size):
        part = padded[:, :, rows, cols].reshape(n, groups, shape[1], *size)
        out[..., i, j] = np.einsum("ngoyx,ngcyx->goc", split, part, optimize=True)
    return out.reshape(tuple(shape))


def conv2d_backward_bias(dy: Array, *, layout: str = "NCHW") -> Array:
    """The sum of dy over images and pixels, (O,)."""
    return np.asarray(_channels_first(dy, layout).sum((0, 2, 3)))


def conv_transpose2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    output_padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: str = "NCHW",
    activation: str | None = None,
) -> Array:
    """act(conv2d_backward_input(x, w) + bias), with w (C, O / groups, KH, KW).

    The output has (H - 1) s - paddings + d (KH - 1) + 1 + output_padding rows, and
    columns by the same rule.
    """
    x = _channels_first(x, layout)
    a = _Args.of(w.shape, stride, padding, dilation)
    extra = _pair(output_padding)
    paddings = (sum(a.padding[:2]), sum(a.padding[2:]))
    size = [
        (n - 1) * s - padding_sum + d * (k - 1) + 1 + more
        for n, s, padding_sum, d, k, more in zip(
            x.shape[2:], a.stride, paddings, a.dilation, w.shape[2:], extra, strict=True
        )
    ]
    # The extra rows of the output get terms that a larger padding would cut off.
    out = conv2d_backward_input(
        x, w, (len(x), w.shape[1] * groups, *size), stride=a.stride,
        padding=a.padding, dilation=a.dilation, groups=groups,
    )  # fmt: skip
    return _finish(out, bias, activation, layout)


def output_size(image: Sequence[int], kernel: Sequence[int], a: _Args) -> tuple[int, int]:
    """The numbers of rows and columns of conv2d's output."""
    top, bottom, left, right = a.padding
    rows, cols = (
        (n + padding_sum - d * (k - 1) - 1) // s + 1
        for n, padding_sum, d, k, s in zip(
            image, (top + bottom, left + right), a.dilation, kernel, a.stride, strict=True
        )
    )
    return rows, cols


def window_budget(
    size: Array, depth: int, bias: Array | None = None, residual: Array | None = None, *,
    layout: str = "NCHW", activation: str | None = None, in_one_piece: bool = False,
) -> Array:  # fmt: skip
    """The largest error of f32 sums of `depth` products, with an epilogue.

    The error of the sums is 2^-23 (sqrt(depth) + 4) size. `size` is the same convolution of
    absolute values, without bias and residual. Matrix units that add all products in one sum
    (`in_one_piece`) may lose another 0.16 2^-23 of size for each product. Epilogues have the errors
    that `mul_mat_budget` lists.
    """
    bound = size * (math.sqrt(depth) + 4 + (0.16 * depth if in_one_piece else 0.0))
    if bias is not None:
        size = size + _finish(np.zeros((1, len(bias), 1, 1)), np.abs(bias), None, layout)
        bound = bound + 2 * size
    if residual is not None:
        size = size + np.abs(residual.astype(np.float64))
        bound = bound + 2 * size
    if activation is not None:
        bound = 1.2 * bound + 2 * size
        if activation != "relu":
            bound = bound + 16 * size
    return np.asarray(2.0**-23 * bound)


def winograd_size(
    x: Array, w: Array, side: int, *, padding: Padding = 0, layout: str = "NCHW"
) -> Array:
    """|A^T| (sum_c |G| |w| |G^T| * |B^T| |x| |B|) |A|, which bounds the errors of Winograd's
    convolution with tiles of side x side pixels. It replaces `size` in `window_budget`.

    Stride and dilation are 1, and there is one group.
    """
    a, g, b = (np.abs(m) for m in WINOGRAD[side])
    x = np.abs(_channels_first(x, layout).astype(np.float64))
    sides = _Args.of(w.shape, 1, padding, 1).padding
    rows, cols = output_size(x.shape[2:], (3, 3), _Args.of(w.shape, 1, padding, 1))
    down, across = -(-rows // side), -(-cols // side)
    more = down * side - rows, across * side - cols
    x = np.pad(x, ((0, 0), (0, 0), (sides[0], sides[1] + more[0]), (sides[2], sides[3] + more[1])))
    tiles = np.lib.stride_tricks.sliding_window_view(x, (side + 2, side + 2), axis=(2, 3))
    tiles = tiles[:, :, ::side, ::side]
    image = np.einsum("ti,ncyxij,uj->ncyxtu", b, tiles, b, optimize=True)
    weights = np.einsum("ti,ocij,uj->octu", g, np.abs(w.astype(np.float64)), g, optimize=True)
    sums = np.einsum("ncyxtu,octu->noyxtu", image, weights, optimize=True)
    out = np.einsum("it,noyxtu,ju->noyixj", a, sums, a, optimize=True)
    out = out.reshape(len(x), w.shape[0], down * side, across * side)[:, :, :rows, :cols]
    return _finish(out, None, None, layout)


def conv2d_backward_weight_budget(
    dy: Array, x: Array, shape: Sequence[int], **options: Any
) -> Array:
    """The largest error of f32 sums over all images and pixels, K terms each: 2^-23 (sqrt(K) + 4)
    sum|dy||x|."""
    size = conv2d_backward_weight(np.abs(dy), np.abs(x), shape, **options)
    pixels = dy.size // max(shape[0], 1)
    return np.asarray(2.0**-23 * (math.sqrt(pixels) + 4) * size)


def conv2d_backward_bias_budget(dy: Array, *, layout: str = "NCHW") -> Array:
    """The largest error of f32 sums over all images and pixels, K terms each: 2^-23 (sqrt(K) + 4)
    sum|dy|."""
    size = conv2d_backward_bias(np.abs(dy), layout=layout)
    return np.asarray(2.0**-23 * (math.sqrt(dy.size // max(len(size), 1)) + 4) * size)


class _Args(NamedTuple):
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]  # padding as top, bottom, left, right
    dilation: tuple[int, int]
    kernel: tuple[int, int]

    @classmethod
    def of(cls, w: Sequence[int], stride: Pair, padding: Padding, dilation: Pair) -> _Args:
        kernel, d = (w[2], w[3]), _pair(dilation)
        if padding == "same":
            both = [step * (k - 1) for step, k in zip(d, kernel, strict=True)]
            top, left = both[0] // 2, both[1] // 2
            sides = (top, both[0] - top, left, both[1] - left)
        elif isinstance(padding, tuple) and len(padding) == 4:
            sides = padding
        else:
            rows, cols = _pair(0 if isinstance(padding, str) else padding)
            sides = (rows, rows, cols, cols)
        return cls(_pair(stride), sides, d, kernel)

    def taps(self, size: Sequence[int]) -> Iterator[tuple[int, int, slice, slice]]:
        """For each tap of the kernel, the rows and columns of the padded image that the tap
        reads."""
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                rows, cols = (
                    slice(d * at, d * at + s * (n - 1) + 1, s) if n else slice(0, 0)
                    for d, at, s, n in zip(self.dilation, (i, j), self.stride, size, strict=True)
                )
                yield i, j, rows, cols


def _pair(v: Any) -> tuple[int, int]:
    return (v, v) if isinstance(v, int) else (v[0], v[1])


def _first(shape: Sequence[int], layout: str) -> Sequence[int]:
    return shape if layout == "NCHW" else (shape[0], shape[3], shape[1], shape[2])


def _channels_first(x: Array, layout: str) -> Array:
    return (x if layout == "NCHW" else x.transpose(0, 3, 1, 2)).astype(np.float64)


def _finish(
    out: Array, bias: Array | None, activation: str | None, layout: str,
    residual: Array | None = None,
) -> Array:  # fmt: skip
    if bias is not None:
        out = out + bias.astype(np.float64)[:, None, None]
    if layout == "NHWC":
        out = out.transpose(0, 2, 3, 1)
    if residual is not None:
        out = out + residual.astype(np.float64)
    return activate(out, activation)
