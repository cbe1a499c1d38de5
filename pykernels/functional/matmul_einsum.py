"""einsum, tensordot and dot: views, and a batched matrix product of two operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast, overload

from pykernels._generated.functional import mul
from pykernels._generated.kernels.mul_mat import KERNEL
from pykernels._generated.operations.reduce import sum as sum_
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call, NDArray
from pykernels.call.autocast import live, recast
from pykernels.call.promotion import result_type
from pykernels.call.scalars import integer
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS, DTypeName
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.kernels import cpy, mul_mat
from pykernels.runtime.whole import whole
from pykernels.tensors.layout import contiguous_layout
from pykernels.tensors.strides import reshaped_strides

from .matmul_subscripts import Labels, Optimize, parsed, path_of

__all__ = ["dot", "einsum", "tensordot"]

Operand: TypeAlias = tuple[Tensor, Labels]
Axes = int | tuple[int | Sequence[int], int | Sequence[int]]
_EINSUM, _TENSORDOT, _DOT = [replace(KERNEL, name=n) for n in ("einsum", "tensordot", "dot")]
MOST_BATCH = 4  # the most batch axes of mul_mat


@overload
def einsum(
    subscripts: str, *operands: Tensor, optimize: Optimize = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def einsum(
    subscripts: str, a: Tensor, /, *operands: Array, optimize: Optimize = False,
    out: Tensor | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def einsum(
    subscripts: str, *operands: NDArray, optimize: Optimize = False, out: None = None
) -> NDArray: ...
@overload
def einsum(
    subscripts: str, *operands: Array, optimize: Optimize = False, out: Tensor
) -> Tensor: ...
@overload
def einsum(
    subscripts: str, *operands: Array, optimize: Optimize = False, out: Tensor | None = None
) -> Array: ...
@again
@whole
def einsum(
    subscripts: str, *operands: Array, optimize: Optimize = False, out: Tensor | None = None
) -> Array:
    """The sum of products that subscripts describe, of one operand or more, as numpy.einsum.

    "bij,bjk->bik" multiplies matrices. A letter that the result lacks is summed over; a letter that
    occurs twice in an operand selects its diagonal; "..." stands for axes that broadcast. Without
    "->" the result has the letters that occur once, in alphabetical order, after the axes of "...".
    Sums are f32 for all dtypes of operands, and no operand is rounded. Two operands are multiplied
    as one batched matrix product on views; operands whose axes do not merge in memory are copied
    first. More operands are multiplied in pairs, from the left to the right unless `optimize` gives
    another order. So the order does not depend on installed packages, and the same call gives the
    same bits. Intermediate products are float32.

    Args:
        subscripts: letters of the axes, as in numpy.
        operands: Tensors or numpy arrays, float32, float16 or bfloat16.
        optimize: False multiplies from the left to the right. A path is a list of pairs of
            positions in the list of operands: each step removes a pair and appends its product.
            numpy's `einsum_path` returns a path, whose first item, the word "einsum_path", may
            stay. "opt_einsum" gets the path from that package, which must be installed.
        out: The Tensor to write to, float32, float16 or bfloat16; None makes a Tensor, with the
            common dtype of all operands, or float32 if they differ.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor; never a view.

    Raises:
        ArgumentError: if subscripts are malformed or do not fit the number of operands; if the path
            is invalid; if opt_einsum is needed and not installed.
        ShapeError: if axes with the same letter differ in size, or the number of axes does not fit.
        DTypeError, LimitError and the errors of `pykernels.kernels.mul_mat`.
    """
    if not operands:
        raise ArgumentError("[einsum] there must be at least one operand")
    if live and out is None:
        operands = recast("einsum", *operands)
    names = [a.name for a in _EINSUM.args[:2]] + [f"operand {i}" for i in range(2, len(operands))]
    args = tuple([replace(_EINSUM.args[0], name=n) for n in names])
    kernel = _EINSUM if len(operands) <= 2 else replace(_EINSUM, args=args)
    call = Call(kernel, *operands, out=out)
    tensors = [call.tensor(n, a) for n, a in zip(names, operands, strict=False)]
    terms, output = parsed(subscripts, [t.ndim for t in tensors])
    steps = path_of(subscripts, tensors, optimize)
    if len(tensors) == 1:
        return _one(call, out, tensors[0], terms[0], output)
    dtype = _dtype("einsum", tensors, out)
    left = list(zip(tensors, terms, strict=True))
    for first, second in steps[:-1]:
        pair = left[first], left[second]
        left = [x for i, x in enumerate(left) if i not in (first, second)]
        needed = {*output}.union(*[labels for _, labels in left])
        kept = tuple(dict.fromkeys([x for _, t in pair for x in t if x in needed]))
        inner = Call(_EINSUM, pair[0][0], pair[1][0])
        product = _contract("einsum", inner, "float32", pair, kept)
        left.append((product, kept))
    first, second = steps[-1]
    pair = left[first], left[second]
    return call.leave(_contract("einsum", call, dtype, pair, output))


def _one(
    call: Call, out: Tensor | None, t: Tensor, labels: Labels, output: Labels
) -> Array:  # fmt: skip
    """The result for one operand, in new memory: diagonals are taken, axes are summed, and the
    other axes are in the order of the result."""
    view, kept = _diagonals("einsum", t, labels)
    sizes = dict(zip(kept, view.shape, strict=True))
    result = call.out(tuple([sizes[x] for x in output]), _dtype("einsum", [t], out))
    rest = tuple([x for x in kept if x not in output])
    ordered = view.transpose([kept.index(x) for x in (*output, *rest)]) if kept else view
    if rest:
        total: Any = sum_(ordered.astype("float32"), tuple(range(len(output), len(kept))))
        cpy(total, result)
    else:
        cpy(ordered, result)
    return call.leave(result)


@again
@whole
def tensordot(a: Array, b: Array, axes: Axes = 2, *, out: Tensor | None = None) -> Array:
    """The sum of products over some axes of a and b, as numpy.tensordot.

    The result has the other axes of a, then the other axes of b. Sums are f32.

    Args:
        a: Tensor or numpy array, float32, float16 or bfloat16.
        b: Tensor or numpy array, float32, float16 or bfloat16.
        axes: a number n, for the last n axes of a and the first n axes of b; or a pair, the axes of
            a and the axes of b, each an integer or a sequence.
        out: as in `einsum`.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ArgumentError: an axis is not an integer, or is given twice.
        ShapeError: the axes do not exist, or sizes differ.
        DTypeError, LimitError and the errors of `pykernels.kernels.mul_mat`.
    """
    op = "tensordot"
    if live and out is None:
        a, b = recast(op, a, b)
    call = Call(_TENSORDOT, a, b, out=out)
    left, right = call.tensor("a", a), call.tensor("b", b)
    if isinstance(axes, Sequence):
        if len(axes) != 2:
            raise ArgumentError(f"[{op}] axes must be an integer or two lists but are {axes!r}")
        pairs = [_axes(op, t, given) for t, given in zip((left, right), axes, strict=True)]
    else:
        count = integer(op, "axes", axes)
        if not 0 <= count <= min(left.ndim, right.ndim):
            raise ShapeError(
                f"[{op}] {count} axes must exist in both, but the shapes are {left.shape} and "
                f"{right.shape}"
            )
        pairs = [tuple(range(left.ndim - count, left.ndim)), tuple(range(count))]
    sizes = [tuple(t.shape[i] for i in p) for t, p in zip((left, right), pairs, strict=True)]
    if sizes[0] != sizes[1]:
        raise ShapeError(f"[{op}] axes that are summed must agree but have {sizes[0]}, {sizes[1]}")
    terms = []
    for name, t, given in (("a", left, pairs[0]), ("b", right, pairs[1])):
        shared = {axis: f"k{n}" for n, axis in enumerate(given)}
        terms.append(tuple(shared.get(i, f"{name}{i}") for i in range(t.ndim)))
    output = tuple(x for term in terms for x in term if not x.startswith("k"))
    pair = (left, terms[0]), (right, terms[1])
    return call.leave(_contract(op, call, _dtype(op, [left, right], out), pair, output))


@again
def dot(a: Array | float, b: Array | float, *, out: Tensor | None = None) -> Array:
    """The sum of products over the last axis of a and the second-to-last axis of b, by the rules of
    numpy: result[..., i, ..., k] = sum over j of a[..., i, j] * b[..., j, k]. If b has one axis,
    that axis is summed: two vectors give a number. If a or b has no axes, `dot` is `mul`. Sums are
    f32.

    Args:
        a: Tensor, numpy array or number, float32, float16 or bfloat16; any dtype of `mul` if a or b
            has no axes.
        b: As a.
        out: The Tensor to write to, as in `einsum`; None makes one.

    Returns:
        A numpy array if no argument is a Tensor, else a Tensor: the axes of a, then the axes of b,
        without the summed axes.

    Raises:
        ShapeError: if the sizes of the summed axes differ.
        DTypeError, LimitError and the errors of `pykernels.kernels.mul_mat`.
    """
    if not (getattr(a, "shape", ()) and getattr(b, "shape", ())):
        return mul(a, b, out=out)
    if live and out is None:
        a, b = recast("dot", a, b)
    vectors = cast("tuple[Array, Array]", (a, b))
    call = Call(_DOT, *vectors, out=out)
    left, right = call.tensor("a", vectors[0]), call.tensor("b", vectors[1])
    at = max(right.ndim - 2, 0)
    if left.shape[-1] != right.shape[at]:
        raise ShapeError(
            f"[dot] axis -1 of a and axis {at} of b must agree but the shapes are {left.shape} and "
            f"{right.shape}"
        )
    rest = tuple([f"a{i}" for i in range(left.ndim - 1)])
    other = tuple(["k" if i == at else f"b{i}" for i in range(right.ndim)])
    output = (*rest, *[x for x in other if x != "k"])
    pair = (left, (*rest, "k")), (right, other)
    return call.leave(_contract("dot", call, _dtype("dot", [left, right], out), pair, output))


def _axes(op: str, t: Tensor, given: int | Sequence[int]) -> tuple[int, ...]:
    """The axes of one operand, counted from 0."""
    listed = given if isinstance(given, Sequence) else (given,)
    numbers = [integer(op, "axes", n) for n in listed]
    if not all(-t.ndim <= n < t.ndim for n in numbers):
        raise ShapeError(f"[{op}] axes {numbers} do not exist in shape {t.shape}")
    found = tuple(n % t.ndim for n in numbers)
    if len({*found}) < len(found):
        raise ArgumentError(f"[{op}] axes must differ but are {numbers}")
    return found


def _contract(
    op: str, call: Call, dtype: DTypeName, pair: tuple[Operand, Operand], output: Labels
) -> Tensor:
    """The product of two operands with labelled axes, summed over the axes that the result
    lacks."""
    left, right = (_diagonals(op, t, labels) for t, labels in pair)
    sizes: dict[str, int] = {}
    for t, labels in (left, right):
        for label, n in zip(labels, t.shape, strict=True):
            known = sizes.get(label, 1)
            if 1 not in (known, n) and known != n:
                raise ShapeError(
                    f"[{op}] axes of one label must agree but {label!r} has sizes {known} and {n}"
                )
            sizes[label] = n if known == 1 else known
    result = call.out(tuple(sizes[x] for x in output), dtype)
    both = {*left[1]} & {*right[1]}
    batch = tuple(x for x in output if x in both)
    rows = tuple(x for x in output if x in left[1] and x not in both)
    cols = tuple(x for x in output if x in right[1] and x not in both)
    depth = tuple(x for x in sizes if x not in output)
    groups = [[x] for x in batch] if len(batch) <= MOST_BATCH else [list(batch)]
    a = _grouped(left, [*groups, rows, depth], sizes)
    b = _grouped(right, [*groups, cols, depth], sizes)
    order = [output.index(x) for x in (*batch, *rows, *cols)]
    target = result.transpose(order)
    shape = tuple(math.prod(sizes[x] for x in group) for group in (*groups, rows, cols))
    strides = reshaped_strides(target._layout, shape)
    # If axes of the result do not merge in memory, the product is computed in new memory and then
    # copied.
    if strides is None:
        product = target._fresh(contiguous_layout(shape, target._layout.dtype))
        mul_mat(b, a, product)
        cpy(product.reshape(target.shape), target)
    else:
        mul_mat(b, a, target._view(shape, strides, target.offset))
    return result


def _diagonals(op: str, t: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """A view in which each label has one axis."""
    kept = tuple(dict.fromkeys(labels))
    if len(kept) == len(labels):
        return t, labels
    shape, strides = [], []
    for label in kept:
        axes = [i for i, x in enumerate(labels) if x == label]
        if len({t.shape[i] for i in axes}) > 1:
            raise ShapeError(
                f"[{op}] a diagonal needs axes of one size, but {label!r} stands for several of "
                f"{t.shape}"
            )
        shape.append(t.shape[axes[0]])
        strides.append(sum(t.strides[i] for i in axes))
    return t._view(shape, strides, t.offset), kept


def _grouped(
    operand: tuple[Tensor, Labels], groups: Sequence[Sequence[str]], sizes: dict[str, int]
) -> Tensor:
    """The operand with an axis for each group of labels; it repeats along labels that it lacks."""
    t, labels = operand
    wanted = [x for group in groups for x in group]
    missing = [x for x in wanted if x not in labels]
    full = t[(..., *(None,) * len(missing))] if missing else t
    named = (*labels, *missing)
    moved = full.transpose([named.index(x) for x in wanted]) if wanted else full
    repeated = moved.broadcast_to(tuple(sizes[x] for x in wanted))
    return repeated.reshape(tuple(math.prod(sizes[x] for x in group) for group in groups))


def _dtype(op: str, tensors: Sequence[Tensor], out: Tensor | None) -> DTypeName:
    if out is None:
        return result_type([t.dtype for t in tensors])
    if out.dtype not in FLOATS:
        raise DTypeError(f"[{op}] out must be float32, float16 or bfloat16 but is {out.dtype}")
    return out.dtype
