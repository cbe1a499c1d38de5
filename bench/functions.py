"""A small call of every public function, from tensors to tensors.

A new function gets one row here. `bench.prices` uses these calls, and so do the tests of the counts
of dispatches, of `pk.supports`, of bfloat16, and of an `out` in the memory of an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import pykernels as pk
from pykernels import functional
from pykernels._generated.ops.elementwise import OPS

__all__ = ["Arguments", "Call", "NamedCall", "arguments", "functions", "public"]

Call: TypeAlias = Callable[[], Any]
NamedCall: TypeAlias = dict[str, Call]
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


def public() -> list[str]:
    """The names of all functions of layer two, without classes."""
    names = sorted(functional.HOMES)
    return [name for name in names if not isinstance(getattr(functional, name), type)]


def functions(dev: pk.Device) -> NamedCall:
    """A call of each public function; several names of one function have the same call."""
    with dev.batch():
        given = Given(dev)
    found = {
        **_attention(given),
        **_complex(given),
        **_elementwise(given),
        **_images(given),
        **_indices(given),
        **_losses(given),
        **_makers(given),
        **_moves(given),
        **_norms(given),
        **_products(given),
        **_random(given),
        **_reductions(given),
        **_training(given),
        **_views(given),
    }
    calls = {getattr(functional, name): call for name, call in found.items()}
    for name in public():
        same = getattr(functional, name)
        if same in calls:
            found.setdefault(name, calls[same])
    return found


def arguments(dev: pk.Device) -> dict[str, Arguments]:
    """The arguments that each call passes to its function: by position, and by name. No function
    runs."""
    seen: list[Arguments] = []
    asked: list[bool] = []

    class Watched:
        """Stands for the package; once `asked` is not empty, its functions only record their
        arguments."""

        def __getattr__(self, name: str) -> Any:
            real = getattr(package, name)
            if isinstance(real, type):
                return real
            return lambda *args, **named: (
                seen.append((args, named)) if asked else real(*args, **named)
            )

    package = globals()["pk"]
    globals()["pk"] = Watched()
    try:
        calls, found = functions(dev), {}
        asked.append(True)
        for name, call in calls.items():
            seen.clear()
            call()
            [found[name]] = seen
    finally:
        globals()["pk"] = package
    return found


class Given:
    """Small tensors for the calls."""

    def __init__(self, dev: pk.Device) -> None:
        self.dev = dev
        self.x, self.y = dev.rand((8, 128), seed=0), dev.rand((8, 128), seed=1)
        self.w, self.v = dev.rand((128,), seed=2), dev.rand((128, 64), seed=3)
        self.image, self.taps = dev.rand((1, 8, 16, 16), seed=4), dev.rand((8, 8, 3, 3), seed=5)
        self.signal, self.few = dev.rand((1, 8, 16), seed=6), dev.rand((8, 8, 3), seed=7)
        self.q, self.square = dev.rand((1, 2, 8, 32), seed=8), dev.rand((8, 8), seed=9)
        self.eight = dev.rand((8,), seed=10)
        self.rows = dev.tensor(np.array([3, 1, 0, 2], "i4"))
        self.labels = dev.tensor(np.arange(8, dtype="i4"))
        self.index = dev.tensor(np.arange(32, dtype="i4").reshape(8, 4))
        self.whole = dev.tensor(np.arange(1024, dtype="i4").reshape(8, 128))
        self.mask = self.x > 0.5
        self.bytes = dev.tensor(np.ones((8, 128), "i1"))


def _elementwise(g: Given) -> NamedCall:
    """A call for each row of `ops.toml`, with its number of operands, and for functions that
    combine rows."""
    x, y = g.x, g.y

    def row(name: str) -> Call:
        op, function = OPS[name], getattr(pk, name)
        kinds = {"float32": (x, y), "int32": (g.whole, g.whole), "bool": (g.mask, g.mask)}
        usual = next(kinds[d] for d in kinds if d in op.dtypes)
        operands = [g.mask if n in op.conditions else usual[i % 2] for i, n in enumerate(op.inputs)]
        return lambda: function(*operands)

    return {name: row(name) for name in public() if name in OPS} | {
        "clamp": lambda: pk.clamp(x, 0.2, 0.8),
        "clip": lambda: pk.clip(x, 0.2, 0.8),
        "elementwise": lambda: pk.elementwise("x * y + 1", x=x, y=y),
        "isclose": lambda: pk.isclose(x, y),
        "allclose": lambda: pk.allclose(x, y),
        "masked_fill": lambda: pk.masked_fill(x, g.mask, 0.0),
        "narrow": lambda: pk.narrow(g.index.astype("int64")),
    }


def _complex(g: Given) -> NamedCall:
    x, y = (t.astype("float32") for t in (g.x, g.y))
    z, pairs = pk.complex(x, y), x.reshape(8, 64, 2)
    return {
        "angle": lambda: pk.angle(z),
        "complex": lambda: pk.complex(x, y),
        "conj": lambda: pk.conj(z),
        "imag": lambda: pk.imag(z),
        "real": lambda: pk.real(z),
        "view_as_complex": lambda: pk.view_as_complex(pairs),
        "view_as_real": lambda: pk.view_as_real(z),
    }


def _reductions(g: Given) -> NamedCall:
    x = g.x

    def over(name: str) -> Call:
        function = getattr(pk, name)
        return lambda: function(x, axis=1)

    names = (
        "all",
        "any",
        "argmax",
        "argmin",
        "argsort",
        "count_nonzero",
        "cumprod",
        "cumsum",
        "glu",
        "l2_norm",
        "log_softmax",
        "logsumexp",
        "max",
        "mean",
        "median",
        "min",
        "norm",
        "prod",
        "softmax",
        "sort",
        "std",
        "sum",
        "var",
    )
    return {name: over(name) for name in names} | {
        "reduction": lambda: pk.reduction("x * x", "sum", axis=1, x=x),
        "quantile": lambda: pk.quantile(x, 0.3, axis=1),
        "top_k": lambda: pk.top_k(x, 4),
        "softmax_backward": lambda: pk.softmax_backward(x, g.y),
        "l2_norm_backward": lambda: pk.l2_norm_backward(g.y, x),
        "bincount": lambda: pk.bincount(g.labels, length=9),
        "histogram": lambda: pk.histogram(g.w, 10, range=(0, 1)),
        "searchsorted": lambda: pk.searchsorted(g.w, g.eight),
        "unique": lambda: pk.unique(g.labels),
        "nms": lambda: pk.nms(g.x[:, :4], g.eight, 0.5),
    }


def _products(g: Given) -> NamedCall:
    x, v, q = g.x, g.v, g.q
    experts, pairs = g.dev.rand((4, 16, 128), seed=12), g.rows.reshape(4, 1)
    few, first, turned = x[:4], g.signal[0], g.bytes.T
    gates = _gates(g)
    ends = g.dev.tensor(np.array([0, 3, 8], "i4"))
    square = g.square.astype("float32")
    sparse = pk.CSR((g.eight.astype("float32"), g.labels, ends), (2, 8))
    three, one = [t[:24] for t in gates], [t[:8] for t in gates]
    return {
        "matmul": lambda: pk.matmul(x, v),
        "linear": lambda: pk.linear(x, g.y),
        "expert_linear": lambda: pk.expert_linear(few, experts, pairs),
        "dot": lambda: pk.dot(x, v),
        "einsum": lambda: pk.einsum("ij,jk->ik", x, v),
        "tensordot": lambda: pk.tensordot(x, v, 1),
        "scaled_matmul": lambda: pk.scaled_matmul(g.bytes, turned),
        "csr_matmul": lambda: pk.csr_matmul(sparse, g.square),
        "cholesky": lambda: pk.cholesky(square),
        "cholesky_solve": lambda: pk.cholesky_solve(g.x, g.square),
        "solve_triangular": lambda: pk.solve_triangular(g.square, g.x, upper=False),
        "det": lambda: pk.det(square),
        "inv": lambda: pk.inv(square),
        "lu_factor": lambda: pk.lu_factor(square),
        "slogdet": lambda: pk.slogdet(square),
        "solve": lambda: pk.solve(square, square),
        "gru": lambda: pk.gru(g.signal, *three),
        "gru_cell": lambda: pk.gru_cell(first, g.square, *three),
        "rnn": lambda: pk.rnn(g.signal, *one),
        "rnn_cell": lambda: pk.rnn_cell(first, g.square, *one),
        "lstm": lambda: pk.lstm(g.signal, *gates),
        "lstm_cell": lambda: pk.lstm_cell(first, (g.square, g.square), *gates),
        "gated_delta_net": lambda: pk.gated_delta_net(q, q, q, q[..., 0], q[..., 0]),
        "gated_linear_attn": lambda: pk.gated_linear_attn(q, q, q, q),
        "rwkv6": lambda: pk.rwkv6(q, q, q, q, q[0, 0]),
        "rwkv7": lambda: pk.rwkv7(q, q, q, q, q, q),
        "ssm_scan": lambda: pk.ssm_scan(q, q[..., 0], q[0, 0, :, 0], q[:, :, 0], q[:, :, 1]),
    }


def _gates(g: Given) -> tuple[pk.Tensor, pk.Tensor]:
    """Weights for 16 inputs and 8 cells; all are views of the same numbers."""
    return g.x.reshape(64, 16)[:32], g.x.reshape(128, 8)[:32]


def _norms(g: Given) -> NamedCall:
    x, w, image, eight = g.x, g.w, g.image, g.eight
    row = x[:1]
    return {
        "rms_norm_linear": lambda: pk.rms_norm_linear(row, w, g.y),
        "layer_norm": lambda: pk.layer_norm(x, 128, w, w),
        "rms_norm": lambda: pk.rms_norm(x, 128, w),
        "add_layer_norm": lambda: pk.add_layer_norm(x, g.y, 128, w, w),
        "add_rms_norm": lambda: pk.add_rms_norm(x, g.y, 128, w),
        "layer_norm_backward": lambda: pk.layer_norm_backward(g.y, x, 128, w),
        "rms_norm_backward": lambda: pk.rms_norm_backward(g.y, x, 128, w),
        "group_norm": lambda: pk.group_norm(image, 2),
        "instance_norm": lambda: pk.instance_norm(image),
        "batch_norm": lambda: pk.batch_norm(image, eight, eight),
        "local_response_norm": lambda: pk.local_response_norm(image, 3),
    }


def _images(g: Given) -> NamedCall:
    image, taps, signal, few = g.image, g.taps, g.signal, g.few
    small, at = pk.max_pool2d(image, 2, return_indices=True)
    short, places = pk.max_pool1d(signal, 2, return_indices=True)
    volume, cubes = image.reshape(1, 8, 4, 8, 8), g.x.reshape(8, 8, 2, 2, 4)[..., :2]
    whole = image[0]
    windows, columns = pk.win_part(whole, 4), pk.unfold(image, 2, stride=2)
    parts, nearest = pk.adaptive_max_pool2d(image, 4, return_indices=True)
    grid = g.square.reshape(1, 4, 8, 2)
    return {
        "conv1d": lambda: pk.conv1d(signal, few, padding=1),
        "conv1d_backward_bias": lambda: pk.conv1d_backward_bias(signal),
        "conv1d_backward_input": lambda: pk.conv1d_backward_input(
            signal, few, (1, 8, 16), padding=1
        ),
        "conv1d_backward_weight": lambda: pk.conv1d_backward_weight(
            signal, signal, (8, 8, 3), padding=1
        ),
        "conv2d": lambda: pk.conv2d(image, taps, padding=1),
        "conv2d_backward_bias": lambda: pk.conv2d_backward_bias(image),
        "conv2d_backward_input": lambda: pk.conv2d_backward_input(
            image, taps, (1, 8, 16, 16), padding=1
        ),
        "conv2d_backward_weight": lambda: pk.conv2d_backward_weight(
            image, image, (8, 8, 3, 3), padding=1
        ),
        "conv_transpose1d": lambda: pk.conv_transpose1d(signal, few),
        "conv_transpose2d": lambda: pk.conv_transpose2d(image, taps),
        "max_pool1d": lambda: pk.max_pool1d(signal, 2),
        "max_pool2d": lambda: pk.max_pool2d(image, 2),
        "max_pool2d_backward": lambda: pk.max_pool2d_backward(small, at, (1, 8, 16, 16), 2),
        "avg_pool1d": lambda: pk.avg_pool1d(signal, 2),
        "avg_pool2d": lambda: pk.avg_pool2d(image, 2),
        "avg_pool2d_backward": lambda: pk.avg_pool2d_backward(small, (1, 8, 16, 16), 2),
        "adaptive_avg_pool1d": lambda: pk.adaptive_avg_pool1d(signal, 4),
        "adaptive_avg_pool2d": lambda: pk.adaptive_avg_pool2d(image, 4),
        "adaptive_avg_pool2d_backward": lambda: pk.adaptive_avg_pool2d_backward(
            parts, (1, 8, 16, 16)
        ),
        "adaptive_max_pool1d": lambda: pk.adaptive_max_pool1d(signal, 4),
        "adaptive_max_pool2d": lambda: pk.adaptive_max_pool2d(image, 4),
        "adaptive_max_pool2d_backward": lambda: pk.adaptive_max_pool2d_backward(
            parts, nearest, (1, 8, 16, 16)
        ),
        "max_unpool1d": lambda: pk.max_unpool1d(short, places, 2),
        "max_unpool2d": lambda: pk.max_unpool2d(small, at, 2),
        "resize": lambda: pk.resize(image, (32, 32)),
        "interpolate": lambda: pk.interpolate(image, 32),
        "deform_conv2d": lambda: pk.deform_conv2d(image, image[:, :2], taps[..., :1, :1]),
        "grid_sample": lambda: pk.grid_sample(image, grid),
        "roi_align": lambda: pk.roi_align(image, g.square[:, :4], g.labels * 0, 4),
        "pixel_shuffle": lambda: pk.pixel_shuffle(image, 2),
        "pixel_unshuffle": lambda: pk.pixel_unshuffle(image, 2),
        "conv3d": lambda: pk.conv3d(volume, cubes),
        "max_pool3d": lambda: pk.max_pool3d(volume, 2),
        "conv_transpose3d": lambda: pk.conv_transpose3d(volume, cubes, stride=2),
        "avg_pool3d": lambda: pk.avg_pool3d(volume, 2),
        "unfold": lambda: pk.unfold(image, 2, stride=2),
        "fold": lambda: pk.fold(columns, 16, 2, stride=2),
        "win_part": lambda: pk.win_part(whole, 4),
        "win_unpart": lambda: pk.win_unpart(windows, (8, 16)),
    }


def _losses(g: Given) -> NamedCall:
    x, y = g.x, g.y
    stats = pk.stack([pk.max(x, axis=1), pk.logsumexp(x, axis=1)], axis=1)

    def of(name: str) -> Call:
        function = getattr(pk, name)
        return lambda: function(x, y)

    pairs = (
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "cosine_similarity",
        "huber_loss",
        "kl_div",
        "l1_loss",
        "mse_loss",
        "smooth_l1_loss",
    )
    logs, four = pk.log_softmax(x.reshape(8, 2, 64)), np.full(2, 4)
    return {name: of(name) for name in pairs} | {
        "ctc_loss": lambda: pk.ctc_loss(logs, g.index[1:3], 2 * four, four),
        "nll_loss": lambda: pk.nll_loss(x, g.labels),
        "cross_entropy": lambda: pk.cross_entropy(x, g.labels),
        "cross_entropy_backward": lambda: pk.cross_entropy_backward(x, g.labels, stats, g.eight),
    }


def _attention(g: Given) -> NamedCall:
    q, dev = g.q, g.dev
    o, lse = pk.flash_attn(q, q, q, return_lse=True)
    cache, places = dev.zeros((1, 2, 8, 32)), g.labels
    many = dev.rand((1, 4, 8, 32), seed=11)
    table = g.y.reshape(16, 64)[:15]
    return {
        "flash_attn": lambda: pk.flash_attn(q, q, q),
        "flash_attn_backward": lambda: pk.flash_attn_backward(q, q, q, o, lse, o),
        "scaled_dot_product_attention": lambda: pk.scaled_dot_product_attention(q, q, q),
        "rope": lambda: pk.rope(q, places),
        "rope_append": lambda: pk.rope_append(many, places, cache),
        "rope_table": lambda: pk.rope_table(32, device=dev),
        "get_rel_pos": lambda: pk.get_rel_pos(table, 8, 8),
        "timestep_embedding": lambda: pk.timestep_embedding(g.eight, 32),
    }


def _indices(g: Given) -> NamedCall:
    x, index = g.x, g.index
    target, part = g.dev.zeros((8, 128)), g.y[:, :4].copy()
    return {
        "get_rows": lambda: pk.get_rows(x, g.rows),
        "set_rows": lambda: pk.set_rows(g.y[:4], g.rows, target),
        "embedding": lambda: pk.embedding(x, g.rows),
        "embedding_backward": lambda: pk.embedding_backward(g.y[:4], g.rows, 8),
        "gather": lambda: pk.gather(x, 1, index),
        "take_along_axis": lambda: pk.take_along_axis(x, index, 1),
        "index_select": lambda: pk.index_select(x, 0, g.rows),
        "scatter": lambda: pk.scatter(x, 1, index, part),
        "scatter_add": lambda: pk.scatter_add(x, 1, index, part),
        "nonzero": lambda: pk.nonzero(x),
        "masked_select": lambda: pk.masked_select(x, g.mask),
        "one_hot": lambda: pk.one_hot(g.labels, 9),
    }


def _moves(g: Given) -> NamedCall:
    x, y = g.x, g.y
    target = g.dev.zeros((8, 128))
    return {
        "astype": lambda: pk.astype(x, "int32"),
        "copy": lambda: pk.copy(x),
        "copyto": lambda: pk.copyto(target, x),
        "stop_gradient": lambda: pk.stop_gradient(x),
        "concatenate": lambda: pk.concatenate([x, y]),
        "stack": lambda: pk.stack([x, y]),
        "pad": lambda: pk.pad(x, 1),
        "roll": lambda: pk.roll(x, 3, axis=1),
        "repeat": lambda: pk.repeat(x, 2, axis=0),
        "tile": lambda: pk.tile(x, (2, 1)),
        "diag": lambda: pk.diag(g.eight),
        "diag_mask_inf": lambda: pk.diag_mask_inf(x),
        "diag_mask_zero": lambda: pk.diag_mask_zero(x),
        "tril": lambda: pk.tril(x),
        "triu": lambda: pk.triu(x),
    }


def _views(g: Given) -> NamedCall:
    x = g.x
    return {
        "broadcast_to": lambda: pk.broadcast_to(x, (2, 8, 128)),
        "chunk": lambda: pk.chunk(x, 2),
        "diagonal": lambda: pk.diagonal(x),
        "expand": lambda: pk.expand(x, (2, 8, 128)),
        "expand_dims": lambda: pk.expand_dims(x, 0),
        "flatten": lambda: pk.flatten(x),
        "flip": lambda: pk.flip(x, 0),
        "meshgrid": lambda: pk.meshgrid(g.w, g.eight),
        "moveaxis": lambda: pk.moveaxis(x, 0, 1),
        "permute": lambda: pk.permute(x, (1, 0)),
        "split": lambda: pk.split(x, 2),
        "squeeze": lambda: pk.squeeze(g.image),
        "swapaxes": lambda: pk.swapaxes(x, 0, 1),
        "unsqueeze": lambda: pk.unsqueeze(x, 0),
    }


def _makers(g: Given) -> NamedCall:
    x, dev, array = g.x, g.dev, np.ones((8, 128), np.float32)
    target, blocks = dev.zeros((8, 128)), pk.quantize(x, "q8_0")
    return {
        "arange": lambda: pk.arange(64, device=dev),
        "asarray": lambda: pk.asarray(array, device=dev),
        "dequantize": lambda: pk.dequantize(blocks),
        "empty": lambda: pk.empty((8, 128), device=dev),
        "empty_like": lambda: pk.empty_like(x),
        "eye": lambda: pk.eye(8, device=dev),
        "fill": lambda: pk.fill(target, 1.0),
        "from_dlpack": lambda: pk.from_dlpack(array, device=dev),
        "full": lambda: pk.full((8, 128), 2.0, device=dev),
        "full_like": lambda: pk.full_like(x, 2.0),
        "linspace": lambda: pk.linspace(0, 1, 64, device=dev),
        "memset": lambda: pk.memset(target, 0),
        "ones": lambda: pk.ones((8, 128), device=dev),
        "ones_like": lambda: pk.ones_like(x),
        "quantize": lambda: pk.quantize(x, "q8_0"),
        "tensor": lambda: pk.tensor(array, device=dev),
        "zeros": lambda: pk.zeros((8, 128), device=dev),
        "zeros_like": lambda: pk.zeros_like(x),
    }


def _random(g: Given) -> NamedCall:
    x, dev, shape = g.x, g.dev, (8, 128)
    return {
        "bernoulli": lambda: pk.bernoulli(shape, device=dev),
        "categorical": lambda: pk.categorical(x),
        "dropout": lambda: pk.dropout(x),
        "dropout_mask": lambda: pk.dropout_mask(shape, device=dev),
        "kaiming_normal": lambda: pk.kaiming_normal(shape, device=dev),
        "kaiming_uniform": lambda: pk.kaiming_uniform(shape, device=dev),
        "manual_seed": lambda: pk.manual_seed(0),
        "rand": lambda: pk.rand(shape, device=dev),
        "rand_like": lambda: pk.rand_like(x),
        "randint": lambda: pk.randint(0, 9, shape, device=dev),
        "randn": lambda: pk.randn(shape, device=dev),
        "randn_like": lambda: pk.randn_like(x),
        "random_state": lambda: pk.random_state(0, device=dev),
        "randperm": lambda: pk.randperm(64, device=dev),
        "xavier_normal": lambda: pk.xavier_normal(shape, device=dev),
        "xavier_uniform": lambda: pk.xavier_uniform(shape, device=dev),
    }


def _training(g: Given) -> NamedCall:
    dev, gradient = g.dev, g.y
    weight, first, second, momentum = (dev.zeros((8, 128)) for _ in range(4))
    return {
        "adam_step": lambda: pk.adam_step(weight, gradient, first, second, 1),
        "adamw_step": lambda: pk.adamw_step(weight, gradient, first, second, 1),
        "sgd_step": lambda: pk.sgd_step(weight, gradient, momentum, momentum=0.9),
        "clip_grad_norm": lambda: pk.clip_grad_norm([gradient], 100.0),
        "clip_grad_value": lambda: pk.clip_grad_value([gradient], 100.0),
        "flatten_parameters": lambda: pk.flatten_parameters([g.x, g.w], device=dev),
    }
