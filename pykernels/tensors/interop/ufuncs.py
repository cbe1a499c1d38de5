"""numpy's ufuncs of tensors that layer two has, as calls and as reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pykernels.tensors.operators import Operators, function

from ._refusing import lacks, refuse

__all__ = ["array_ufunc"]

# Functions with another name here, and the reductions of ufuncs.
_OTHERWISE = {"positive": "copy"}
_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any",
    "logical_and": "all",
}  # fmt: skip
# Arguments that our functions lack, with the values that change nothing.
_USUAL = {"where": True, "casting": "same_kind", "order": "K", "subok": True}


def array_ufunc(ufunc: np.ufunc, method: str, inputs: Any, named: dict[str, Any]) -> Any:
    """The result of a ufunc on the device; TypeError for a ufunc that we do not have."""
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    [out] = named.pop("out", (None,)) if ufunc.nout == 1 else [None]
    taken = dict[str, Any]()
    if method == "reduce":
        taken = {"axis": named.pop("axis", 0), "keepdims": named.pop("keepdims", False)}
        ours = _REDUCTIONS.get(ufunc.__name__, "")
        if ours in ("any", "all"):  # these two return bools for any dtype
            named.pop("dtype", None)
    else:
        ours = _OTHERWISE.get(name, name)
    try:
        called: Callable[..., Any] = _divmod if name == "divmod" else function(ours)
    except AttributeError:
        raise refuse(name) from None
    for option, value in named.items():
        lacks(name, option, value, _USUAL.get(option))
    if out is None:
        return called(*inputs, **taken)
    if isinstance(out, Operators):
        return called(*inputs, **taken, out=out)
    np.copyto(out, np.asarray(called(*inputs, **taken)), casting="same_kind")
    return out


def _divmod(a: Any, b: Any) -> tuple[Any, Any]:
    return function("floor_divide")(a, b), function("remainder")(a, b)
