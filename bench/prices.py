"""The cost of a call of each public function on the host: time, dispatches, tensors, buffers; and
the bound of that cost.

Calls are warm, with small shapes (`bench.functions`), from tensors to tensors. Host time is the
time of a call inside `batch()`: the least of several rounds, because other programs disturb it
least. In a round the calls alternate with calls of `pk.softmax`. The time of a dispatch relative to
softmax is a median over rounds.
A call with one dispatch and one output may take CALL seconds; each further dispatch adds DISPATCH,
each further output adds OUTPUT. These bounds hold on the machine of the bench; on another machine,
compare the values relative to `softmax`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pykernels as pk
from bench.functions import Call, functions

__all__ = ["REASONS", "Price", "price", "prices", "table"]

CALL, DISPATCH, OUTPUT = 5e-6, 2e-6, 1e-6
ROUNDS, LOOP = 9, 30

# The reasons why functions exceed the bound, each with these functions.
_WHY = {
    "waits for the device: it reads how many there are, or the answer": (
        "allclose",
        "masked_select",
        "nms",
        "nonzero",
        "unique",
    ),
    "writes numbers of the host to the device in each call": (
        "asarray",
        "flatten_parameters",
        "from_dlpack",
        "gru",
        "histogram",
        "lstm",
        "lstm_cell",
        "manual_seed",
        "quantile",
        "random_state",
        "rnn",
        "rope_table",
        "tensor",
    ),
    "is made of calls of other functions, and of views between them": (
        "avg_pool3d",
        "batch_norm",
        "binary_cross_entropy",
        "cat",
        "categorical",
        "clip_grad_norm",
        "concatenate",
        "conv3d",
        "conv_transpose3d",
        "cosine_similarity",
        "ctc_loss",
        "deform_conv2d",
        "diag",
        "dot",
        "dropout",
        "einsum",
        "embedding_backward",
        "eye",
        "flash_attn_backward",
        "gated_delta_net",
        "gated_linear_attn",
        "grid_sample",
        "gru_cell",
        "kaiming_normal",
        "kaiming_uniform",
        "linspace",
        "local_response_norm",
        "max_pool3d",
        "max_unpool1d",
        "max_unpool2d",
        "narrow",
        "one_hot",
        "pad",
        "randint",
        "randperm",
        "repeat",
        "rnn_cell",
        "roll",
        "rwkv6",
        "rwkv7",
        "scatter",
        "scatter_add",
        "set_rows",
        "ssm_scan",
        "stack",
        "tensordot",
        "tile",
        "win_part",
        "win_unpart",
        "xavier_normal",
        "xavier_uniform",
    ),
    "makes views only, each by Python's checks": (
        "chunk",
        "expand_dims",
        "flip",
        "get_rel_pos",
        "meshgrid",
        "split",
        "squeeze",
        "unsqueeze",
    ),
    "makes a tensor of a shape that is checked anew in each call": (
        "arange",
        "fill",
        "full",
        "full_like",
        "memset",
        "ones",
        "ones_like",
        "zeros",
        "zeros_like",
    ),
    "judges its arguments anew in each call: it has no short path yet": (
        "binary_cross_entropy_with_logits",
        "bincount",
        "clip_grad_value",
        "copy",
        "copyto",
        "dequantize",
        "expert_linear",
        "huber_loss",
        "interpolate",
        "kl_div",
        "l1_loss",
        "mse_loss",
        "quantize",
        "rms_norm_linear",
        "roi_align",
        "rope_append",
        "smooth_l1_loss",
        "solve_triangular",
    ),
    "takes views of several arguments, or makes two results, in each call": (
        "adaptive_avg_pool1d",
        "adaptive_max_pool1d",
        "add_layer_norm",
        "add_rms_norm",
        "conv1d",
        "conv1d_backward_weight",
        "scaled_matmul",
        "top_k",
        "topk",
    ),
    "keeps a slot for what it reports of its indices": (
        "cross_entropy",
        "embedding",
        "gather",
        "get_rows",
        "index_select",
        "nll_loss",
        "rope",
        "take_along_axis",
    ),
    "is an expression: names and types of all operands are looked up": (
        "clamp",
        "clip",
        "elementwise",
        "glu",
        "isclose",
        "masked_fill",
        "nan_to_num",
        "reduction",
    ),
    "draws from a state, which is counted on": (
        "bernoulli",
        "dropout_mask",
        "rand",
        "rand_like",
        "randn",
        "randn_like",
    ),
}
REASONS = {name: why for why, names in _WHY.items() for name in names}


@dataclass(frozen=True)
class Price:
    """The price of one call: the least seconds of host time, dispatches, outputs, new buffers, and
    the time of a dispatch relative to a `pk.softmax`."""

    name: str
    host: float
    dispatches: int
    outputs: int
    buffers: int
    share: float = 0.0

    @property
    def bound(self) -> float:
        further = DISPATCH * max(self.dispatches - 1, 0) + OUTPUT * max(self.outputs - 1, 0)
        return CALL + further


def prices(dev: pk.Device, only: str = "", rounds: int = ROUNDS) -> Iterator[Price]:
    """The price of each public function whose name contains `only`."""
    x = dev.rand((8, 128), seed=0)
    for name, call in sorted(functions(dev).items()):
        if only in name:
            yield price(dev, name, call, lambda: pk.softmax(x), rounds)


def price(dev: pk.Device, name: str, call: Call, plain: Call, rounds: int = ROUNDS) -> Price:
    """The price of a call over several rounds, after a warm-up."""
    for _ in range(3):
        call()
        plain()
    with dev.profile() as p:
        result = call()
    dispatches = len(p.records)
    times, shares, made = [], [], dev.memory_stats().misses
    for _ in range(rounds):
        with dev.batch():
            beside = _cost(plain)
            times.append(_cost(call))
            beside = (beside + _cost(plain)) / 2
        dev.sync()
        shares.append(times[-1] / beside / max(dispatches, 1))
    buffers = (dev.memory_stats().misses - made) // (rounds * LOOP)
    return Price(
        name, min(times), dispatches, _count(result), buffers,
        statistics.median(shares),
    )  # fmt: skip


def _cost(call: Call) -> float:
    """Mean host seconds of LOOP calls."""
    started = time.perf_counter()
    for _ in range(LOOP):
        call()
    return (time.perf_counter() - started) / LOOP


def _count(result: object) -> int:
    """The number of tensors that a call returns."""
    if isinstance(result, (tuple, list)):
        return sum(_count(r) for r in result)
    return int(isinstance(result, pk.Tensor))


def table(found: Sequence[Price]) -> Iterator[str]:
    """The prices as a table, most expensive first. Lines of functions above the bound end with the
    reason, if it is known."""
    yield f"{'function':<32}{'host us':>10}{'x softmax':>11}{'dispatches':>12}{'outputs':>9}" + (
        f"{'new buffers':>13}{'bound us':>10}"
    )
    for p in sorted(found, key=lambda p: -p.host):
        over = p.host > p.bound
        reason = f"  {REASONS.get(p.name, 'above, no reason is known')}" if over else ""
        counts = f"{p.dispatches:>12}{p.outputs:>9}{p.buffers:>13}"
        yield f"{p.name:<32}{p.host * 1e6:>10.1f}{p.share:>11.2f}{counts}" + (
            f"{p.bound * 1e6:>10.0f}{reason}"
        )
