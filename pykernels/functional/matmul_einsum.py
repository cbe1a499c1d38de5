"""einsum, tensordot and dot of two operands: views, and one batched matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pykernels._generated.functional import mul
from pykernels._generated.kernels.mul_mat import KERNEL
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import integer
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.kernels import cpy, mul_mat
from pykernels.runtime.whole import whole
from pykernels.tensors.layout import contiguous_layout
from pykernels.tensors.strides import reshaped_strides

__all__ = ["dot", "einsum", "tensordot"]

Labels = tuple[str, ...]
Axes = int | tuple[int | Sequence[int], int | Sequence[int]]
_EINSUM, _TENSORDOT, _DOT = [replace(KERNEL, name=n) for n in ("einsum", "tensordot", "dot")]
MOST_BATCH = 4  # axes of batches that mul_mat takes


@whole
def einsum(subscripts: str, a: Array, b: Array, *, out: Tensor | None = None) -> Array:
    """The sum of products that subscripts describe, of two operands, as numpy.einsum.

    "bij,bjk->bik" multiplies matrices. A letter that the result lacks is summed over. A letter that
    an operand has twice takes its diagonal. "..." stands for axes that broadcast. Without "->" the
    result has the axes of "..." and then the letters that occur once, in alphabetical order. Sums
    are f32 for all operands, and no operand is rounded. It is one batched matrix
    product on views; operands whose axes do not merge in memory are copied first.

    Args:
        subscripts: letters of the axes, as in numpy.
        a: Tensor or numpy array, float32 or float16.
        b: Tensor or numpy array, float32 or float16.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if both operands
            are, else float32.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ArgumentError: for subscripts that are malformed, or not of two operands.
        ShapeError: if axes of one letter differ in size, or the number of axes does not fit.
        DTypeError, LimitError and the errors of `pykernels.kernels.mul_mat`.
    """
    call = Call(_EINSUM, a, b, out=out)
    left, right = call.tensor("a", a), call.tensor("b", b)
    terms, output = _parse(subscripts, (left.ndim, right.ndim))
    return _contract("einsum", call, out, (left, right), terms, output)


@whole
def tensordot(a: Array, b: Array, axes: Axes = 2, *, out: Tensor | None = None) -> Array:
    """The sum of products over some axes of a and b, as numpy.tensordot.

    The result has the other axes of a, then those of b. Sums are f32.

    Args:
        a: Tensor or numpy array, float32 or float16.
        b: Tensor or numpy array, float32 or float16.
        axes: a number of axes, the last of a and the first of b; or the axes of a and of b, each an
            integer or a sequence.
        out: as in `einsum`.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ArgumentError: an axis is not an integer, or is given twice.
        ShapeError: the axes do not exist, or sizes differ.
        DTypeError, LimitError and the errors of `pykernels.kernels.mul_mat`.
    """
    op = "tensordot"
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
    return _contract(op, call, out, (left, right), (terms[0], terms[1]), output)


def dot(a: Array | float, b: Array | float, *, out: Tensor | None = None) -> Array:
    """The sum of products over the last axis of a and the second-to-last axis of b, by the rules of
    numpy: result[..., i, ..., k] = sum over j of a[..., i, j] * b[..., j, k]. If b has one axis,
    that axis is summed: two vectors give a number. If a or b has no axes, it is `mul`. Sums are
    f32.

    Args:
        a: Tensor, numpy array or number, float32 or float16; any dtype of `mul` where a or b has no
            axes.
        b: The same.
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
    return _contract("dot", call, out, (left, right), ((*rest, "k"), other), output)


def _axes(op: str, t: Tensor, given: int | Sequence[int]) -> tuple[int, ...]:
    """Axes of one operand, counted from 0."""
    listed = given if isinstance(given, Sequence) else (given,)
    numbers = [integer(op, "axes", n) for n in listed]
    if not all(-t.ndim <= n < t.ndim for n in numbers):
        raise ShapeError(f"[{op}] axes {numbers} do not exist in shape {t.shape}")
    found = tuple(n % t.ndim for n in numbers)
    if len({*found}) < len(found):
        raise ArgumentError(f"[{op}] axes must differ but are {numbers}")
    return found


def _parse(subscripts: str, ndims: tuple[int, int]) -> tuple[tuple[Labels, Labels], Labels]:
    """The labels of each operand and of the result; axes of "..." are numbered from the last
    axis."""
    if not isinstance(subscripts, str):
        raise ArgumentError(f"[einsum] subscripts must be a string but are {subscripts!r}")
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    names = inputs.split(",")
    if len(names) != 2:
        raise ArgumentError(f"[einsum] subscripts must name two operands but are {subscripts!r}")
    dots = [0 if "..." not in n else d - len(n) + 3 for n, d in zip(names, ndims, strict=True)]
    for name, ndim, extra in zip(names, ndims, dots, strict=True):
        _check_letters(subscripts, name)
        if extra < 0 or len(name.replace("...", "")) + extra != ndim:
            raise ShapeError(
                f"[einsum] {name!r} of {subscripts!r} does not fit an operand of {ndim} axes"
            )
    left, right = (_labels(n, extra) for n, extra in zip(names, dots, strict=True))
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        once = sorted(c for c in letters if letters.count(c) == 1)
        return (left, right), (*_labels("...", max(dots)), *once)
    _check_letters(subscripts, result)
    output = _labels(result, max(dots))
    if max(dots) and "..." not in result:
        raise ArgumentError(f"[einsum] the result of {subscripts!r} must have the axes of '...'")
    for label in output:
        if label not in left + right:
            raise ArgumentError(
                f"[einsum] the result of {subscripts!r} has {label!r}, which no operand has"
            )
    if len({*output}) < len(output):
        raise ArgumentError(f"[einsum] the result of {subscripts!r} has a letter twice")
    return (left, right), output


def _check_letters(subscripts: str, term: str) -> None:
    letters = term.replace("...", "", 1)
    if not ((letters.isascii() and letters.isalpha()) or not letters):
        raise ArgumentError(
            f"[einsum] subscripts must be letters and one '...' each but are {subscripts!r}"
        )


def _labels(term: str, dots: int) -> Labels:
    before, _, after = term.partition("...")
    numbered = [str(n) for n in reversed(range(dots))] if "..." in term else []
    return (*before, *numbered, *after)


def _contract(
    op: str, call: Call, out: Tensor | None, tensors: tuple[Tensor, Tensor],
    terms: tuple[Labels, Labels], output: Labels,
) -> Array:  # fmt: skip
    """The product of operands with labelled axes, summed over the labels that the result lacks."""
    left, right = (_diagonals(op, t, labels) for t, labels in zip(tensors, terms, strict=True))
    sizes: dict[str, int] = {}
    for t, labels in (left, right):
        for label, n in zip(labels, t.shape, strict=True):
            known = sizes.get(label, 1)
            if 1 not in (known, n) and known != n:
                raise ShapeError(
                    f"[{op}] axes of one label must agree but {label!r} has sizes {known} and {n}"
                )
            sizes[label] = n if known == 1 else known
    result = call.out(tuple(sizes[x] for x in output), _dtype(op, *tensors, out))
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
    if strides is None:  # the result's axes do not merge: a product, then a copy in its order
        product = target._fresh(contiguous_layout(shape, target._layout.dtype))
        mul_mat(b, a, product)
        cpy(product.reshape(target.shape), target)
    else:
        mul_mat(b, a, target._view(shape, strides, target.offset))
    return call.leave(result)


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


def _dtype(op: str, left: Tensor, right: Tensor, out: Tensor | None) -> DTypeName:
    if out is None:
        return "float16" if left.dtype == right.dtype == "float16" else "float32"
    if out.dtype not in ("float32", "float16"):
        raise DTypeError(f"[{op}] out must be float32 or float16 but is {out.dtype}")
    return out.dtype
