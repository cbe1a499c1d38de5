"""Losses of classes and their gradients: vocabularies of language models, and images."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from pykernels import kernels
from pykernels.bench.case import Case, Operand
from pykernels.bench.peers import numpy_peer, torch_peer
from pykernels.bench.shapes import POWER, Shape, pick
from pykernels.dtypes import DTypeName

CHECKED = 64  # rows
SHAPES = [
    Shape("llama-2-logits", (8192, 32000), "Llama 2: logits of 8192 tokens"),
    Shape("gpt-2-logits", (1024, 50257), "GPT-2: logits of 1024 tokens"),
    Shape("llama-3-logits", (512, 128256), "Llama 3: logits of 512 tokens"),
    Shape("few-long-rows", (8, 128256), "Llama 3: logits of 8 tokens"),
    Shape("imagenet-logits", (4096, 1000), "ImageNet classes, batch 4096"),
    Shape("digits", (1 << 20, 10), "ten classes, a million rows"),
    Shape("4096", (4096, 4096), POWER),
]
PIXELS = Shape("pascal-voc-pixels", (8, 512, 512, 21), "Pascal VOC: 21 classes of 8 images")
MAIN = {
    "cross_entropy": ("f32xi64>f32-8192x32000", "f16xi64>f16-8192x32000"),
    "cross_entropy_backward": ("f32xi64>f32-8192x32000", "f16xi64xf32>f16-8192x32000"),
    "nll_loss": ("f32xi64>f32-8192x32000",),
    "nll_loss_backward": ("i64xf32>f32-8192x32000",),
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


def classes(n: int, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Classes, of which there are n."""
    return rng.integers(0, n, shape)


def operands(
    shape: tuple[int, ...], dtype: str, out: str, order: tuple[int, ...] = ()
) -> dict[str, Operand]:
    """The tensors of all of these calls, by name; each call takes some."""
    target = Operand(shape[:-1], "int64", values=partial(classes, shape[-1]))
    given, written = cast(DTypeName, dtype), cast(DTypeName, out)
    return {
        "x": Operand(shape, given, order), "target": target,
        "stats": Operand((*shape[:-1], 2), "float32"), "dy": Operand(shape[:-1], given),
        "loss": Operand(shape[:-1], written), "dx": Operand(shape, written, order),
    }  # fmt: skip


def last_rows(t: dict[str, Any]) -> dict[str, Any]:
    """The last rows of all tensors."""
    at = (-1,) * (t["target"].ndim - 1)
    return {n: a[at][-CHECKED:] for n, a in t.items()}


def forward(t: dict[str, Any]) -> None:
    """The stats of the logits."""
    loss = t["dst"].device.empty(t["target"].shape)
    kernels.cross_entropy(t["x"], t["target"], loss, stats=t["stats"], reduction="none")


def cross_entropy(
    shape: tuple[int, ...] = (8192, 32000), dtype: str = "float32", out: str = "float32",
    order: tuple[int, ...] = (),
) -> Case:  # fmt: skip
    """The loss of each row."""
    t = operands(shape, dtype, out, order)
    named = {"x": t["x"], "target": t["target"], "dst": t["loss"]}
    return Case("cross_entropy", named, {"reduction": "none"}, shape, part=last_rows)


def cross_entropy_backward(
    shape: tuple[int, ...] = (8192, 32000), dtype: str = "float32", out: str = "float32",
    order: tuple[int, ...] = (),
) -> Case:  # fmt: skip
    """The gradient by the logits, from that of each row."""
    t = operands(shape, dtype, out, order)
    named = {n: t[n] for n in ("x", "target", "stats", "dy")}
    return Case(
        "cross_entropy_backward", {**named, "dst": t["dx"]}, {}, shape, part=last_rows,
        prepare=forward,
    )  # fmt: skip


def nll_loss(
    shape: tuple[int, ...] = (8192, 32000), dtype: str = "float32", out: str = "float32"
) -> Case:
    """The loss of each row."""
    t = operands(shape, dtype, out)
    named = {"x": t["x"], "target": t["target"], "dst": t["loss"]}
    return Case("nll_loss", named, {"reduction": "none"}, shape, part=last_rows)


def nll_loss_backward(
    shape: tuple[int, ...] = (8192, 32000), dtype: str = "float32", out: str = "float32"
) -> Case:
    """The gradient by the input, from that of each row."""
    t = operands(shape, dtype, out)
    named = {"target": t["target"], "dy": t["dy"], "dst": t["dx"]}
    return Case("nll_loss_backward", named, {}, shape, part=last_rows)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
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
    """Gradients as autograd takes them: from logarithms of probabilities that the forward call has
    left; what they are does not change their time."""
    aten, kernel = torch.ops.aten, case.kernel
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
    if logs.ndim > 2:  # of four axes
        flat = logs.flatten(2)[..., None]
        given = (t["dy"].flatten(1)[..., None], flat, t["target"].flatten(1)[..., None], *given[3:])
    grad = backward(*given).reshape(logs.shape)
    if kernel == "nll_loss_backward":
        moved["dst"].copy_(grad)
    else:
        aten._log_softmax_backward_data.out(grad, logs, axis, logs.dtype, out=moved["dst"])


PEERS = {"numpy": numpy, "torch": torch}
