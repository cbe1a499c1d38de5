"""Indices that contain arrays, as in numpy: copies of the picked elements, and assignments to them.

Slices, integers, None and Ellipsis make a view first. The arrays of an index broadcast together,
and the axes that they pick from are merged into one axis. So the arrays become one index of rows,
which get_rows reads and set_rows writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from pykernels._generated.kernels import fill as _fill
from pykernels._generated.kernels import get_rows as _get_rows
from pykernels._generated.kernels import set_rows as _set_rows
from pykernels.call.scalars import bits_of
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole

from .host import bytes_of
from .layout import contiguous_layout, expands_to
from .operators import function
from .selecting import as_rows, nonzero, select
from .strides import reshaped_strides
from .views import NDArray, TensorBase

__all__ = ["ArrayIndex", "assign", "has_arrays", "pick"]

ArrayIndex: TypeAlias = TensorBase | NDArray | list[Any] | range
T = TypeVar("T", bound=TensorBase)
_ARRAYS = (TensorBase, np.ndarray, list, tuple, range, bool, np.bool_)
_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})  # the types of items that make a view
# Up to this size the host checks whether an index names a place twice.
MOST_LOOKED_AT = 1 << 16


@dataclass(frozen=True, slots=True)
class _Pick:
    """An array in an index. It picks from `axis` of the view; this axis has the size `size`.
    `sure`: all indices count from the front and are in range."""

    index: NDArray | TensorBase
    size: int
    axis: int
    sure: bool = False


@dataclass(frozen=True, slots=True)
class _Picked:
    """The elements that an index names. `joined` axes of `source`, from `axis` on, count as one
    axis, and the elements are at the positions `places` (n,) along it. In the result, `shape` takes
    the place of these axes."""

    source: Any
    axis: int
    joined: int
    places: Any
    shape: tuple[int, ...]
    checked: bool
    distinct: bool

    @property
    def merged(self) -> tuple[int, ...]:
        """The shape of the source with the picked axes merged into one axis."""
        return self.around((math.prod(self.source.shape[self.axis : self.axis + self.joined]),))

    def around(self, middle: tuple[int, ...]) -> tuple[int, ...]:
        """A shape with these sizes in place of the picked axes."""
        shape: tuple[int, ...] = self.source.shape
        return (*shape[: self.axis], *middle, *shape[self.axis + self.joined :])


def has_arrays(index: object) -> bool:
    """True if an index contains arrays, so it makes a copy."""
    for item in index if isinstance(index, tuple) else (index,):
        if type(item) not in _BASIC and isinstance(item, _ARRAYS):
            return True
    return False


@whole
def pick(x: T, index: Any) -> T:
    """x[index], a copy."""
    found = _picked("getitem", x, index)
    source = found.source if found.joined == 1 else found.source.reshape(found.merged)
    lay = contiguous_layout(found.around((found.places.size,)), x._layout.dtype)
    result = x._fresh(lay)
    select(_get_rows.KERNEL, source, found.axis, found.places, result, found.checked)
    return result.reshape(found.around(found.shape))


@whole
def assign(x: TensorBase, index: Any, value: Any) -> None:
    """x[index] = value, a tensor or a number. If several values go to one place, the last one
    stays."""
    if not isinstance(value, TensorBase):
        bits = bits_of("setitem", value, x.dtype)
        value = x._fresh(contiguous_layout((), x._layout.dtype))
        run(_fill.KERNEL, (value,), bits)
    found = _picked("setitem", x, index)
    shape = found.around(found.shape)
    if not expands_to(value.shape, shape):
        raise ShapeError(f"[setitem] value must broadcast to {shape} but has shape {value.shape}")
    if value.dtype != x.dtype:
        value = value.astype(x.dtype)
    value = value.broadcast_to(shape).reshape(found.around((found.places.size,)))
    target, merged = found.source, found.merged
    direct = found.joined == 1 or reshaped_strides(target._layout, merged) is not None
    rows = (target if direct else target.copy()).reshape(merged)
    dst, src = as_rows(rows._layout, value._layout, found.axis)
    options = (found.checked, found.distinct)
    run(_set_rows.KERNEL, (value._with(src), found.places, rows._with(dst)), options=options)
    if not direct:
        run(x._context.copy, (rows.reshape(target.shape), target))


def _picked(op: str, x: TensorBase, index: Any) -> _Picked:
    """The elements that an index names: its basic items make a view of x, and its arrays pick from
    that view."""
    items = _items(op, index)
    used = sum(_width(item) for item in items)
    if used > x.ndim:
        raise ShapeError(f"[{op}] {used} indices for {x.ndim} axes")
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    basic: list[Any] = []
    picks: list[_Pick] = []
    numbers = []  # places of the items that are arrays or integers: integers count as arrays
    axis = at = 0  # `axis` counts the axes of x, `at` the axes of its view
    for number, item in enumerate(items):
        count = _width(item)
        if isinstance(item, (TensorBase, np.ndarray)):
            for k, (part, sure) in enumerate(_parts(op, item, x.shape[axis : axis + count])):
                picks.append(_Pick(part, x.shape[axis + k], at + k, sure))
            basic += [slice(None)] * count
            numbers.append(number)
            at += count
        elif item is None or isinstance(item, slice):
            basic.append(item)
            at += 1
        elif item is Ellipsis:
            count = x.ndim - used
            basic += [slice(None)] * count
            at += count
        else:
            basic.append(item)
            numbers.append(number)
        axis += count
    view = TensorBase.__getitem__(x, tuple(basic))
    together = numbers[-1] - numbers[0] == len(numbers) - 1
    first = picks[0].axis
    if not together:  # by numpy's rule, the picked axes then come first
        front = [p.axis for p in picks]
        view = view.transpose(*front, *(a for a in range(view.ndim) if a not in front))
        first = 0
    shape = _common(op, picks)
    if all(isinstance(p.index, np.ndarray) for p in picks):
        flat = np.broadcast_to(_on_host(op, picks), shape).reshape(-1)
        few = flat.size <= MOST_LOOKED_AT
        distinct = op == "setitem" and few and np.unique(flat).size == flat.size
        return _Picked(view, first, len(picks), _upload(x, flat), shape, False, distinct)
    places = _on_device(op, x, picks).reshape(-1)
    return _Picked(view, first, len(picks), places, shape, not all(p.sure for p in picks), False)


def _items(op: str, index: Any) -> list[Any]:
    """The items of an index, with sequences as arrays."""
    found: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, (list, tuple, range)):
            try:
                item = np.asarray(item, None if np.size(item) else np.int64)
            except ValueError as e:  # lists of different lengths
                raise ArgumentError(f"[{op}] {item!r:.60} cannot be an index: {e}") from None
        if isinstance(item, (bool, np.bool_)):
            raise ArgumentError(f"[{op}] an index must be an integer, not {item!r}")
        if isinstance(item, (np.ndarray, TensorBase)):
            kind = "f" if item.dtype == "bfloat16" else np.dtype(item.dtype).kind
            if kind == "b" and not item.ndim:
                raise ArgumentError(f"[{op}] a mask must have axes but is a single bool")
            if kind not in "biu":
                raise DTypeError(
                    f"[{op}] an index must be int32, int64 or bool but is {item.dtype}: "
                    "pk.tensor(values, 'int32') makes one"
                )
        found.append(item)
    if sum(item is Ellipsis for item in found) > 1:
        raise ArgumentError(f"[{op}] only one Ellipsis")
    return found


def _width(item: Any) -> int:
    """The number of axes that an item covers."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, (TensorBase, np.ndarray)) and item.dtype == "bool":
        return item.ndim
    return 1


def _parts(op: str, item: Any, sizes: tuple[int, ...]) -> list[tuple[Any, bool]]:
    """For each axis that an array in an index covers: an array of indices, and True if it comes
    from a mask, so that all of its indices are in range."""
    if item.dtype != "bool":
        return [(item, False)]
    if item.shape != sizes:
        raise ShapeError(
            f"[{op}] a mask must have the sizes of its axes, {sizes}, but has shape {item.shape}"
        )
    if isinstance(item, np.ndarray):
        return [(part, True) for part in np.nonzero(item)]
    found = nonzero(item, op)
    return [(found[k], True) for k in range(item.ndim)]


def _common(op: str, picks: list[_Pick]) -> tuple[int, ...]:
    """The shape to which the arrays broadcast."""
    try:
        return np.broadcast_shapes(*[p.index.shape for p in picks])
    except ValueError:
        told = ", ".join(str(p.index.shape) for p in picks)
        raise ShapeError(f"[{op}] the arrays of an index must broadcast but are {told}") from None


def _from_front(op: str, p: _Pick) -> NDArray:
    """A host index with all numbers counted from the front; IndexRangeError if one is out of
    range."""
    index = np.asarray(p.index)
    wrong = (index < -p.size) | (index >= p.size)
    if wrong.any():
        raise IndexRangeError(
            f"[{op}] index {index[wrong][0]} is out of range for an axis of size {p.size}"
        )
    found = index.astype(np.int64)  # int8, for example, may not hold the size
    return np.where(found < 0, found + p.size, found)


def _steps(picks: list[_Pick]) -> list[int]:
    """For each picked axis, the distance of its neighbours in the axis to which all picked axes are
    merged."""
    return [math.prod(p.size for p in picks[k + 1 :]) for k in range(len(picks))]


def _on_host(op: str, picks: list[_Pick]) -> NDArray:
    parts = [_from_front(op, p) * s for p, s in zip(picks, _steps(picks), strict=True)]
    return np.asarray(sum(parts))


def _on_device(op: str, x: TensorBase, picks: list[_Pick]) -> Any:
    """The arrays as one index on the device. Indices out of range stay out of range, and the call
    that uses them reports them.

    An index of uint32 from 2^31 on becomes a negative int32. It is out of range and does not count
    from the end.
    """
    if len(picks) == 1:
        [p] = picks
        if p.sure:
            return p.index
        if p.index.dtype == "uint32":
            return function("elementwise")("int32(i)", i=p.index)
        text = "where(int32(i) < 0 and int32(i) >= -n, int32(i) + n, int32(i))"
        return function("elementwise")(text, i=p.index, n=p.size)
    terms, wrong = [], []
    operands: dict[str, Any] = {}
    for k, (p, step) in enumerate(zip(picks, _steps(picks), strict=True)):
        index = p.index
        least = "0" if index.dtype == "uint32" else f"-n{k}"
        if isinstance(index, np.ndarray):
            index = _upload(x, _from_front(op, p))
        operands |= {f"i{k}": index, f"n{k}": p.size, f"s{k}": step}
        own = f"int32(i{k})"
        terms.append(f"where({own} < 0, {own} + n{k}, {own}) * s{k}")
        wrong.append(f"{own} < {least} or {own} >= n{k}")
    text = f"where({' or '.join(wrong)}, -1, {' + '.join(terms)})"
    return function("elementwise")(text, **operands)


def _upload(x: TensorBase, index: NDArray) -> TensorBase:
    """A host index on the tensor's device."""
    lay = contiguous_layout(index.shape, DTYPES["int32"])
    words = np.ascontiguousarray(index, np.int32)
    return type(x)(x._context, x._context.upload(bytes_of(words)), 0, lay)
