"""Norms of rows and of images, the norm of a sum, and the gradients of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.peers import Skipped, numpy_peer, torch_peer
from pykernels.bench.shapes import POWER, RAGGED, Shape, pick
from pykernels.dtypes import DTypeName

# rows x cols
ROWS = [
    Shape("hidden", (8192, 4096), "hidden states: 8192 tokens of 4096, as in Llama 3 8B"),
    Shape("gpt-2", (65536, 768), "GPT-2: hidden states of 64 sequences of 1024"),
    Shape("llama-3-70b", (4096, 8192), "Llama 3 70B: hidden states of 4096 tokens"),
    Shape("head-dim", (1048576, 128), "one head of 128 for each row: norms of queries and keys"),
    Shape("4095", (4095, 4095), RAGGED),
    Shape("decode", (1, 4096), "one token"),
    Shape("long-rows", (64, 1 << 20), POWER),
]
# batch x channels x height x width x groups
IMAGES = [
    Shape("sd-64", (2, 320, 64, 64, 32), "Stable Diffusion's U-Net, 64 x 64"),
    Shape("sd-16", (16, 1280, 16, 16, 32), "Stable Diffusion's U-Net, 16 x 16"),
    Shape("resnet-50-conv1", (64, 64, 112, 112, 32), "ResNet-50: conv1, batch 64"),
    Shape("resnet-50-conv5", (64, 2048, 7, 7, 32), "ResNet-50: conv5_x, batch 64"),
    Shape("vectors", (65536, 1024, 1, 1, 32), "BatchNorm1d: 65536 vectors"),
]
BY_ROWS = {
    "layer_norm": ("weight", "bias"), "rms_norm": ("weight",), "l2_norm": (),
    "add_layer_norm": ("residual", "weight", "bias"), "add_rms_norm": ("residual", "weight"),
    "layer_norm_backward": ("weight", "dweight", "dbias"),
    "rms_norm_backward": ("weight", "dweight"), "l2_norm_backward": (),
}  # fmt: skip
BY_CHANNEL = {
    "group_norm": ("weight", "bias"),
    "group_norm_backward": ("weight", "dweight", "dbias"),
    "batch_norm": ("mean", "variance", "weight", "bias"),
    "batch_norm_training": ("weight", "bias", "running_mean", "running_variance"),
    "batch_norm_backward": ("saved", "weight", "dweight", "dbias"),
}
# The outputs after dst, in the order in which the references return them.
WRITTEN = ("dweight", "dbias", "running_mean", "running_variance")
# kernels that are measured on all shapes of rows; other kernels on some shapes
EVERYWHERE = ("layer_norm", "rms_norm_backward")
IN_F16 = ("layer_norm", "rms_norm", "layer_norm_backward")
MAIN = {
    **{kernel: ("f32-8192x4096",) for kernel in BY_ROWS},
    **{kernel: ("f32-8192x4096", "f16-8192x4096") for kernel in IN_F16},
    "group_norm": ("f32-16x1280x16x16-groups_32",),
    "group_norm_backward": ("f32-16x1280x16x16-groups_32",),
    "batch_norm": ("f32-64x64x112x112",),
    "batch_norm_training": ("f32-64x64x112x112",),
    "batch_norm_backward": ("f32-64x64x112x112",),
}


def cases(edge: int = 0) -> Iterator[Case]:
    for kernel in BY_ROWS:
        for s in pick(ROWS, edge):
            if kernel in EVERYWHERE or s.name in ("hidden", "decode"):
                case = by_rows(kernel, s.dims, "float32")
                yield case.labelled(name=s.name, origin=s.origin)
                if s.name == "hidden" and kernel in IN_F16:
                    yield by_rows(kernel, s.dims, "float16").labelled(name=s.name, origin=s.origin)
    for kernel in BY_CHANNEL:
        for s in pick(IMAGES, edge):
            if kernel.startswith("group") == s.name.startswith("sd"):
                yield by_channel(kernel, s.dims).labelled(name=s.name, origin=s.origin)


def __getattr__(name: str) -> Callable[..., Case]:
    if name in BY_ROWS:
        return partial(by_rows, name)
    if name in BY_CHANNEL:
        return partial(by_channel, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def by_rows(
    kernel: str, shape: tuple[int, ...] = (8192, 4096), dtype: str = "float32", out: str = ""
) -> Case:
    """A case: a norm over the last axis, with all of its arguments."""
    given = cast(DTypeName, dtype)
    x, w = Operand(shape, given), Operand(shape[-1:], given)
    tensors = {"dy": x, "x": x} if kernel.endswith("backward") else {"x": x}
    tensors |= {n: x if n == "residual" else w for n in BY_ROWS[kernel] if n not in WRITTEN}
    if kernel.startswith("add"):
        tensors["summed"] = x
    tensors["dst"] = x
    tensors |= {n: w for n in BY_ROWS[kernel] if n in WRITTEN}
    part = None if kernel.endswith("backward") or len(shape) < 2 else some_rows
    return Case(kernel, tensors, {}, shape, part=part)


def by_channel(
    kernel: str, shape: tuple[int, ...] = (16, 64, 56, 56, 32), dtype: str = "float32",
    out: str = "",
) -> Case:  # fmt: skip
    """A case: a norm of images; the last number of the shape is the number of groups."""
    *size, groups = shape
    dims, channels = tuple(size), size[1]
    x, w = Operand(dims, cast(DTypeName, dtype)), Operand((channels,), "float32")
    count = int(np.prod(dims)) // max(channels, 1)
    special = {
        "variance": Operand((channels,), "float32", values=positive),
        "saved": Operand((3, channels), "float32", values=partial(moments, count)),
    }
    tensors = {"dy": x, "x": x} if kernel.endswith("backward") else {"x": x}
    names = sorted([*BY_CHANNEL[kernel], "dst"], key=lambda n: (n in WRITTEN, n == "dst"))
    tensors |= {n: x if n == "dst" else special.get(n, w) for n in names}
    args = {"groups": groups} if kernel.startswith("group") else {}
    note = f"groups {groups}" if args else ""
    return Case(kernel, tensors, args, dims, note=note)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.random(shape, np.float32) + 0.5


def moments(count: int, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """`saved` for `count` numbers in [-1, 1): the mean, its rounding error, and the sum
    of squared differences from the mean."""
    found = np.zeros(shape, np.float32)
    found[2] = count / 3
    return found


def some_rows(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the last rows."""
    return {k: v[-77:] if v.shape == t["dst"].shape else v for k, v in t.items()}


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    x = t["x"] + t["residual"] if "residual" in t else t["x"]
    axes = (-1,) if case.kernel in BY_ROWS else (0, 2, 3)
    if case.kernel.endswith("layer_norm") or case.kernel == "batch_norm_training":
        x = x - x.mean(axes, keepdims=True)
        y = x / np.sqrt((x * x).mean(axes, keepdims=True) + 1e-5)
    elif case.kernel.endswith("rms_norm"):
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    elif case.kernel == "l2_norm":
        y = x / np.sqrt((x * x).sum(-1, keepdims=True))
    else:
        raise Skipped("this peer is written for norms of x only, without sums or groups")
    for name, scaled in (("weight", np.multiply), ("bias", np.add)):
        if name in t:
            y = scaled(y, t[name] if axes == (-1,) else t[name][:, None, None])
    return y


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    kernel, x, f = case.kernel, t["x"], torch.nn.functional
    w, b, last = t.get("weight"), t.get("bias"), (t["x"].shape[-1],)
    if kernel.endswith("backward"):
        torch_backward(torch, case, t)
        return
    if kernel.startswith("add"):
        x = torch.add(x, t["residual"], out=t["summed"])
    if kernel.endswith("layer_norm"):
        f.layer_norm(x, last, w, b, 1e-5)
    elif kernel.endswith("rms_norm"):
        f.rms_norm(x, last, w, 1e-6)
    elif kernel == "l2_norm":
        f.normalize(x, dim=-1, out=t["dst"])
    elif kernel == "group_norm":
        f.group_norm(x, case.args["groups"], w, b)
    elif kernel == "batch_norm":
        f.batch_norm(x, t["mean"], t["variance"], w, b)
    else:
        f.batch_norm(x, t["running_mean"], t["running_variance"], w, b, training=True)


def torch_backward(torch: Any, case: Case, t: dict[str, Any]) -> None:
    """torch's backward call; the forward results that it needs are computed once."""
    kernel, x, dy, aten = case.kernel, t["x"], t["dy"], torch.ops.aten
    w, size = t.get("weight"), list(case.tensors["x"].shape)
    if kernel == "layer_norm_backward":
        if "kept" not in t:
            t["kept"] = aten.native_layer_norm(x, size[-1:], w, w, 1e-5)[1:]
        aten.native_layer_norm_backward(dy, x, size[-1:], *t["kept"], w, w, [True] * 3)
    elif kernel == "group_norm_backward":
        n, c, height, width = size
        of = (n, c, height * width, case.args["groups"])
        if "kept" not in t:
            t["kept"] = aten.native_group_norm(x, w, w, *of, 1e-5)[1:]
        aten.native_group_norm_backward(dy, x, *t["kept"], w, *of, [True] * 3)
    elif kernel == "batch_norm_backward":
        if "kept" not in t:
            t["kept"] = aten.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5)[1:]
        aten.native_batch_norm_backward(dy, x, w, None, None, *t["kept"], True, 1e-5, [True] * 3)
    else:
        if "graph" not in t:
            leaves = [v.detach().requires_grad_() for v in (x, w) if v is not None]
            f = torch.nn.functional
            rms = kernel == "rms_norm_backward"
            y = f.rms_norm(leaves[0], tuple(size[-1:]), leaves[1], 1e-6) if rms else None
            t["graph"] = y if rms else f.normalize(leaves[0], dim=-1), leaves
        y, leaves = t["graph"]
        torch.autograd.grad(y, leaves, dy, retain_graph=True)


PEERS = {"numpy": numpy, "torch": torch}
