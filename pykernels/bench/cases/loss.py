"""Losses of classes and their gradients: vocabularies of language models, and images; means of
losses of elements."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from pykernels import functional, kernels
from pykernels.bench.case import Case, Function, Operand
from pykernels.bench.peers import numpy_peer, torch_peer
from pykernels.bench.shapes import POWER, Shape, pick
from pykernels.dtypes import DTypeName
from pykernels.reference import loss as reference

CHECKED = 64  # number of rows that are checked
SHAPES = [
    Shape("llama-2-logits", (8192, 32000), "Llama 2: logits of 8192 tokens"),
    Shape("gpt-2-logits", (1024, 50257), "GPT-2: logits of 1024 tokens"),
    Shape("llama-3-logits", (512, 128256), "Llama 3: logits of 512 tokens"),
    Shape("few-long-rows", (8, 128256), "Llama 3: logits of 8 tokens"),
    Shape("imagenet-logits", (4096, 1000), "ImageNet classes, batch 4096"),
    Shape("digits", (1 << 20, 10), "ten classes, a million rows"),
    Shape("4096", (4096, 4096), POWER),
]
MEANS = Shape("16384x4096", (16384, 4096), POWER)
PIXELS = Shape("pascal-voc-pixels", (8, 512, 512, 21), "Pascal VOC: 21 classes of 8 images")
MAIN = {
    "cross_entropy": ("f32xi64>f32-8192x32000", "f16xi64>f16-8192x32000"),
    "cross_entropy_backward": ("f32xi64>f32-8192x32000", "f16xi64xf32>f16-8192x32000"),
    "nll_loss": ("f32xi64>f32-8192x32000",),
    "nll_loss_backward": ("i64xf32>f32-8192x32000",),
    "mse_loss": ("f32-16384x4096", "f16-16384x4096"),
    "binary_cross_entropy_with_logits": ("f32-16384x4096", "f16-16384x4096"),
}


def cases(edge: int = 0) -> Iterator[Case]:
    for make in (cross_entropy, cross_entropy_backward):
        for s in pick(SHAPES, edge):
            for dtype in ("float32", "float16"):
                yield make(s.dims, dtype, dtype).labelled(name=s.name, origin=s.origin)
        for s in pick([PIXELS], edge):
            case = make(s.dims, order=(0, 3, 1, 2))
            yield case.labelled(name=s.name, origin=s.origin, note="classes apart")
    for s in pick(SHAPES[:1], edge):
        for case in (nll_loss(s.dims), nll_loss_backward(s.dims)):
            yield case.labelled(name=s.name, origin=s.origin)
    for s in pick([MEANS], edge):
        for of in (mse_loss, binary_cross_entropy_with_logits):
            for dtype in ("float32", "float16"):
                yield of(s.dims, dtype).labelled(name=s.name, origin=s.origin)


def classes(n: int, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Random class indices below n."""
    return rng.integers(0, n, shape)


def operands(
    shape: tuple[int, ...], dtype: str, out: str, order: tuple[int, ...] = ()
) -> dict[str, Operand]:
    """The tensors of cross_entropy, nll_loss and their gradients, by name; each case takes some of
    them."""
    target = Operand(shape[:-1], "int64", values=partial(classes, shape[-1]))
    given, written = cast(DTypeName, dtype), cast(DTypeName, out)
    return {
        "x": Operand(shape, given, order), "target": target,
        "stats": Operand((*shape[:-1], 2), "float32"), "dy": Operand(shape[:-1], given),
        "loss": Operand(shape[:-1], written), "dx": Operand(shape, written, order),
    }  # fmt: skip


def last_rows(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the last rows of each tensor."""
    at = (-1,) * (t["target"].ndim - 1)
    return {n: a[at][-CHECKED:] for n, a in t.items()}


def forward(t: dict[str, Any]) -> None:
    """Computes `stats` of the logits."""
    loss = t["dst"].device.empty(t["target"].shape)
    kernels.cross_entropy(t["x"], t["target"], loss, stats=t["stats"], reduction="none")


def cross_entropy(
    shape: tuple[int, ...] = (8192, 32000), dtype: str = "float32", out: str = "float32",
    order: tuple[int, ...] = (),
) -> Case:  # fmt: skip
    """A case: the loss of each row, from logits."""
    t = operands(shape, dtype, out, order)
    named = {"x": t["x"], "target": t["target"], "dst": t["loss"]}
    return Case("cross_entropy", named, {"reduction": "none"}, shape, part=last_rows)


def cross_entropy_backward(
    shape: tuple[int, ...] = (8192, 32000), dtype: str = "float32", out: str = "float32",
    order: tuple[int, ...] = (),
) -> Case:  # fmt: skip
    """A case: the gradient of the logits, from the gradient of each row's loss."""
    t = operands(shape, dtype, out, order)
    named = {n: t[n] for n in ("x", "target", "stats", "dy")}
    return Case(
        "cross_entropy_backward", {**named, "dst": t["dx"]}, {}, shape, part=last_rows,
        prepare=forward,
    )  # fmt: skip


def nll_loss(
    shape: tuple[int, ...] = (8192, 32000), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the loss of each row, from logarithms of probabilities."""
    t = operands(shape, dtype, out)
    named = {"x": t["x"], "target": t["target"], "dst": t["loss"]}
    return Case(
        "nll_loss", named, {"reduction": "none"}, shape, part=last_rows, used={"x": shape[:-1]}
    )


def nll_loss_backward(
    shape: tuple[int, ...] = (8192, 32000), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the gradient of the input, from the gradient of each row's loss."""
    t = operands(shape, dtype, out)
    named = {"target": t["target"], "dy": t["dy"], "dst": t["dx"]}
    return Case("nll_loss_backward", named, {}, shape, part=last_rows)


def mse_loss(shape: tuple[int, ...] = (16384, 4096), dtype: str = "float32", out: str = "") -> Case:
    """A case: the mean of squared errors."""
    return mean_of("mse_loss", shape, dtype, 4)


def binary_cross_entropy_with_logits(
    shape: tuple[int, ...] = (16384, 4096), dtype: str = "float32", out: str = ""
) -> Case:
    """A case: the mean of cross entropies of single logits."""
    return mean_of("binary_cross_entropy_with_logits", shape, dtype, 12)


def mean_of(name: str, shape: tuple[int, ...], dtype: str, operations: int) -> Case:
    """A case: the mean of a loss of each element; `operations` is the number of operations for an
    element."""

    def call(input: Any, target: Any, dst: Any) -> None:
        getattr(functional, name)(input, target, out=dst)

    def meaning(input: Any, target: Any, shape: tuple[int, ...]) -> Any:
        return np.asarray(getattr(reference, name)(input, target).mean())

    def bound(input: Any, target: Any, shape: tuple[int, ...]) -> Any:
        losses = np.abs(getattr(reference, name)(input, target))
        return np.asarray(2.0**-23 * (math.sqrt(losses.size) + 32) * losses.mean())

    given = cast(DTypeName, dtype)
    tensors = {
        "input": Operand(shape, given), "target": Operand(shape, given, values=probabilities),
        "dst": Operand((), given),
    }  # fmt: skip
    made = Function(call, meaning, bound, operations * math.prod(shape))
    return Case(name, tensors, {}, shape, function=made)


def probabilities(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers from 0 to 1."""
    return rng.random(shape, np.float32)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    if case.kernel == "mse_loss":
        return np.square(t["input"] - t["target"]).mean()
    if case.kernel == "binary_cross_entropy_with_logits":
        x, y = t["input"], t["target"]
        return (np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))).mean()
    own = t["target"][..., None]
    if case.kernel == "nll_loss":
        return -np.take_along_axis(t["x"], own, -1)[..., 0]
    if case.kernel == "nll_loss_backward":
        dx = np.zeros(case.shape, t["dy"].dtype)
        np.put_along_axis(dx, own, -t["dy"][..., None], -1)
        return dx
    x = t["x"] - t["x"].max(-1, keepdims=True)
    e = np.exp(x)
    if case.kernel == "cross_entropy":
        return np.log(e.sum(-1)) - np.take_along_axis(x, own, -1)[..., 0]
    dx = e / e.sum(-1, keepdims=True)
    np.put_along_axis(dx, own, np.take_along_axis(dx, own, -1) - 1, -1)
    return t["dy"][..., None] * dx


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    """torch's losses, or their gradients as autograd computes them from logarithms of
    probabilities. Other numbers stand for the logarithms, because values do not change the
    time."""
    aten, kernel = torch.ops.aten, case.kernel
    if case.function is not None:
        t["dst"].copy_(getattr(torch.nn.functional, kernel)(t["input"], t["target"]))
        return
    axis = min(1, t["target"].ndim)
    moved = {n: t[n].movedim(-1, axis) for n in ("x", "dst") if n in t and t[n].ndim > axis}
    if not kernel.endswith("backward"):
        loss = getattr(torch.nn.functional, kernel)(moved["x"], t["target"], reduction="none")
        t["dst"].copy_(loss)
        return
    nothing = torch.zeros((), dtype=t["dst"].dtype, device=t["dst"].device)
    logs = moved.get("x", moved["dst"])
    backward = aten.nll_loss2d_backward if logs.ndim > 2 else aten.nll_loss_backward
    given = (t["dy"], logs, t["target"], None, 0, -100, nothing)
    if logs.ndim > 2:  # nll_loss2d takes tensors of four axes
        flat = logs.flatten(2)[..., None]
        given = (t["dy"].flatten(1)[..., None], flat, t["target"].flatten(1)[..., None], *given[3:])
    grad = backward(*given).reshape(logs.shape)
    if kernel == "nll_loss_backward":
        moved["dst"].copy_(grad)
    else:
        aten._log_softmax_backward_data.out(grad, logs, axis, logs.dtype, out=moved["dst"])


PEERS = {"numpy": numpy, "torch": torch}
