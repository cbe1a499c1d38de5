"""Lists numpy's functions that run on the device, and its functions that read a tensor.

A row is a call of our function: its name, then numpy's arguments in their order. `a>b` means that
    numpy's argument `a` has the name `b` in our function. `a=value` means that our function has no
    argument `a`, so only this value, or None, may be given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pykernels.tensors.operators import Operators, function

from . import composed
from ._refusing import lacks, refuse

__all__ = ["COMPOSED", "READERS", "ROWS", "array_function"]

_REDUCED = "axis out keepdims"
_LIKE = "dtype order=K subok=True shape=None device=None"
ROWS: Mapping[str, str] = {
    "all": f"all a {_REDUCED} where=True",
    "amax": f"max a {_REDUCED} initial=None where=True",
    "amin": f"min a {_REDUCED} initial=None where=True",
    "any": f"any a {_REDUCED} where=True",
    "argmax": "argmax a axis out keepdims",
    "argmin": "argmin a axis out keepdims",
    "around": "round a decimals=0 out",
    "array_split": "split ary indices_or_sections axis",
    "astype": "astype x dtype copy=True device=None",
    "bincount": "bincount x weights minlength",
    "broadcast_to": "broadcast_to array shape subok=False",
    "concatenate": "concatenate arrays axis out dtype=None casting=same_kind",
    "copy": "copy a order=K subok=False",
    "count_nonzero": "count_nonzero a axis keepdims",
    "cumprod": "cumprod a axis dtype=None out",
    "cumsum": "cumsum a axis dtype=None out",
    "diag": "diag v k",
    "diagonal": "diagonal a offset axis1 axis2",
    "empty_like": f"empty_like prototype {_LIKE}",
    "expand_dims": "expand_dims a axis",
    "fix": "fix x out",
    "flip": "flip m axis",
    "full_like": f"full_like a fill_value>value {_LIKE}",
    "histogram": "histogram a bins range density=None weights=None",
    "isclose": "isclose a b rtol atol equal_nan",
    "linalg.det": "det a",
    "linalg.inv": "inv a",
    "linalg.matmul": "matmul x1 x2>b",
    "linalg.slogdet": "slogdet a",
    "linalg.solve": "solve a b",
    "linalg.tensordot": "tensordot x1 x2>b axes",
    "linalg.vector_norm": "norm x axis keepdims ord",
    "max": f"max a {_REDUCED} initial=None where=True",
    "mean": "mean a axis dtype=None out keepdims where=True",
    "median": "median a axis out overwrite_input=False keepdims",
    "min": f"min a {_REDUCED} initial=None where=True",
    "moveaxis": "moveaxis a source destination",
    "nan_to_num": "nan_to_num x copy=True nan posinf neginf",
    "nonzero": "nonzero a",
    "ones_like": f"ones_like a {_LIKE}",
    "pad": "pad array pad_width mode constant_values",
    "prod": "prod a axis dtype=None out keepdims initial=None where=True",
    "quantile": "quantile a q axis out=None overwrite_input=False method keepdims weights=None",
    "repeat": "repeat a repeats axis",
    "roll": "roll a shift axis",
    "round": "round a decimals=0 out",
    "searchsorted": "searchsorted a v>values side sorter=None",
    "squeeze": "squeeze a axis",
    "stack": "stack arrays axis out dtype=None casting=same_kind",
    "std": "std a axis dtype=None out ddof keepdims where=True mean=None correction",
    "sum": "sum a axis dtype=None out keepdims initial=None where=True",
    "swapaxes": "swapaxes a axis1 axis2",
    "take_along_axis": "take_along_axis arr indices axis",
    "tensordot": "tensordot a b axes",
    "tile": "tile A reps",
    "tril": "tril m k",
    "triu": "triu m k",
    "unique": (
        "unique ar return_index return_inverse return_counts axis=None equal_nan=True sorted=True"
    ),
    "var": "var a axis dtype=None out ddof keepdims where=True mean=None correction",
    "zeros_like": f"zeros_like a {_LIKE}",
}
# Functions that are made of several calls or views, by numpy's names.
COMPOSED: Mapping[str, Callable[..., Any]] = composed.FUNCTIONS
# Functions that need the elements on the host, so that a call is a read, like `.numpy()`.
READERS = frozenset({
    "allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str", "save",
    "savetxt", "savez", "savez_compressed",
})  # fmt: skip


class _Row(NamedTuple):
    """A parsed row."""

    ours: str
    arguments: tuple[str, ...]  # numpy's names in their order
    renamed: Mapping[str, str]
    lacking: Mapping[str, Any]  # arguments that we lack, with the value that may be given


def array_function(func: Callable[..., Any], args: Any, named: Mapping[str, Any]) -> Any:
    """The result of a function of numpy on the device; TypeError for a function that we do not
    have."""
    name = f"{func.__module__}.{func.__name__}".removeprefix("numpy.")
    if name in ROWS:
        return _called(name, args, named)
    if name in COMPOSED:
        return COMPOSED[name](*args, **named)
    if name in READERS:
        return func(*_read(args), **{n: _read(v) for n, v in named.items()})
    raise refuse(name)


def _called(name: str, args: Any, named: Mapping[str, Any]) -> Any:
    """The result of the function of a row."""
    row = _row(name)
    given = {**dict(zip(row.arguments, args, strict=False)), **named}
    first = given.pop(row.arguments[0])
    passed = {}
    for argument, value in given.items():
        if argument in row.lacking or argument not in row.arguments:
            lacks(name, argument, value, row.lacking.get(argument))
        elif value is not np._NoValue:
            passed[row.renamed.get(argument, argument)] = value
    return function(row.ours)(first, **passed)


@functools.cache
def _row(name: str) -> _Row:
    ours, *words = ROWS[name].split()
    values = {"None": None, "True": True, "False": False, "0": 0}
    lacking, renamed, arguments = {}, {}, []
    for word in words:
        argument, equals, value = word.partition("=")
        argument, _, other = argument.partition(">")
        arguments.append(argument)
        if equals:
            lacking[argument] = values.get(value, value)
        if other:
            renamed[argument] = other
    return _Row(ours, tuple(arguments), renamed, lacking)


def _read(value: Any) -> Any:
    """Arrays in place of tensors, also inside lists and tuples."""
    if isinstance(value, Operators):
        return value.numpy()  # type: ignore[attr-defined]
    if isinstance(value, (list, tuple)):
        return [_read(v) for v in value] if isinstance(value, list) else tuple(map(_read, value))
    return value
