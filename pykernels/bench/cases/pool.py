"""Maxima and means of windows, their positions and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.peers import torch_peer
from pykernels.bench.shapes import cut
from pykernels.dtypes import DTypeName
from pykernels.plans.pool.windows import output_size

Array = np.ndarray[Any, Any]
RESNET = (16, 64, 112, 112)  # the first pool of ResNet-50
HEAD = (256, 2048, 7, 7)  # the last pool of ResNet-50
THREE = {"kernel": 3, "stride": 2, "padding": 1}
TWO = {"kernel": 2, "stride": 2, "padding": 0}
SAME = {"kernel": 3, "stride": 1, "padding": 1}
FIVE = {"kernel": 5, "stride": 1, "padding": 2}
_ONE = "256x2048x7x7-to_1x1"
MAIN = {
    "max_pool2d": ("f32-16x64x112x112-3x3/2", "f32>i32-16x64x112x112-3x3/2_with_positions"),
    "avg_pool2d": ("f32-16x64x112x112-2x2/2",),
    "max_pool2d_backward": ("f32xi32>f32-16x64x112x112-3x3/2",),
    "avg_pool2d_backward": ("f32-16x64x112x112-2x2/2",),
    "adaptive_avg_pool2d": (f"f32-{_ONE}",), "adaptive_max_pool2d": (f"f32-{_ONE}",),
    "adaptive_avg_pool2d_backward": (f"f32-{_ONE}",),
    "adaptive_max_pool2d_backward": (f"f32xi32>f32-{_ONE}",),
}  # fmt: skip


def pooled(
    kernel: str, shape: tuple[int, ...], args: dict[str, int], dtype: str = "float32",
    positions: bool = False, last: bool = False,
) -> Case:  # fmt: skip
    """A case: a pool of these windows, or its gradient; `last`: channels are contiguous."""
    k, s, p = args["kernel"], args["stride"], args["padding"]
    sizes = [output_size(n, k, s, p, 1, False) for n in shape[2:]]
    result = (*shape[:2], *sizes)

    def inside(rng: np.random.Generator, of: tuple[int, ...]) -> Array:
        """Positions: one element of the image for each window."""
        at = [np.clip(np.arange(n) * s - p + k // 2, 0, m - 1)
              for n, m in zip(of[2:], shape[2:], strict=True)]  # fmt: skip
        plane = at[0][:, None] * shape[3] + at[1]
        return np.broadcast_to(plane, of).astype(np.int32)

    note = f"{k}x{k}/{s}" + " channels last" * last + " with positions" * positions
    case = _case(kernel, shape, result, dtype, positions, last, inside)
    return Case(kernel, case, args, shape, note, part=first)


def divided(
    kernel: str, shape: tuple[int, ...], out: tuple[int, int], dtype: str = "float32",
    positions: bool = False,
) -> Case:  # fmt: skip
    """A case: a pool of windows that divide images, or its gradient."""

    def inside(rng: np.random.Generator, of: tuple[int, ...]) -> Array:
        at = [np.arange(n) * m // n for n, m in zip(of[2:], shape[2:], strict=True)]
        return np.broadcast_to(at[0][:, None] * shape[3] + at[1], of).astype(np.int32)

    note = f"to {out[0]}x{out[1]}" + " with positions" * positions
    tensors = _case(kernel, shape, (*shape[:2], *out), dtype, positions, False, inside)
    return Case(kernel, tensors, {}, shape, note, part=first)


def _case(
    kernel: str, shape: tuple[int, ...], result: tuple[int, ...], dtype: str, positions: bool,
    last: bool, inside: Any,
) -> dict[str, Operand]:  # fmt: skip
    name, order = cast(DTypeName, dtype), (0, 2, 3, 1) if last else ()
    image, windows = Operand(shape, name, order), Operand(result, name, order)
    at = Operand(result, "int32", order, values=inside)
    if not kernel.endswith("backward"):
        index = {"index": at} if positions else {}
        return {"x": image, "dst": windows, **index}
    index = {"index": at} if "max" in kernel else {}
    return {"dy": windows, **index, "dst": image}


def first(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: two channels of the first image."""
    return {n: a[:1, :2] for n, a in t.items()}


def max_pool2d(
    shape: tuple[int, ...] = RESNET, dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the maxima of windows of 3 x 3 with stride 2."""
    return pooled("max_pool2d", shape, THREE, dtype)


def avg_pool2d(
    shape: tuple[int, ...] = RESNET, dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the means of windows of 2 x 2."""
    return pooled("avg_pool2d", shape, TWO, dtype)


def max_pool2d_backward(
    shape: tuple[int, ...] = RESNET, dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the gradient for windows of 3 x 3 with stride 2."""
    return pooled("max_pool2d_backward", shape, THREE, dtype)


def avg_pool2d_backward(
    shape: tuple[int, ...] = RESNET, dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the gradient for windows of 2 x 2."""
    return pooled("avg_pool2d_backward", shape, TWO, dtype)


def adaptive_max_pool2d(
    shape: tuple[int, ...] = HEAD, dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the largest element of each channel of an image."""
    return divided("adaptive_max_pool2d", shape, (1, 1), dtype)


def adaptive_avg_pool2d(
    shape: tuple[int, ...] = HEAD, dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the mean of each channel of an image."""
    return divided("adaptive_avg_pool2d", shape, (1, 1), dtype)


def adaptive_max_pool2d_backward(
    shape: tuple[int, ...] = HEAD, dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the gradient for one maximum in each channel."""
    return divided("adaptive_max_pool2d_backward", shape, (1, 1), dtype)


def adaptive_avg_pool2d_backward(
    shape: tuple[int, ...] = HEAD, dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: the gradient for one mean in each channel."""
    return divided("adaptive_avg_pool2d_backward", shape, (1, 1), dtype)


def cases(edge: int = 0) -> Iterator[Case]:
    shape, head = (tuple(cut(n, edge) for n in s) for s in (RESNET, HEAD))
    odd = tuple(cut(n, edge) for n in (16, 64, 55, 55))
    for kernel in ("max_pool2d", "avg_pool2d", "max_pool2d_backward", "avg_pool2d_backward"):
        yield pooled(kernel, shape, THREE)
        yield pooled(kernel, shape, TWO)
        yield pooled(kernel, shape, THREE, "float16")
        yield pooled(kernel, shape, THREE, last=True)
        yield pooled(kernel, odd, {**THREE, "padding": 0})
        yield pooled(kernel, shape, FIVE if kernel == "max_pool2d" else SAME)
    for dtype in ("float32", "float16"):
        yield pooled("max_pool2d", shape, THREE, dtype, positions=True)
    for kind in ("max", "avg"):
        for kernel in (f"adaptive_{kind}_pool2d", f"adaptive_{kind}_pool2d_backward"):
            yield divided(kernel, head, (1, 1))
    yield divided("adaptive_avg_pool2d", shape, (cut(30, edge), cut(50, edge)))
    yield divided("adaptive_max_pool2d", head, (1, 1), positions=True)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    f, aten, a = torch.nn.functional, torch.ops.aten, case.args
    windows = (a["kernel"], a["stride"], a["padding"]) if a else tuple(t["dst"].shape[-2:])
    if "backward" not in case.kernel:
        more = {"return_indices": "index" in t} if "max" in case.kernel else {}
        getattr(f, case.kernel)(t["x"], *(windows if a else (windows,)), **more)
        return
    if "index" in t and "positions" not in t:
        t["positions"] = t["index"].long()
    if case.kernel == "max_pool2d_backward":
        aten.max_pool2d_with_indices_backward(
            t["dy"], t["dst"], *([n, n] for n in windows), [1, 1], False, t["positions"]
        )
    elif case.kernel == "avg_pool2d_backward":
        aten.avg_pool2d_backward(t["dy"], t["dst"], *([n, n] for n in windows), False, True, None)
    elif case.kernel == "adaptive_max_pool2d_backward":
        aten.adaptive_max_pool2d_backward(t["dy"], t["dst"], t["positions"])
    else:
        aten._adaptive_avg_pool2d_backward(t["dy"], t["dst"])


PEERS = {"torch": torch}
