"""Images of another size, and their windows as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from pykernels.bench.case import Case, Operand
from pykernels.bench.peers import torch_peer
from pykernels.bench.shapes import cut
from pykernels.dtypes import DTypeName

IMAGE = (8, 64, 128, 128)
WINDOWS = {"kernel": 3, "padding": 1}
MAIN = {
    "resize": ("f32-8x64x128x128-linear_to_256x256",),
    "im2col": ("f32-8x64x56x56-3x3",), "col2im": ("f32-8x64x56x56-3x3",),
}  # fmt: skip


def first(t: dict[str, Any]) -> dict[str, Any]:
    """Two planes of the first image."""
    return {n: a[:1, : 2 * a.shape[1] // min(v.shape[1] for v in t.values())] for n, a in t.items()}


def resize(shape: tuple[int, ...] = IMAGE, dtype: str = "float32", out: str = "float32") -> Case:
    """Images of twice the size."""
    return resized(shape, (2 * shape[-2], 2 * shape[-1]), dtype)


def resized(shape: tuple[int, ...], size: tuple[int, int], dtype: str, **args: Any) -> Case:
    name = cast(DTypeName, dtype)
    tensors = {"x": Operand(shape, name), "dst": Operand((*shape[:-2], *size), name)}
    note = f"{args.get('mode', 'linear')} to {size[0]}x{size[1]}"
    return Case("resize", tensors, args, shape, note, part=first)


def im2col(
    shape: tuple[int, ...] = (8, 64, 56, 56), dtype: str = "float32", out: str = "float32"
) -> Case:
    """Windows of 3 x 3 with a padding of 1."""
    n, c, h, w = shape
    name = cast(DTypeName, dtype)
    tensors = {"x": Operand(shape, name), "dst": Operand((n, 9 * c, h * w), name)}
    return Case("im2col", tensors, WINDOWS, shape, "3x3", part=first)


def col2im(
    shape: tuple[int, ...] = (8, 64, 56, 56), dtype: str = "float32", out: str = "float32"
) -> Case:
    """Sums of windows of 3 x 3 with a padding of 1."""
    case = im2col(shape, dtype)
    x, columns = case.tensors["x"], case.tensors["dst"]
    return replace(case, kernel="col2im", tensors={"x": columns, "dst": x})


def cases(edge: int = 0) -> Iterator[Case]:
    shape = tuple(cut(n, edge) for n in IMAGE)
    n, c, h, w = shape
    for dtype in ("float32", "float16"):
        yield resized(shape, (2 * h, 2 * w), dtype)
    yield resized(shape, (2 * h, 2 * w), "float32", mode="nearest", coordinates="asymmetric")
    yield resized(shape, (2 * h, 2 * w), "float32", mode="cubic")
    yield resized(shape, (h // 2 + 3, w // 2 + 1), "float32", coordinates="align_corners")
    yield resized(shape, (h // 2, w // 2), "float32", antialias=True)
    last = Operand(shape, "float32", order=(0, 2, 3, 1))
    large = Operand((n, c, 2 * h, 2 * w), "float32", order=(0, 2, 3, 1))
    yield Case("resize", {"x": last, "dst": large}, {}, shape, "channels last", part=first)
    small = tuple(cut(size, edge) for size in (8, 64, 56, 56))
    yield im2col(small)
    yield im2col(small, "float16")
    yield col2im(small)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    f = torch.nn.functional
    if case.kernel == "im2col":
        f.unfold(t["x"], 3, padding=1)
    elif case.kernel == "col2im":
        f.fold(t["x"], t["dst"].shape[-2:], 3, padding=1)
    else:
        mode = {"linear": "bilinear", "cubic": "bicubic"}.get(case.args.get("mode", "linear"))
        corners = case.args.get("coordinates") == "align_corners"
        given = {"mode": mode, "align_corners": corners} if mode else {"mode": "nearest"}
        f.interpolate(t["x"], t["dst"].shape[-2:], **given)


PEERS = {"torch": torch}
