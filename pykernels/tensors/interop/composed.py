"""Functions of numpy that are made of views, or of several calls of our functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pykernels.call.scalars import integer
from pykernels.errors import ArgumentError, ShapeError
from pykernels.lazy import load
from pykernels.tensors.axes import axes_of, axis_of
from pykernels.tensors.layout import expanded
from pykernels.tensors.operators import Operators, function

from ._refusing import lacks

__all__ = ["FUNCTIONS"]

Axis = int | tuple[int, ...] | None


# -- facts of a tensor --------------------------------------------------------------------------


def _shape(a: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = a.shape
    return shape


def _ndim(a: Any) -> int:
    return len(a.shape)


def _size(a: Any, axis: Axis = None) -> int:
    if axis is None:
        return math.prod(a.shape)
    return math.prod(a.shape[i] for i in axes_of("size", axis, a.ndim))


def _real(val: Any) -> Any:
    return function("real")(val)


# -- views ----------------------------------------------------------------------------------------


def _reshape(a: Any, /, shape: Any, order: str = "C", *, copy: Any = None) -> Any:
    lacks("reshape", "order", order, "C")
    lacks("reshape", "copy", copy, None)
    return a.reshape(shape)


def _ravel(a: Any, order: str = "C") -> Any:
    lacks("ravel", "order", order, "C")
    return a.reshape(-1)


def _transpose(a: Any, axes: Any = None) -> Any:
    return a.transpose(*(() if axes is None else (axes,)))


def _matrix_transpose(x: Any, /) -> Any:
    return function("swapaxes")(x, -1, -2)


def _fliplr(m: Any) -> Any:
    return function("flip")(m, 1)


def _flipud(m: Any) -> Any:
    return function("flip")(m, 0)


def _atleast(ndim: int) -> Callable[..., Any]:
    def at_least(*arys: Any) -> Any:
        found = [_with_axes(a, ndim) for a in _together(arys)]
        return found[0] if len(found) == 1 else tuple(found)

    return at_least


def _with_axes(a: Any, ndim: int) -> Any:
    """At least 1, 2 or 3 axes, by numpy's rules: the third axis is added at the end."""
    if ndim == 3 and a.ndim == 2:
        return a[:, :, None]
    if ndim == 3 and a.ndim == 1:
        return a[None, :, None]
    return a[(None,) * (ndim - a.ndim) + (...,)] if a.ndim < ndim else a


def _broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    lacks("broadcast_arrays", "subok", subok, False)
    parts = _together(args)
    try:
        shape = expanded(*[a.shape for a in parts])
    except ValueError as e:
        raise ShapeError(f"[broadcast_arrays] {e}") from None
    return tuple([a.broadcast_to(shape) for a in parts])


def _meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Any, ...]:
    lacks("meshgrid", "sparse", sparse, False)
    grids = function("meshgrid")(*[_known(x) for x in xi], indexing=indexing)
    return tuple([g.copy() for g in grids]) if copy else grids


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    at = axis_of("split", axis, ary.ndim)
    if not np.ndim(indices_or_sections):
        count = integer("split", "sections", indices_or_sections)
        if count > 0 and ary.shape[at] % count:
            raise ArgumentError(
                f"[split] axis {axis} of shape {ary.shape} cannot be split into {count} equal "
                "parts: np.array_split makes unequal parts"
            )
    return function("split")(ary, indices_or_sections, at)


def _splitting(name: str, axis: int, least: int) -> Callable[..., Any]:
    def split(ary: Any, indices_or_sections: Any) -> Any:
        if ary.ndim < least:
            raise ShapeError(f"[{name}] ary must have {least} or more axes but has {ary.ndim}")
        return _split(ary, indices_or_sections, min(axis, ary.ndim - 1))

    return split


def _unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    moved = function("moveaxis")(x, axis, 0)
    return tuple([moved[i] for i in range(moved.shape[0])])


# -- joining --------------------------------------------------------------------------------------


def _joining(name: str, ndim: int, axis: int) -> Callable[..., Any]:
    def joined(tup: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Any:
        lacks(name, "dtype", dtype, None)
        lacks(name, "casting", casting, "same_kind")
        parts = [_with_axes(_known(a), ndim) for a in tup]
        at = 0 if name == "hstack" and parts and parts[0].ndim == 1 else axis
        return function("concatenate")(parts, at)

    return joined


def _column_stack(tup: Sequence[Any]) -> Any:
    parts = [_known(a) for a in tup]
    return function("concatenate")(
        [a if a.ndim > 1 else _with_axes(a, 1)[:, None] for a in parts], 1
    )


# -- elements -------------------------------------------------------------------------------------


def _where(condition: Any, *values: Any) -> Any:
    if not values:
        return function("nonzero")(condition)
    return function("where")(condition, *values)


def _argwhere(a: Any) -> Any:
    return function("stack")(list(function("nonzero")(a)), -1)


def _flatnonzero(a: Any) -> Any:
    return function("nonzero")(a.reshape(-1))[0]


def _take(
    a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Any:
    lacks("take", "out", out, None)
    lacks("take", "mode", mode, "raise")
    if axis is None or not a.ndim:
        a, axis = a.reshape(-1), axis or 0
    move, at = function("moveaxis"), axis_of("take", axis, a.ndim)
    places: Any = indices
    if not isinstance(indices, Operators):
        places = np.asarray(indices, None if np.size(indices) else np.int64)
    if places.dtype == "bool":  # `places` must be numbers, not a mask
        places = places.astype("int32")
    found = move(a, at, 0)[places]
    count = found.ndim - a.ndim + 1  # the number of axes of the indices
    return move(found, tuple(range(count)), tuple(range(at, at + count)))


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    lacks("copyto", "where", where, True)
    if isinstance(dst, Operators):
        lacks("copyto", "casting", casting, "same_kind")
        function("copyto")(dst, src)
    else:
        np.copyto(dst, np.asarray(src), casting=casting)  # type: ignore[arg-type]


def _clip(
    a: Any, a_min: Any = np._NoValue, a_max: Any = np._NoValue, out: Any = None, *,
    min: Any = np._NoValue, max: Any = np._NoValue, **others: Any,
) -> Any:  # fmt: skip
    for name, value in others.items():
        lacks("clip", name, value, {"where": True, "casting": "same_kind"}.get(name))
    if (a_min, a_max) != (np._NoValue,) * 2 and (min, max) != (np._NoValue,) * 2:
        raise ArgumentError("[clip] give min and max, or a_min and a_max, but not both")
    low, high = (None if v is np._NoValue else v for v in (
        a_min if min is np._NoValue else min, a_max if max is np._NoValue else max
    ))  # fmt: skip
    return function("clip")(a, low, high, out=out)


def _sorting(name: str) -> Callable[..., Any]:
    def ordered(
        a: Any, axis: int | None = -1, kind: str | None = None, order: Any = None, *,
        stable: bool | None = None,
    ) -> Any:  # fmt: skip
        lacks(name, "order", order, None)
        if kind not in (None, "quicksort", "mergesort", "heapsort", "stable"):
            raise ArgumentError(f"[{name}] kind must be a sort of numpy's but is {kind!r}")
        # the kind of sort is ignored, because our sort is always stable
        return function(name)(a, axis)

    return ordered


def _cumulative(name: str, ours: str) -> Callable[..., Any]:
    def cumulated(
        x: Any, /, *, axis: int | None = None, dtype: Any = None, out: Any = None,
        include_initial: bool = False,
    ) -> Any:  # fmt: skip
        lacks(name, "dtype", dtype, None)
        lacks(name, "include_initial", include_initial, False)
        if axis is None and x.ndim > 1:
            raise ArgumentError(f"[{name}] axis must be given for shape {x.shape}")
        return function(ours)(x, axis, out=out)

    return cumulated


# -- products -------------------------------------------------------------------------------------


def _dot(a: Any, b: Any, out: Any = None) -> Any:
    return function("dot")(_array(a), _array(b), out=out)


def _vdot(a: Any, b: Any, /) -> Any:
    return _dot(_known(a).reshape(-1), _known(b).reshape(-1))


def _inner(a: Any, b: Any, /) -> Any:
    if not (np.ndim(a) and np.ndim(b)):
        return function("mul")(_array(a), _array(b))
    a, b = _known(a), _known(b)
    return function("tensordot")(a, b, (-1, -1))


def _outer(a: Any, b: Any, out: Any = None) -> Any:
    return function("mul")(_known(a).reshape(-1, 1), _known(b).reshape(-1), out=out)


def _linalg_outer(x1: Any, x2: Any, /) -> Any:
    x1, x2 = _known(x1), _known(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(
            f"[linalg.outer] x1 and x2 must have one axis but have {x1.shape} and {x2.shape}"
        )
    return _outer(x1, x2)


def _einsum(*operands: Any, out: Any = None, optimize: Any = False, **others: Any) -> Any:
    for name, value in others.items():
        lacks("einsum", name, value, {"order": "K", "casting": "safe"}.get(name))
    if len(operands) < 2 or not isinstance(operands[0], str):
        raise TypeError(
            "[einsum] tensors take subscripts and operands: compute other forms with "
            ".numpy() on the host"
        )
    # pykernels chooses the order of products itself, also where the caller names a search of numpy.
    path = False if isinstance(optimize, (bool, str)) else optimize
    return function("einsum")(*operands, optimize=path, out=out)


def _trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    lacks("trace", "dtype", dtype, None)
    return function("sum")(function("diagonal")(a, offset, axis1, axis2), -1, out=out)


def _linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return function("diagonal")(x, offset, -2, -1)


def _linalg_trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return _trace(x, offset, -2, -1, dtype)


def _linalg_norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """Norms of vectors, and the Frobenius norm of matrices."""
    if ord is None and axis is None:
        return function("norm")(x, None, keepdims)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 2 and ord not in (None, "fro"):
        lacks("linalg.norm", "ord", ord, None)
    if len(axes) not in (1, 2) or (len(axes) != 2 and ord == "fro"):
        raise ShapeError(f"[linalg.norm] axis {axis} of shape {x.shape} is no vector or matrix")
    return function("norm")(x, axes, keepdims, ord=2 if ord in (None, "fro") else ord)


def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    lacks("linalg.matrix_norm", "ord", ord, "fro")
    return function("norm")(x, (-2, -1), keepdims)


def _is_complex(x: Any) -> bool:
    return str(x.dtype) == "complex64"


def _angle(z: Any, deg: bool = False) -> Any:
    found = function("angle")(z)
    return found * (180 / np.pi) if deg else found


_TRANSFORMS = (
    "fft", "fft2", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftn",
)  # fmt: skip


def _transform(name: str) -> Callable[..., Any]:
    """A function of numpy.fft; ours has the same arguments."""

    def called(*args: Any, **named: Any) -> Any:
        return getattr(load("pykernels.fft"), name)(*args, **named)

    return called


def _together(args: Sequence[Any]) -> list[Any]:
    """All arguments on the device of the first tensor."""
    first: Any = next(a for a in args if isinstance(a, Operators))
    return [function("asarray")(a, device=first.device) for a in args]


def _known(a: Any) -> Any:
    """An operand that has a shape: numbers and lists become arrays."""
    return a if isinstance(a, Operators) else np.asarray(a)


def _array(a: Any) -> Any:
    """Lists become arrays. A number stays a number, because an array would promote the dtype."""
    return _known(a) if isinstance(a, (list, tuple)) else a


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "argsort": _sorting("argsort"), "argwhere": _argwhere, "atleast_1d": _atleast(1),
    "atleast_2d": _atleast(2), "atleast_3d": _atleast(3), "broadcast_arrays": _broadcast_arrays,
    "clip": _clip, "column_stack": _column_stack, "copyto": _copyto,
    "cumulative_prod": _cumulative("cumulative_prod", "cumprod"),
    "cumulative_sum": _cumulative("cumulative_sum", "cumsum"), "dot": _dot,
    "dsplit": _splitting("dsplit", 2, 3), "dstack": _joining("dstack", 3, 2), "einsum": _einsum,
    "flatnonzero": _flatnonzero, "fliplr": _fliplr, "flipud": _flipud,
    "hsplit": _splitting("hsplit", 1, 1), "hstack": _joining("hstack", 1, 1),
    "inner": _inner, "iscomplexobj": lambda x: _is_complex(x),
    "isrealobj": lambda x: not _is_complex(x),
    "linalg.diagonal": _linalg_diagonal, "linalg.matrix_norm": _matrix_norm,
    "linalg.matrix_transpose": _matrix_transpose, "linalg.norm": _linalg_norm,
    "linalg.outer": _linalg_outer, "linalg.trace": _linalg_trace,
    "matrix_transpose": _matrix_transpose, "meshgrid": _meshgrid, "ndim": _ndim,
    "outer": _outer, "ravel": _ravel, "real": _real, "reshape": _reshape, "shape": _shape,
    "size": _size, "sort": _sorting("sort"), "split": _split, "take": _take, "trace": _trace,
    "angle": _angle, "imag": lambda val: function("imag")(val),
    **{f"fft.{name}": _transform(name) for name in _TRANSFORMS},
    "transpose": _transpose, "unstack": _unstack, "vdot": _vdot,
    "vsplit": _splitting("vsplit", 0, 2), "vstack": _joining("vstack", 2, 0), "where": _where,
}  # fmt: skip
