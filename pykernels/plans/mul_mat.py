"""mul_mat: tiles, vectors or slices of K, by shapes, strides and device."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from pykernels._generated.bodies import mul_mat, mul_mat_sum, mul_mat_vec
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, ShapeError
from pykernels.layout import Ints, Tiles, View, merge_axes
from pykernels.plan import Caps, Scratch, Step, cdiv

from . import cpy

__all__ = ["ACTIVATIONS", "EDGES", "Choice", "Shape", "choose", "plan"]

ACTIVATIONS = {None: 0, "relu": 1, "silu": 2, "gelu_tanh": 3, "gelu": 4}
# The tiles of mul_mat.wgsl: rows and columns of dst, and k in a vector of an operand with k last.
EDGES = {"32": 32, "64": 64, "128": 128, "128w": 128}
ALONG_K = {"32": 2, "64": 2, "128": 2, "128w": 4}
DEEP = 16  # k of a tile
# Rows of the smaller operand that mul_mat_vec holds.
NARROW = 8
# Workgroups that keep a large GPU busy: two for each multiprocessor of one with 132.
BUSY = 256
# One invocation loops at most this often: a software driver ends all loops after 65,535 rounds.
MAX_ROUNDS = 30_000


class Shape(NamedTuple):
    """What a choice depends on, apart from the device: dst is batches x rows x cols."""

    batches: int
    rows: int
    cols: int
    depth: int
    vectors: bool = True  # operands and dst allow the vectors of every tile
    along_k: bool = True  # k is the axis of the larger operand with the smaller step


class Choice(NamedTuple):
    """A body ("vec" or a tile of mul_mat.wgsl) and the number of slices of K."""

    body: str
    slices: int = 1


def choose(caps: Caps, s: Shape) -> Choice:
    """The body and the slices for one product."""
    if min(s.rows, s.cols) <= NARROW:
        groups = s.batches * cdiv(max(s.rows, s.cols), 1024 >> _lane_bits(s))
        return Choice("vec", _slices(groups, s.depth, 2048 if s.along_k else 256, 4 * BUSY))
    if caps.max_invocations < 1024:  # WebGPU's defaults: small devices and software drivers
        return Choice("32", _slices(_tiles(s, "32"), s.depth, 256, 64))
    # Two of these workgroups fit a multiprocessor: the slices are to fill one wave, not more.
    slices = max(1, min(BUSY // max(_tiles(s, "128"), 1), s.depth // 1024, 64))
    if slices * _tiles(s, "128") >= BUSY // 4 * 3:
        return Choice("128w" if s.vectors else "128", slices)
    slices = _slices(_tiles(s, "64"), s.depth, 128)
    if slices * _tiles(s, "64") >= BUSY // 2:
        return Choice("64", slices)
    return Choice("32", _slices(_tiles(s, "32"), s.depth, 128))


def _tiles(s: Shape, tile: str) -> int:
    edge = EDGES[tile]
    return s.batches * cdiv(s.rows, edge) * cdiv(s.cols, edge)


def _slices(groups: int, depth: int, shortest: int, busy: int = BUSY) -> int:
    """Slices of K that keep the device busy, each at least `shortest` deep; 1 where it is.

    Half as many again as asked for: the slices of a last wave should not run alone.
    """
    wanted = 1 if groups >= busy else cdiv(busy * 3 // 2, max(groups, 1))
    return max(1, min(wanted, depth // shortest, 64))


def _lane_bits(s: Shape) -> int:
    """How many invocations of mul_mat_vec split k: enough to fill the device, no more than k."""
    if not s.along_k:
        return 3 if s.depth >= 64 else 0
    bits = 4
    length = max(s.rows, s.cols)
    while bits < 8 and (s.depth >> bits) >= 32 and s.batches * cdiv(length << bits, 1024) < 1024:
        bits += 1
    return bits


@dataclass(frozen=True)
class Product:
    """dst[..., n, m] = act(scale * sum_k a[..., m, k] b[..., n, k] + bias + residual).

    All views have the leading axes of dst.
    """

    a: View
    b: View
    bias: View | None
    residual: View | None
    dst: View
    act: int

    @property
    def shape(self) -> Shape:
        rows, cols = self.dst.shape[-2:]
        return Shape(math.prod(self.dst.shape[:-2]), rows, cols, self.a.shape[-1])

    def swapped(self) -> Product:
        """The same product with the operands exchanged and dst transposed."""
        return Product(
            self.b, self.a, self.bias and _turn(self.bias), self.residual and _turn(self.residual),
            _turn(self.dst), self.act,
        )  # fmt: skip


def plan(
    caps: Caps,
    scratch: Scratch,
    a: View,
    b: View,
    bias: View | None,
    residual: View | None,
    dst: View,
    activation: str | None = None,
) -> list[Step]:
    """The dispatches of one product."""
    if activation not in ACTIVATIONS:
        names = ", ".join(map(repr, ACTIVATIONS))
        raise ArgumentError(f"[mul_mat] activation must be one of {names} but is {activation!r}")
    _check(a, b, bias, residual, dst)
    if dst.size == 0:
        return []
    p = _aligned(a, b, bias, residual, dst, ACTIVATIONS[activation])
    if p.shape.depth == 0:
        return [_sum(caps, scratch.empty((1,), "float32"), p, 0)]
    # One order of each pair of operands is enough: f16 first; dst contiguous along its last axis.
    mixed = p.a.dtype != p.b.dtype
    if (p.a.dtype.itemsize > p.b.dtype.itemsize) if mixed else _runs(_turn(p.dst)):
        p = p.swapped()
    p = _folded(_folded(p).swapped()).swapped()
    return [step for part in _parts(p) for step in _steps(caps, scratch, part)]


def _steps(caps: Caps, scratch: Scratch, p: Product) -> list[Step]:
    if min(p.shape[1:3]) <= NARROW and p.shape.rows > p.shape.cols:
        p = p.swapped()
    # With f32 operands the checked shader is 10 to 20 % faster in the other tile of that size.
    half = "f16" in (p.a.dtype.short, p.b.dtype.short)
    wide = half and _vectors(p, "128w")
    choice = choose(caps, p.shape._replace(vectors=wide, along_k=_along_k(p.a)))
    if choice.slices > 1 and _levels(p) >= Tiles.LEVELS:
        choice = choice._replace(slices=1)  # the slices are one more axis
    if choice.body == "vec":
        return _narrow(caps, scratch, p, choice.slices)
    return _tiled(caps, scratch, p, choice.body, choice.slices)


def _folded(p: Product) -> Product:
    """Where all batches share one matrix a, their rows are rows of one product."""
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
    return Product(a, fold(p.b), bias, residual, fold(p.dst), p.act)


def _levels(p: Product) -> int:
    """Batch axes that are left after merging, where no two tensors help."""
    lead = p.dst.shape[:-2]
    views = [v for v in (p.a, p.b, p.bias, p.residual, p.dst) if v is not None]
    return len(merge_axes(lead, [v.strides[: len(lead)] for v in views])[0])


def _parts(p: Product) -> list[Product]:
    """Products with few enough batch axes: else one for each index of the first axis."""
    if _levels(p) <= Tiles.LEVELS:
        return [p]

    def at(v: View, i: int) -> View:
        return replace(
            v, shape=v.shape[1:], strides=v.strides[1:], offset=v.offset + i * v.strides[0]
        )

    parts = []
    for i in range(p.dst.shape[0]):
        bias, residual = (v and at(v, i) for v in (p.bias, p.residual))
        parts += _parts(Product(at(p.a, i), at(p.b, i), bias, residual, at(p.dst, i), p.act))
    return parts


def _check(a: View, b: View, bias: View | None, residual: View | None, dst: View) -> None:
    for name, v in (("a", a), ("b", b)):
        if v.ndim < 2:
            raise ShapeError(f"[mul_mat] {name} must have two or more axes but has shape {v.shape}")
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"[mul_mat] a and b must agree in their last axis, k, but have shapes {a.shape} and "
            f"{b.shape}"
        )
    lead = (1,) * (b.ndim - a.ndim) + a.shape[:-2]
    fits = a.ndim <= b.ndim and all(
        m == n or (m > 0 and n % m == 0) for m, n in zip(lead, b.shape[:-2], strict=True)
    )
    if not fits:
        raise ShapeError(
            f"[mul_mat] the batch axes of a must divide those of b, {b.shape[:-2]}, but are "
            f"{a.shape[:-2]}"
        )
    want = (*b.shape[:-2], b.shape[-2], a.shape[-2])
    if dst.shape != want:
        raise ShapeError(f"[mul_mat] dst must have shape {want} but has shape {dst.shape}")
    for name, extra in (("bias", bias), ("residual", residual)):
        if extra is not None and not _broadcasts(extra.shape, want):
            raise ShapeError(
                f"[mul_mat] {name} must broadcast to {want} but has shape {extra.shape}"
            )


def _broadcasts(shape: Ints, target: Ints) -> bool:
    return len(shape) <= len(target) and all(
        n in (1, m) for n, m in zip(shape[::-1], target[::-1], strict=False)
    )


def _aligned(
    a: View, b: View, bias: View | None, residual: View | None, dst: View, act: int
) -> Product:
    """All views over the same leading axes. Where a repeats along one, that axis is cut in two."""
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

    wide = [v and cut(v.broadcast_to(dst.shape), False) for v in (bias, residual)]
    return Product(cut(a, True), cut(b, False), wide[0], wide[1], cut(dst, False), act)


def _turn(v: View) -> View:
    """The matrices transposed."""
    return v.with_layout(
        (*v.shape[:-2], v.shape[-1], v.shape[-2]), (*v.strides[:-2], v.strides[-1], v.strides[-2])
    )


def _runs(v: View) -> bool:
    """Do the elements of its last axis, longer than 1, lie next to each other?"""
    return v.shape[-1] > 1 and v.strides[-1] == v.dtype.itemsize


def _by(v: View, n: int) -> bool:
    """May it be read or written as vectors of `n` along its last axis?"""
    return (
        v.strides[-1] == v.dtype.itemsize
        and v.shape[-1] % n == 0
        and v.aligned(n * v.dtype.itemsize, range(v.ndim - 1))
    )


def _load(v: View, along_k: int) -> tuple[View, int, bool]:
    """How a tile loads an operand: the view, its vectors, and whether k is the row."""
    if _by(v, along_k):
        return v, along_k, False
    if _by(_turn(v), 4):
        return _turn(v), 4, True
    return v, 1, False


def _vectors(p: Product, tile: str) -> bool:
    """Do both operands and dst allow vectors?"""
    loads = [_load(v, ALONG_K[tile])[1] for v in (p.a, p.b)]
    return min(loads) > 1 and _by(p.dst, 4)


def _narrow(caps: Caps, scratch: Scratch, p: Product, slices: int) -> list[Step]:
    """Up to eight rows of one operand: the other one is read once."""
    before: list[Step] = []
    if p.a.dtype.itemsize > p.b.dtype.itemsize:  # few f16 rows: as f32
        p, before = _small_copy(caps, scratch, p, "float32")
    along_k = _along_k(p.a)
    s = p.shape._replace(along_k=along_k)
    a, av = (p.a, 4 if _by(p.a, 4) else 1) if along_k else _across(p.a)
    if along_k and av == 4 and not _by(p.b, 4):
        p, copied = _small_copy(caps, scratch, p, p.b.dtype.name)
        before += copied
    bits = _lane_bits(s)
    held = next(n for n in ((1, 4, 8) if av == 4 else (1, 8)) if n >= s.rows)
    cut = _cut(s.depth, slices, (4 if along_k and av == 4 else 1) << bits)
    out, raw, after = _target(caps, scratch, p, cut)
    return [
        *before,
        mul_mat_vec.step(
            caps, _spread(a, out), _spread(p.b, out), None if raw else p.bias,
            None if raw else p.residual, out,
            AT=not along_k, AV=av, BV=av if along_k else 1, S=held, depth=s.depth,
            slice_depth=cut.depth, slice_batches=s.batches, across=cdiv(s.cols, 1024 >> bits),
            lane_bits=bits, act=0 if raw else p.act, raw=int(raw),
        ),
        *after,
    ]  # fmt: skip


def _along_k(a: View) -> bool:
    m, k = a.shape[-2:]
    return m == 1 or (k > 1 and abs(a.strides[-1]) <= abs(a.strides[-2]))


def _across(a: View) -> tuple[View, int]:
    return (_turn(a), 4) if _by(_turn(a), 4) else (_turn(a), 1)


def _small_copy(
    caps: Caps, scratch: Scratch, p: Product, name: DTypeName
) -> tuple[Product, list[Step]]:
    """The product with b replaced by a contiguous copy."""
    copy = scratch.empty(p.b.shape, name)
    return replace(p, b=copy), cpy.plan(caps, scratch, p.b, copy)


def _tiled(caps: Caps, scratch: Scratch, p: Product, tile: str, slices: int) -> list[Step]:
    s, edge = p.shape, EDGES[tile]
    if tile == "128w" and not _vectors(p, tile):
        tile = "128"
    (a, av, at), (b, bv, bt) = (_load(v, ALONG_K[tile]) for v in (p.a, p.b))
    cut = _cut(s.depth, slices, DEEP)
    out, raw, after = _target(caps, scratch, p, cut)
    vectors = tile != "32" and min(av, bv) > 1 and _by(out, 4)
    step = mul_mat.step(
        caps, _spread(a, out), _spread(b, out), None if raw else p.bias,
        None if raw else p.residual, out,
        TILE="128" if tile == "128w" and not vectors else tile, AV=av, AT=at, BV=bv, BT=bt,
        DV=4 if vectors else 1, depth=s.depth, slice_depth=cut.depth, slice_batches=s.batches,
        across=cdiv(s.cols, edge), down=cdiv(s.rows, edge), act=0 if raw else p.act, raw=int(raw),
    )  # fmt: skip
    return [step, *after]


class _Cut(NamedTuple):
    """K in `slices` slices of `depth`; the last may be shorter."""

    slices: int
    depth: int


def _cut(depth: int, slices: int, unit: int) -> _Cut:
    """Slices that are multiples of `unit`, none of them empty or too long for one loop."""
    slices = max(slices, cdiv(depth, unit * MAX_ROUNDS))
    each = cdiv(cdiv(depth, slices), unit) * unit
    return _Cut(cdiv(depth, each), each)


def _target(caps: Caps, scratch: Scratch, p: Product, cut: _Cut) -> tuple[View, bool, list[Step]]:
    """Where the sums go: to dst, or as f32 to scratch, with the step that finishes them."""
    direct = p.dst.dtype.name == "float32" or (p.a.dtype, p.b.dtype) == (p.dst.dtype, p.dst.dtype)
    if cut.slices == 1 and direct:
        return p.dst, False, []
    parts = scratch.empty((cut.slices, *p.dst.shape), "float32")
    return parts, True, [_sum(caps, parts, p, cut.slices)]


def _sum(caps: Caps, parts: View, p: Product, slices: int) -> Step:
    return mul_mat_sum.step(caps, parts, p.bias, p.residual, p.dst, slices=slices, act=p.act)


def _spread(v: View, out: View) -> View:
    """The view with the axis of slices that scratch has."""
    if out.ndim == v.ndim:
        return v
    return v.with_layout((out.shape[0], *v.shape), (0, *v.strides))
