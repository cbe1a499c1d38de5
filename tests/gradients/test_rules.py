"""Every rule against central differences of its reference, on the device."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated import kernels
from pykernels.reference import attention as attention_reference
from pykernels.reference import conv as conv_reference
from pykernels.reference import linalg, move, pool, reduce, resize, rows, scan, softmax
from pykernels.reference import matmul as matmul_reference
from pykernels.tape._entry import rule_of
from tests.gradients.numeric import Example, apart
from tests.harness import Array
from tests.kernels.matmul.quant_calls import planes_of

pytestmark = pytest.mark.gpu

Rng = np.random.Generator
EXAMPLES: dict[str, Callable[[Rng], Example]] = {}


def example(make: Callable[[Rng], Example]) -> Callable[[Rng], Example]:
    """Its name is the case's."""
    EXAMPLES[make.__name__] = make
    return make


def normal(rng: Rng, *shape: int, dtype: str = "float32") -> Array:
    return rng.normal(0, 1, shape).astype(dtype)


# -- linear systems -------------------------------------------------------------------------------


@example
def cholesky(rng: Rng) -> Example:
    """Of x @ x^T, so that differences keep it symmetric."""
    x = normal(rng, 2, 4, 4) + 3 * np.eye(4, dtype="f4")
    return Example(
        lambda x: pk.cholesky(pk.matmul(x, x.swapaxes(-1, -2))),
        lambda x: linalg.cholesky(x @ x.swapaxes(-1, -2)), [x],
    )  # fmt: skip


@example
def cholesky_solve(rng: Rng) -> Example:
    b, factor = normal(rng, 4, 3), np.tril(normal(rng, 4, 4)) + 3 * np.eye(4, dtype="f4")

    def wanted(b: Array, factor: Array) -> Array:
        return np.linalg.solve(np.tril(factor) @ np.tril(factor).T, b)

    return Example(pk.cholesky_solve, wanted, [b, factor])


def _matrices(rng: Rng, *lead: int) -> Array:
    """Invertible, with rows in another order: differences change no pivot."""
    found: Array = (normal(rng, *lead, 4, 4) + 5 * np.eye(4, dtype="f4"))[..., [2, 0, 3, 1], :]
    return found


@example
def solve(rng: Rng) -> Example:
    return Example(pk.solve, np.linalg.solve, [_matrices(rng, 2), normal(rng, 2, 4, 3)])


@example
def solve_of_a_matrix_that_repeats(rng: Rng) -> Example:
    return Example(pk.solve, np.linalg.solve, [_matrices(rng), normal(rng, 2, 4, 3)])


@example
def solve_of_a_vector(rng: Rng) -> Example:
    return Example(
        pk.solve, lambda a, b: np.linalg.solve(a, b[:, None])[..., 0],
        [_matrices(rng, 2), normal(rng, 4)],
    )  # fmt: skip


@example
def lu_factor(rng: Rng) -> Example:
    return Example(
        lambda t: pk.lu_factor(t)[0], lambda a: linalg.lu_factor(a)[0], [_matrices(rng, 2)]
    )


@example
def inv(rng: Rng) -> Example:
    return Example(pk.inv, np.linalg.inv, [_matrices(rng, 2)])


@example
def det(rng: Rng) -> Example:
    return Example(pk.det, np.linalg.det, [_matrices(rng, 2) / 5])


@example
def slogdet(rng: Rng) -> Example:
    return Example(
        lambda t: pk.slogdet(t)[1], lambda a: np.linalg.slogdet(a)[1], [_matrices(rng, 2)]
    )


# -- reductions -----------------------------------------------------------------------------------


def _reduction(name: str, axis: Any, keepdims: bool = False, **named: Any) -> None:
    def make(rng: Rng) -> Example:
        x = apart(rng, (2, 3, 2))
        if named.pop("zeros", False):
            x[0, 1], x[1, 2, 0] = 0, 0
        return Example(
            lambda t: getattr(pk, name)(t, axis=axis, keepdims=keepdims, **named),
            lambda a: getattr(reduce, name)(a, axis, **named), [x], units=6,
        )  # fmt: skip

    EXAMPLES["_".join([name, str(axis), *map(str, named.values())])] = make


_reduction("sum", 1)
_reduction("mean", (0, 2), True)
_reduction("prod", 1, zeros=True)
_reduction("max", (1,))
_reduction("min", None)
_reduction("var", 1, ddof=1)
_reduction("std", None)
_reduction("norm", -1, ord=2.0)
_reduction("norm", 0, ord=1.0)
_reduction("norm", 1, ord=float("inf"))
_reduction("logsumexp", (0, 1), True)


@example
def equal_elements_share_a_maximum(rng: Rng) -> Example:
    x = np.array([[1, 3, 3], [2, 2, 2]], np.float32)

    def smooth(a: Array) -> Array:  # what moves together: the mean of those that are largest
        return np.where(x == x.max(1, keepdims=True), a, 0).sum(1) / np.array([2, 3])

    return Example(lambda t: pk.max(t, axis=1), smooth, [x])


# -- scans and sorts ------------------------------------------------------------------------------


@example
def cumsum(rng: Rng) -> Example:
    return Example(lambda t: pk.cumsum(t, axis=1), scan.cumsum, [normal(rng, 3, 5)])


@example
def cumprod(rng: Rng) -> Example:
    x = apart(rng, (4, 4))
    x[0, 1] = x[1, 0] = x[1, 2] = x[2, 3] = 0
    return Example(lambda t: pk.cumprod(t, axis=-1), scan.cumprod, [x], units=8)


# -- transforms -----------------------------------------------------------------------------------


def _parts(z: Array) -> Array:
    return np.stack([z.real, z.imag], -1)


@example
def rfft(rng: Rng) -> Example:
    return Example(
        lambda t: pk.view_as_real(pk.fft.rfft(t, axis=0)),
        lambda a: _parts(np.fft.rfft(a, axis=0)), [normal(rng, 6, 2)], units=8,
    )  # fmt: skip


@example
def power_spectrum(rng: Rng) -> Example:
    return Example(
        lambda t: pk.square(pk.abs(pk.fft.fft(t, 7))), lambda a: np.abs(np.fft.fft(a, 7)) ** 2,
        [normal(rng, 2, 5)], units=16,
    )  # fmt: skip


@example
def sort_descending(rng: Rng) -> Example:
    def wanted(a: Array) -> Array:
        return np.sort(a, 1)[:, ::-1]

    return Example(lambda t: pk.sort(t, axis=1, descending=True), wanted, [apart(rng, (3, 5))])


@example
def top_k(rng: Rng) -> Example:
    return Example(
        lambda t: pk.top_k(t, 2, axis=0)[0], lambda a: np.sort(a, 0)[::-1][:2], [apart(rng, (5, 3))]
    )


@example
def median_of_even(rng: Rng) -> Example:
    return Example(lambda t: pk.median(t, axis=1), lambda a: np.median(a, 1), [apart(rng, (3, 4))])


@example
def bincount_weights(rng: Rng) -> Example:
    x = np.array([1, 0, 3, 1, 1], np.int32)
    return Example(
        lambda w, i: pk.bincount(i, w, minlength=4), lambda w, i: np.bincount(i, w, 4),
        [normal(rng, 5)], [x],
    )  # fmt: skip


# -- movements ------------------------------------------------------------------------------------


@example
def gather(rng: Rng) -> Example:
    index = np.array([[0, 2, 2], [1, 1, 0]], np.int32)
    return Example(
        lambda t, i: pk.gather(t, 0, i),
        lambda a, i: move.gather(a, i, np.zeros(i.shape), 0), [normal(rng, 3, 4)], [index],
    )  # fmt: skip


@example
def scatter(rng: Rng) -> Example:
    index = np.array([[0, 3], [2, 1]], np.int32)
    return Example(
        lambda x, s, i: pk.scatter(x, 1, i, s),
        lambda a, s, i: move.scatter(s, i, a, 1), [normal(rng, 3, 4), normal(rng, 2, 2)], [index],
    )  # fmt: skip


@example
def scatter_add(rng: Rng) -> Example:
    index = np.array([[0, 3, 0], [2, 2, 2]], np.int32)
    return Example(
        lambda x, s, i: pk.scatter_add(x, 1, i, s), lambda a, s, i: move.scatter_add(s, i, a, 1),
        [normal(rng, 2, 4), normal(rng, 2, 3)], [index],
    )  # fmt: skip


@example
def tril(rng: Rng) -> Example:
    return Example(lambda t: pk.tril(t, 1), lambda a: np.tril(a, 1), [normal(rng, 2, 3, 4)])


def _pad(mode: str, numpy_mode: str, widths: tuple[tuple[int, int], ...]) -> None:
    def make(rng: Rng) -> Example:
        return Example(
            lambda t: pk.pad(t, widths, mode=mode), lambda a: np.pad(a, widths, mode=numpy_mode),
            [normal(rng, 3, 4)],
        )  # fmt: skip

    EXAMPLES[f"pad_{mode}"] = make


_pad("constant", "constant", ((1, 0), (2, 3)))
_pad("reflect", "reflect", ((2, 1), (0, 3)))
_pad("replicate", "edge", ((1, 2), (3, 0)))
_pad("circular", "wrap", ((3, 1), (2, 4)))


@example
def take_along_axis(rng: Rng) -> Example:
    index = np.array([[1, 0, 1], [2, 2, 0]], np.int32)
    return Example(
        lambda t, i: pk.take_along_axis(t, i, axis=1),
        lambda a, i: np.take_along_axis(np.broadcast_to(a, (2, 3)), i, 1), [normal(rng, 1, 3)],
        [index],
    )  # fmt: skip


@example
def roll_tile_flip(rng: Rng) -> Example:
    return Example(
        lambda t: pk.tile(pk.roll(t, 2, 1), (2, 1))[::-1],
        lambda a: np.tile(np.roll(a, 2, 1), (2, 1))[::-1], [normal(rng, 2, 5)],
    )  # fmt: skip


@example
def concatenate(rng: Rng) -> Example:
    return Example(
        lambda x, y: pk.concatenate([x, y * 2, x.T[:2, :1]], axis=1),
        lambda a, b: np.concatenate([a, b * 2, a.T[:2, :1]], 1),
        [normal(rng, 2, 3), normal(rng, 2, 1)],
    )  # fmt: skip


# -- rows -----------------------------------------------------------------------------------------


@example
def embedding(rng: Rng) -> Example:
    index = np.array([[1, 3, 1], [0, 1, 3]], np.int32)
    return Example(lambda w, i: pk.embedding(w, i), lambda w, i: w[i], [normal(rng, 4, 3)], [index])


@example
def get_rows_of_several(rng: Rng) -> Example:
    index = np.array([[1, 1], [2, 0]], np.int32)
    return Example(
        lambda s, i: pk.get_rows(s, i),
        lambda s, i: np.take_along_axis(s, i[..., None].astype(int), 1), [normal(rng, 2, 3, 3)],
        [index],
    )  # fmt: skip


@example
def set_rows(rng: Rng) -> Example:
    index = np.array([2, 0], np.int32)

    def device(x: Any, s: Any, i: Any) -> Any:
        y = x.copy()
        pk.set_rows(s, i, y)
        return y

    def wanted(a: Array, s: Array, i: Array) -> Array:
        out = a.copy()
        out[i] = s
        return out

    return Example(device, wanted, [normal(rng, 4, 3), normal(rng, 2, 3)], [index])


@example
def boolean_index(rng: Rng) -> Example:
    mask = np.array([True, False, True, True])
    return Example(lambda t, m: t[m] * 3, lambda a, m: a[m] * 3, [normal(rng, 4, 2)], [mask])


@example
def timestep_embedding(rng: Rng) -> Example:
    return Example(
        lambda t: pk.timestep_embedding(t, 7),
        lambda a: rows.timestep_embedding(a, (3, 7)), [apart(rng, (3,), 1, 9)], units=8,
    )  # fmt: skip


# -- images ---------------------------------------------------------------------------------------


def _resize(
    mode: str, coordinates: str, size: tuple[int, int], antialias: bool = False
) -> None:  # fmt: skip
    def make(rng: Rng) -> Example:
        return Example(
            lambda t: pk.resize(t, size, mode, coordinates=coordinates, antialias=antialias),
            lambda a: resize.resize(a, (2, *size), mode, coordinates, antialias=antialias),
            [normal(rng, 2, 3, 4)], units=12,
        )  # fmt: skip

    EXAMPLES[f"resize_{mode}_{coordinates}{'_antialias' if antialias else ''}"] = make


_resize("nearest", "asymmetric", (5, 3))
_resize("linear", "half_pixel", (5, 2))
_resize("cubic", "align_corners", (2, 7))
_resize("linear", "half_pixel", (2, 3), antialias=True)
_resize("cubic", "half_pixel", (1, 6), antialias=True)


@example
def resize_area_of_channels_last(rng: Rng) -> Example:
    return Example(
        lambda t: pk.resize(t, (2, 3), "area", layout="hwc"),
        lambda a: np.moveaxis(
            pool.adaptive_avg_pool2d(np.moveaxis(a, -1, 1), (2, 3, 2, 3)), 1, -1
        ),
        [normal(rng, 2, 5, 4, 3)], units=12,
    )  # fmt: skip


@example
def unfold(rng: Rng) -> Example:
    return Example(
        lambda t: pk.unfold(t, (2, 3), padding=1, stride=(2, 1)),
        lambda a: resize.im2col(a, kernel=(2, 3), padding=1, stride=(2, 1)),
        [normal(rng, 1, 2, 3, 3)],
    )  # fmt: skip


@example
def fold(rng: Rng) -> Example:
    return Example(
        lambda t: pk.fold(t, (3, 4), 2),
        lambda a: resize.col2im(a, (1, 2, 3, 4), kernel=2), [normal(rng, 1, 8, 6)],
    )  # fmt: skip


# -- softmax --------------------------------------------------------------------------------------


@example
def softmax_with_mask_and_sinks(rng: Rng) -> Example:
    mask, sinks = normal(rng, 1, 2, 3), normal(rng, 2)
    mask[0, 1, 1] = -np.inf
    return Example(
        lambda x, s, m: pk.softmax(x, mask=m, sinks=s, scale=0.5),
        lambda a, s, m: softmax.softmax(a, m, s, scale=0.5), [normal(rng, 2, 2, 3), sinks], [mask],
    )  # fmt: skip


@example
def softmax_by_its_mask(rng: Rng) -> Example:
    return Example(
        lambda x, m: pk.softmax(x, mask=m), lambda a, m: softmax.softmax(a, m),
        [normal(rng, 4, 3), normal(rng, 2, 3)],
    )  # fmt: skip


@example
def log_softmax(rng: Rng) -> Example:
    return Example(
        lambda x: pk.log_softmax(x, axis=0, scale=2.0),
        lambda a: softmax.log_softmax(a.T, scale=2.0).T, [normal(rng, 4, 2)],
    )  # fmt: skip


@example
def softmax_of_half(rng: Rng) -> Example:
    return Example(pk.softmax, softmax.softmax, [normal(rng, 2, 4, dtype="float16")], units=2)


# -- products -------------------------------------------------------------------------------------


@example
def matmul_of_batches(rng: Rng) -> Example:
    return Example(pk.matmul, np.matmul, [normal(rng, 2, 1, 2, 3), normal(rng, 2, 3, 2)])


@example
def matmul_of_vectors(rng: Rng) -> Example:
    return Example(pk.matmul, np.matmul, [normal(rng, 3), normal(rng, 2, 3, 4)])


def _product(activation: str | None) -> None:
    def make(rng: Rng) -> Example:
        return Example(
            lambda a, b, c, d: pk.matmul(
                a, b, bias=c, residual=d, scale=0.5, activation=activation
            ),
            lambda a, b, c, d: matmul_reference.activate(0.5 * a @ b + c + d, activation),
            [normal(rng, 2, 2, 3), normal(rng, 3, 2), normal(rng, 2), normal(rng, 2, 2, 2)],
            units=16,
        )  # fmt: skip

    EXAMPLES[f"matmul_{activation}"] = make


_product(None)
_product("relu")
_product("silu")
_product("gelu")


@example
def mul_mat_in_groups(rng: Rng) -> Example:
    def device(a: Any, b: Any) -> Any:
        y = a.device.empty((4, 2, 3))
        pk.kernels.mul_mat(a, b, y)
        return y

    return Example(device, matmul_reference.mul_mat, [normal(rng, 2, 3, 2), normal(rng, 4, 2, 2)])


@example
def mul_mat_i8(rng: Rng) -> Example:
    """Factors that repeat over a batch, and a bias; the operands are integers."""
    a, b = (rng.integers(-9, 9, s).astype(np.int8) for s in ((3, 5), (2, 4, 5)))

    def device(*t: Any) -> Any:
        y = t[0].device.empty((2, 4, 3))
        pk.kernels.mul_mat_i8(t[3], t[4], y, a_scale=t[0], b_scale=t[1], bias=t[2])
        return y

    return Example(
        device, lambda *v: matmul_reference.mul_mat_i8(v[3], v[4], *v[:3]),
        [normal(rng, 3), normal(rng, 2, 4), normal(rng, 4, 1)], others=[a, b],
    )  # fmt: skip


@example
def mul_mat_quant(rng: Rng) -> Example:
    """Of the rows, the bias and the residual; the weights are blocks."""
    planes = planes_of(rng, "q4_0", 6, 32)

    def device(b: Any, bias: Any, residual: Any, low: Any, scales: Any) -> Any:
        y = b.device.empty((3, 6))
        pk.kernels.mul_mat_quant(
            low, scales, b, y, bias=bias, residual=residual, scale=0.5, activation="silu"
        )
        return y

    return Example(
        device,
        lambda b, bias, residual, low, scales: matmul_reference.mul_mat_quant(
            low, scales, b, (3, 6), None, bias, residual, scale=0.5, activation="silu"
        ),
        [normal(rng, 3, 32), normal(rng, 6), normal(rng, 3, 1)],
        others=[planes["low"], planes["scales"]],
    )


def of_experts(
    shared: bool, activation: str | None = None, gated: bool = False
) -> Callable[[Rng], Example]:
    """Of the rows, the weights and the bias; expert 1 has no row."""
    options: dict[str, Any] = {"activation": activation, "gated": gated}

    def made(rng: Rng) -> Example:
        ids = np.int32([[0, 2], [2, 2]])
        cols = 2 // (1 + gated)
        return Example(
            lambda b, w, bias, ids: pk.expert_linear(b, w, ids, bias, **options),
            lambda b, w, bias, ids: matmul_reference.mul_mat_id(
                ids, b, (2, 2, cols), w, bias=bias, **options
            ),
            [normal(rng, 2, 1 if shared else 2, 16), normal(rng, 3, 2, 16), normal(rng, 3, 2)],
            others=[ids],
        )  # fmt: skip

    return made


EXAMPLES["experts of rows"] = of_experts(False)
EXAMPLES["experts of tokens"] = of_experts(True)
EXAMPLES["experts with relu"] = of_experts(False, "relu")
EXAMPLES["gated experts"] = of_experts(True, "silu", True)


@example
def residual_of_experts(rng: Rng) -> Example:
    """Of the bias for all experts, and of a residual that repeats."""

    def device(b: Any, bias: Any, residual: Any, w: Any, ids: Any) -> Any:
        y = b.device.empty((2, 2, 2))
        pk.kernels.mul_mat_id(ids, b, y, w=w, bias=bias, residual=residual, activation="gelu")
        return y

    return Example(
        device,
        lambda b, bias, residual, w, ids: matmul_reference.mul_mat_id(
            ids, b, (2, 2, 2), w, bias=bias, residual=residual, activation="gelu"
        ),
        [normal(rng, 2, 1, 16), normal(rng, 2), normal(rng, 2, 1, 2)],
        others=[normal(rng, 3, 2, 16).astype(np.float32), np.int32([[0, 2], [2, 2]])],
    )


@example
def matmul_of_repeated_elements(rng: Rng) -> Example:
    def shared(m: Any, x: Any) -> Any:
        return m.broadcast_to(x[:, :1], (2, 2, 3)), m.broadcast_to(x[:1], (2, 3, 3))

    return Example(
        lambda t: pk.matmul(*shared(pk, t)), lambda a: np.matmul(*shared(np, a)),
        [normal(rng, 2, 3)], units=8,
    )  # fmt: skip


@example
def einsum(rng: Rng) -> Example:
    return Example(
        lambda a, b: pk.einsum("bij,kj->bki", a, b), lambda a, b: np.einsum("bij,kj->bki", a, b),
        [normal(rng, 2, 2, 3), normal(rng, 2, 3)],
    )  # fmt: skip


# -- convolutions ---------------------------------------------------------------------------------


def _conv(name: str, shapes: list[tuple[int, ...]], wanted: Any, call: Any, **named: Any) -> None:
    def make(rng: Rng) -> Example:
        return Example(
            lambda x, w, b, *r: call(x, w, b, **dict(zip(("residual",), r, strict=False)), **named),
            lambda *v: wanted(*v, **named), [normal(rng, *shape) for shape in shapes], units=8,
        )  # fmt: skip

    EXAMPLES[name] = make


_conv("conv2d", [(1, 2, 3, 2), (2, 1, 2, 1), (2,)], conv_reference.conv2d, pk.conv2d,
      stride=(2, 1), padding=(1, 0, 1, 1), groups=2)  # fmt: skip
_conv("conv2d_relu", [(1, 3, 3, 1), (2, 1, 2, 2), (2,)], conv_reference.conv2d, pk.conv2d,
      layout="NHWC", activation="relu")  # fmt: skip
_conv("conv2d_silu", [(1, 1, 3, 2), (2, 1, 2, 3), (2,)], conv_reference.conv2d, pk.conv2d,
      padding="same", activation="silu")  # fmt: skip
_conv("conv2d_residual", [(2, 2, 3, 2), (2, 1, 2, 1), (2,), (2, 2, 1)], conv_reference.conv2d,
      pk.conv2d, stride=(2, 1), padding=(1, 0, 1, 1), groups=2, activation="relu")  # fmt: skip
_conv("conv2d_residual_silu", [(2, 3, 2, 1), (2, 1, 2, 2), (2,), (2, 1, 1, 2)],
      conv_reference.conv2d, pk.conv2d, layout="NHWC", activation="silu")  # fmt: skip
_conv(
    "conv2d_residual_product",
    [(2, 2, 2, 2), (3, 2, 1, 1), (3,), (2, 3, 2, 2)],
    conv_reference.conv2d,
    pk.conv2d,
)
_conv("conv_transpose2d", [(1, 2, 2, 1), (2, 1, 2, 2), (2,)], conv_reference.conv_transpose2d,
      pk.conv_transpose2d, stride=2, padding=(1, 0), output_padding=1, groups=2)  # fmt: skip
_conv("conv_transpose2d_cut", [(1, 1, 2, 2), (1, 1, 2, 2), (1,)], conv_reference.conv_transpose2d,
      pk.conv_transpose2d, stride=2, output_padding=1, activation="relu")  # fmt: skip


# -- attention ------------------------------------------------------------------------------------


@example
def flash_attn(rng: Rng) -> Example:
    q, k, v, sinks = normal(rng, 1, 2, 1, 2), normal(rng, 1, 1, 3, 2), normal(rng, 1, 1, 3, 1), 2
    return Example(
        lambda q, k, v, s: pk.flash_attn(q, k, v, sinks=s, causal=True, softcap=2.0),
        lambda q, k, v, s: attention_reference.flash_attn(
            q, k, v, sinks=s, causal=True, softcap=2.0
        ),
        [q, k, v, normal(rng, sinks)], units=16,
    )  # fmt: skip


@example
def scaled_dot_product_attention(rng: Rng) -> Example:
    mask = rng.random((3, 4)) < 0.7
    mask[:, 0] = True
    return Example(
        lambda q, k, v, m: pk.scaled_dot_product_attention(q, k, v, m),
        lambda q, k, v, m: attention_reference.flash_attn(
            q[None], k[None], v[None], m
        )[0],
        [normal(rng, 1, 3, 2), normal(rng, 1, 4, 2), normal(rng, 1, 4, 1)], [mask], units=16,
    )  # fmt: skip


def _bias(name: str, heads: int, shape: tuple[int, ...], **options: Any) -> None:
    def make(rng: Rng) -> Example:
        return Example(
            lambda m, q, k, v: pk.flash_attn(q, k, v, mask=m, **options),
            lambda m, q, k, v: attention_reference.flash_attn(q, k, v, m, **options),
            [normal(rng, *shape), normal(rng, 1, 2, 2, 2), normal(rng, 1, heads, 3, 2),
             normal(rng, 1, heads, 3, 1)], units=16, wrt=1,
        )  # fmt: skip

    EXAMPLES[name] = make


_bias("bias_of_attention", 1, (2, 2, 3), causal=True, softcap=2.0)
_bias("bias_of_attention_in_a_window", 2, (1, 1, 2, 3), window=(0, 0), scale=0.7)
_bias("bias_of_attention_from_the_left", 2, (2, 3), causal="top-left", window=(1, None))


@example
def flash_attn_of_layer_one(rng: Rng) -> Example:
    """Without its lse, which is computed again."""

    def device(q: Any, k: Any, v: Any) -> Any:
        y = q.device.empty((1, 1, 2, 2))
        pk.kernels.flash_attn(q, k, v, y)
        return y

    return Example(
        device, attention_reference.flash_attn,
        [normal(rng, 1, 1, 2, 2), normal(rng, 1, 1, 2, 2), normal(rng, 1, 1, 2, 2)], units=16,
    )  # fmt: skip


# -- sparse matrices ------------------------------------------------------------------------------


@example
def sparse_rows(rng: Rng) -> Example:
    """With an empty row, a column without elements, and two elements of one place."""
    indices, ends = np.array([3, 0, 3, 3, 2], np.int32), np.array([0, 3, 3, 5], np.int32)

    def wanted(data: Array, x: Array, *_: Array) -> Array:
        each = data[:, None] * x[indices]
        return np.stack([each[a:b].sum(0) for a, b in itertools.pairwise(ends)])

    return Example(
        lambda data, x, i, e: pk.CSR((data, i, e), (3, 4)) @ x, wanted,
        [normal(rng, 5), normal(rng, 4, 3)], [indices, ends], wrt=2, units=8,
    )  # fmt: skip


# -- expressions ----------------------------------------------------------------------------------


@example
def expression(rng: Rng) -> Example:
    def wanted(a: Array, b: Array) -> Array:
        return np.where(a > 0, np.exp(-a * b) * 3, np.tanh(a + 2) / (1 + b * b))

    return Example(
        lambda x, y: pk.elementwise("where(x > 0, exp(-x * y) * 3, tanh(x + 2) / (1 + y**2))",
                                    x=x, y=y), wanted, [apart(rng, (3, 2)), normal(rng, 2)],
        units=12,
    )  # fmt: skip


@example
def clamp(rng: Rng) -> Example:
    return Example(lambda x: pk.clamp(x, -1, 1), lambda a: np.clip(a, -1, 1), [apart(rng, (2, 5))])


@example
def of_seven_tensors(rng: Rng) -> Example:
    """More than one kernel can read, with what comes back: computed step by step."""
    text = "(a * b + c * d) * tanh(e * f) + sigmoid(g * a)"
    names = "abcdefg"

    def wanted(*arrays: Array) -> Array:
        a, b, c, d, e, f, g = arrays
        return (a * b + c * d) * np.tanh(e * f) + 1 / (1 + np.exp(-g * a))

    return Example(
        lambda *t: pk.elementwise(text, **dict(zip(names, t, strict=True))), wanted,
        [normal(rng, 2) for _ in names], units=16,
    )  # fmt: skip


@example
def conversions(rng: Rng) -> Example:
    x = rng.normal(0, 1, (2, 3)).astype(np.float16)
    return Example(
        lambda t: t.astype("float32").T.astype("float16") * 2.0, lambda a: a.T * 2, [x], units=2
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradients_are_those_of_the_reference(dev: pk.Device, name: str) -> None:
    seed = zlib.crc32(name.encode())
    EXAMPLES[name](np.random.default_rng(seed)).check(dev, seed)


def test_every_kernel_between_floats_has_a_rule() -> None:
    """But steps of optimisers, and of decoding; backward kernels too, so that tapes nest."""
    without = set()
    for module in pkgutil.iter_modules(kernels.__path__):
        kernel = importlib.import_module(f"{kernels.__name__}.{module.name}").KERNEL
        floats = {a.role for a in kernel.args if a.name != "state" and "float32" in a.dtypes}
        if floats == {"in", "out"} and kernel.family != "optim" and rule_of(kernel) is None:
            without.add(kernel.name)
    assert not without
