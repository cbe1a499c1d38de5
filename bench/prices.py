"""Measures what a call of each public function costs the host (time, dispatches, tensors, buffers),
and compares it with a bound.

Calls are warm, have small shapes (`bench.functions`), and take and return tensors. Host time is the
time of a call inside `batch()`: the least of several rounds, because other programs disturb that
round least. In a round the calls alternate with calls of `pk.softmax`. The time of a dispatch
relative to softmax is a median over rounds.
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
from pykernels.runtime.bound import MAX_LAUNCHES

__all__ = ["REASONS", "Price", "price", "prices", "table"]

CALL, DISPATCH, OUTPUT = 5e-6, 2e-6, 1e-6
ROUNDS, LOOP = 9, 30

# The reasons why functions exceed the bound; each reason has the names of the functions.
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
        "ctc_loss",
        "flatten_parameters",
        "from_dlpack",
        "histogram",
        "manual_seed",
        "random_state",
        "rope_table",
        "tensor",
    ),
    "draws from a state of the device, so the call is not kept": (
        "dropout",
        "kaiming_normal",
        "kaiming_uniform",
        "randint",
        "randperm",
        "xavier_normal",
        "xavier_uniform",
    ),
    "makes a temporary tensor between its dispatches, a tensor more for each": (
        "avg_pool3d",
        "binary_cross_entropy",
        "conv_transpose3d",
        "cosine_similarity",
        "embedding_backward",
        "grid_sample",
        "gru",
        "gru_cell",
        "local_response_norm",
        "lstm",
        "lstm_cell",
        "max_pool3d",
        "max_unpool2d",
        "narrow",
        "one_hot",
        "quantile",
        "rnn",
        "rnn_cell",
    ),
    "keeps a slot for what it reports of its indices": (
        "expert_linear",
        "rope",
        "rope_append",
        "set_rows",
    ),
    "finds what it keeps of a call by more than three tensors or options": (
        "batch_norm",
        "copy",
        "dequantize",
        "dot",
        "einsum",
        "quantize",
        "rms_norm_linear",
        "tensordot",
    ),
    "is a kernel: its number is converted to words of the dtype in each call": (
        "fill",
        "memset",
    ),
    "is an expression: names and types of all operands are looked up": ("masked_fill",),
    "takes a matrix of three tensors, so the call is not kept": ("csr_matmul",),
    "takes views of several arguments in each call": ("conv1d_backward_weight",),
}
REASONS = {name: why for why, names in _WHY.items() for name in names}


@dataclass(frozen=True)
class Price:
    """The price of one call: its host seconds (the least of the rounds), its dispatches, outputs
    and new buffers, and its host time for each dispatch relative to a `pk.softmax`."""

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
    loop = min(LOOP, (MAX_LAUNCHES - 2 * LOOP) // max(dispatches, 1))
    for _ in range(rounds):
        with dev.batch():
            beside = _cost(plain, LOOP)
            times.append(_cost(call, loop))
            beside = (beside + _cost(plain, LOOP)) / 2
        dev.sync()
        shares.append(times[-1] / beside / max(dispatches, 1))
    buffers = (dev.memory_stats().misses - made) // (rounds * loop)
    return Price(
        name, min(times), dispatches, _count(result), buffers,
        statistics.median(shares),
    )  # fmt: skip


def _cost(call: Call, loop: int) -> float:
    """The mean host seconds of a call in a loop. A loop has fewer launches than fill a batch, so
    that it contains no submit: some drivers do their work inside of submits."""
    started = time.perf_counter()
    for _ in range(loop):
        call()
    return (time.perf_counter() - started) / loop


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
