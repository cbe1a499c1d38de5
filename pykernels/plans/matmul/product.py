"""A product of matrices as views: the rules of its shapes, and the ways to read its operands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pykernels.errors import ShapeError
from pykernels.tensors.layout import Ints, Tiles, View, merge_axes

from .select import GemmShape

__all__ = [
    "Product", "aligned", "broadcasts", "by_batch", "check", "contiguous_rows", "folded", "levels",
    "rows_of", "runs_along_k", "transposed", "unique",
]  # fmt: skip


@dataclass(frozen=True)
class Product:
    """dst[..., n, m] = activation(scale * sum_k a[..., m, k] b[..., n, k] + bias + residual).

    All views have the leading axes of dst.
    """

    a: View
    b: View
    bias: View | None
    residual: View | None
    dst: View
    activation: int

    @property
    def shape(self) -> GemmShape:
        rows, cols = self.dst.shape[-2:]
        return GemmShape(math.prod(self.dst.shape[:-2]), rows, cols, self.a.shape[-1])

    @property
    def views(self) -> dict[str, View]:
        """The tensors that are given, by name."""
        added = {"bias": self.bias, "residual": self.residual}
        given = {name: v for name, v in added.items() if v is not None}
        return {"a": self.a, "b": self.b, **given, "dst": self.dst}

    def of(self, views: Mapping[str, View]) -> Product:
        """The same product for parts of these views."""
        bias, residual = views.get("bias"), views.get("residual")
        return Product(views["a"], views["b"], bias, residual, views["dst"], self.activation)

    @property
    def axes(self) -> list[dict[str, int]]:
        """The axes of each view that are cut together: batches, rows of b, and rows of a."""
        lead, names = self.dst.ndim - 2, list(self.views)
        rows = {name: lead for name in names if name != "a"}
        cols = {name: lead + int(name != "a") for name in names if name != "b"}
        return [*({name: axis for name in names} for axis in range(lead)), rows, cols]

    def swapped(self) -> Product:
        """The same product with the operands exchanged and dst transposed."""
        bias, residual = (v and transposed(v) for v in (self.bias, self.residual))
        return Product(self.b, self.a, bias, residual, transposed(self.dst), self.activation)


def folded(p: Product) -> Product:
    """If all batches share one matrix a, their rows become rows of one product."""
    lead = p.dst.shape[:-2]
    shared = all(n == 1 or step == 0 for n, step in zip(lead, p.a.strides, strict=False))
    if math.prod(lead) == 1 or not shared:
        return p
    rows = [v for v in (p.b, p.bias, p.residual, p.dst) if v is not None]
    dims, steps = merge_axes(p.dst.shape[:-1], [v.strides[:-1] for v in rows])
    if len(dims) != 1:
        return p
    step = dict(zip(map(id, rows), steps, strict=True))

    def fold(v: View) -> View:
        return v.with_layout((dims[0], v.shape[-1]), (step[id(v)][0], v.strides[-1]))

    bias, residual = (v and fold(v) for v in (p.bias, p.residual))
    a = p.a.with_layout(p.a.shape[-2:], p.a.strides[-2:])
    return Product(a, fold(p.b), bias, residual, fold(p.dst), p.activation)


def levels(p: Product) -> int:
    """The number of batch axes that are left after merging."""
    lead = p.dst.shape[:-2]
    views = [v for v in (p.a, p.b, p.bias, p.residual, p.dst) if v is not None]
    return len(merge_axes(lead, [v.strides[: len(lead)] for v in views])[0])


def by_batch(p: Product, most: int = Tiles.LEVELS) -> list[Product]:
    """Products with at most `most` batch axes, or one product for each index of the first axis."""
    if levels(p) <= most:
        return [p]

    def at(v: View, i: int) -> View:
        return replace(
            v, shape=v.shape[1:], strides=v.strides[1:], offset=v.offset + i * v.strides[0]
        )

    parts = []
    for i in range(p.dst.shape[0]):
        bias, residual = (v and at(v, i) for v in (p.bias, p.residual))
        parts += by_batch(
            Product(at(p.a, i), at(p.b, i), bias, residual, at(p.dst, i), p.activation), most
        )
    return parts


_PRODUCT = ": it is b times a transposed, of a (m, k) and b (n, k), as in ggml; pk.matmul is a @ b"


def check(
    a: View, b: View, bias: View | None, residual: View | None, dst: View, op: str = "mul_mat"
) -> None:
    for name, v in (("a", a), ("b", b)):
        if v.ndim < 2:
            raise ShapeError(f"[{op}] {name} must have two or more axes but has shape {v.shape}")
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"[{op}] a and b must agree in their last axis, k, but have shapes {a.shape} and "
            f"{b.shape}{_PRODUCT}"
        )
    lead = (1,) * (b.ndim - a.ndim) + a.shape[:-2]
    fits = a.ndim <= b.ndim and all(
        m == n or (m > 0 and n % m == 0) for m, n in zip(lead, b.shape[:-2], strict=True)
    )
    if not fits:
        raise ShapeError(
            f"[{op}] the batch axes of a must divide those of b, {b.shape[:-2]}, but are "
            f"{a.shape[:-2]}"
        )
    want = (*b.shape[:-2], b.shape[-2], a.shape[-2])
    if dst.shape != want:
        raise ShapeError(f"[{op}] dst must have shape {want} but has shape {dst.shape}{_PRODUCT}")
    for name, extra in (("bias", bias), ("residual", residual)):
        if extra is not None and not broadcasts(extra.shape, want):
            raise ShapeError(f"[{op}] {name} must broadcast to {want} but has shape {extra.shape}")


def broadcasts(shape: Ints, target: Ints) -> bool:
    """True if `shape` broadcasts to `target` by numpy's rule."""
    return len(shape) <= len(target) and all(
        n in (1, m) for n, m in zip(shape[::-1], target[::-1], strict=False)
    )


def aligned(
    a: View, b: View, bias: View | None, residual: View | None, dst: View, activation: int
) -> Product:
    """All views with the same leading axes. If the operand `a` repeats along part of an axis, that
    axis is cut in two."""
    lead = b.shape[:-2]
    a = a.as_rank(b.ndim)
    counts = tuple(n if n != 1 else 1 for n in a.shape[:-2])

    def cut(v: View, repeats: bool) -> View:
        shape: list[int] = []
        strides: list[int] = []
        for n, have, step in zip(lead, counts, v.strides, strict=False):
            if have in (1, n):
                shape.append(n)
                strides.append(0 if repeats and have != n else step)
            else:
                shape += [have, n // have]
                strides += [step, 0] if repeats else [step * (n // have), step]
        return v.with_layout((*shape, *v.shape[-2:]), (*strides, *v.strides[-2:]))

    bias, residual = (v and cut(v.broadcast_to(dst.shape), False) for v in (bias, residual))
    return Product(cut(a, True), cut(b, False), bias, residual, cut(dst, False), activation)


def transposed(v: View) -> View:
    """The matrices transposed."""
    return v.with_layout(
        (*v.shape[:-2], v.shape[-1], v.shape[-2]), (*v.strides[:-2], v.strides[-1], v.strides[-2])
    )


def contiguous_rows(v: View) -> bool:
    """True if the last axis is longer than 1 and its elements are neighbours in memory."""
    return v.shape[-1] > 1 and v.strides[-1] == v.dtype.itemsize


def runs_along_k(a: View) -> bool:
    m, k = a.shape[-2:]
    return m == 1 or (k > 1 and abs(a.strides[-1]) <= abs(a.strides[-2]))


def rows_of(p: Product, start: int, end: int) -> Product:
    """The product with only these rows of b."""
    rows = p.shape.rows

    def cut(v: View) -> View:
        # a copy may have more rows than the operand
        count = (end if end < rows else v.shape[-2]) - start
        return replace(
            v, shape=(*v.shape[:-2], count, v.shape[-1]), offset=v.offset + start * v.strides[-2]
        )

    bias, residual = (v and cut(v) for v in (p.bias, p.residual))
    return Product(p.a, cut(p.b), bias, residual, cut(p.dst), p.activation)


def unique(v: View) -> View:
    """The view in which broadcast batch axes have size 1."""
    lead = (1 if step == 0 else n for n, step in zip(v.shape[:-2], v.strides, strict=False))
    return v.with_layout((*lead, *v.shape[-2:]), v.strides)
