"""rope: memory bandwidth bounds it, because angles are looked up once for several heads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.peers import Skipped, torch_peer
from pykernels.bench.shapes import RAGGED, Shape, cut, pick
from pykernels.dtypes import DTypeName
from pykernels.plans.rope.rope import ROWS
from pykernels.reference.rope import angles, rope_table

Array = np.ndarray[Any, Any]
# batch x heads x tokens x width
SHAPES = [
    Shape("llama-3-8b-queries", (1, 32, 4096, 128), "Llama 3 8B: queries of 4096 tokens"),
    Shape("llama-3-8b-keys", (8, 8, 2048, 128), "Llama 3 8B: keys of 8 prompts of 2048 tokens"),
    Shape("decode", (64, 32, 1, 128), "Llama 3 8B: queries of one token of 64 sequences"),
    Shape("ragged", (1, 33, 4095, 126), RAGGED),
]
MAIN = {
    "rope": ("f32xi32>f32-1x32x4096x128", "f16xi32xf32>f16-1x32x4096x128"),
    "rope_append": ("f16xi32xf32>f16-48x16x1x512x64",),
}


def positions(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Consecutive positions, somewhere in a long context."""
    return (70_000 + np.arange(shape[-1])).astype(np.int32)


def table(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A table of angles with the base of Llama 3."""
    return rope_table(angles(2 * shape[-1], 500000.0))


def first_heads(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: five heads of the last batch, and some tokens, including the last."""
    tokens = t["x"].shape[-2]
    some = slice((tokens - 1) % 16, None, 16)
    found = {n: t[n][-1:, -5:, some] for n in ("x", "dst")}
    return {
        "x": found["x"], "positions": t["positions"][some], "table": t["table"],
        "dst": found["dst"],
    }  # fmt: skip


def rope(
    shape: tuple[int, ...] = (1, 32, 4096, 128), dtype: str = "float32", out: str = "",
    style: str = "normal", order: tuple[int, ...] = (),
) -> Case:  # fmt: skip
    """A case with x of the shape (..., heads, tokens, width); all columns are rotated."""
    x = Operand(shape, cast(DTypeName, dtype), order)
    tensors = {
        "x": x, "positions": Operand(shape[-2:-1], "int32", values=positions),
        "table": Operand((2, ROWS, 2, shape[-1] // 2), "float32", values=table), "dst": x,
    }  # fmt: skip
    note = "tokens before heads" if order else "" if style == "normal" else style
    part = first_heads if len(shape) == 4 else None
    return Case("rope", tensors, {"style": style}, shape, note, part=part)


def rope_append(
    shape: tuple[int, ...] = (48, 16, 1, 512, 64), dtype: str = "float16", out: str = ""
) -> Case:
    """A case of the shape (heads, heads of keys and values, tokens, room, width)."""
    heads, kept, tokens, room, width = shape
    kind = cast(DTypeName, dtype)
    tensors = {
        "x": Operand((heads, tokens, width), kind),
        "positions": Operand((tokens,), "int32", values=first_rows),
        "table": Operand((2, ROWS, 2, width // 2), "float32", values=table),
        "cache": Operand((kept, room, width), kind),
        "dst": Operand((heads - kept, tokens, width), kind),
    }  # fmt: skip
    return Case("rope_append", tensors, {"style": "neox"}, shape)


def first_rows(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """The positions of the tokens: the first rows of the cache."""
    return np.arange(shape[-1], dtype=np.int32)


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(SHAPES, edge):
        shape = (*s.dims[:-1], s.dims[-1] // 2 * 2)
        for dtype in ("float32", "float16"):
            for style in ("normal", "neox"):
                yield rope(shape, dtype, style=style).labelled(name=s.name, origin=s.origin)
    yield rope(tuple(cut(n, edge) for n in (1, 32, 4096, 128)), order=(0, 2, 1, 3))
    for tokens in (1, cut(512, edge)):
        for dtype in ("float16", "float32"):
            yield rope_append((48, 16, tokens, cut(512, edge), 64), dtype)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    """Rotates halves of the width, or complex numbers in float32, by angles that were computed
    before, as models do."""
    x, dst = t["x"], t["dst"]
    if case.kernel == "rope_append":
        raise Skipped("torch has no such function")
    if case.args["style"] == "neox":
        cosine, sine = _angles(torch, t, x.dtype)
        a, b = x.chunk(2, -1)
        torch.add(x * torch.cat((cosine, cosine), -1),
                  torch.cat((-b, a), -1) * torch.cat((sine, sine), -1), out=dst)  # fmt: skip
        return
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    turned = pairs * torch.complex(*_angles(torch, t, torch.float32))
    dst.copy_(torch.view_as_real(turned).flatten(-2))


_kept: dict[tuple[Any, ...], Any] = {}


def _angles(torch: Any, t: dict[str, Any], dtype: Any) -> Any:
    """The cosines and sines of all tokens; they are kept, as models keep them."""
    key = t["table"].shape, t["positions"].shape, dtype
    if key not in _kept:
        q, table = t["positions"].long(), t["table"]
        cc, sc = table[0, q // ROWS].unbind(1)
        cf, sf = table[1, q % ROWS].unbind(1)
        _kept[key] = (cc * cf - sc * sf).to(dtype), (sc * cf + cc * sf).to(dtype)
    return _kept[key]


PEERS = {"torch": torch}
