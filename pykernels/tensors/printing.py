"""The values of a tensor as text, shortened as in numpy, by one small read."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from pykernels.dtypes import DTYPES
from pykernels.errors import IndexRangeError, PyKernelsError
from pykernels.runtime.launch import launch

from .layout import contiguous_layout, layout

__all__ = ["described"]

NDArray = np.ndarray[Any, np.dtype[Any]]


def described(t: Any) -> str:
    """The text of `repr`: dtype, shape, device, and the values if they can be read.

    Values cannot be read in a capture, in a recorded pass, on a lost device, or before they are
    computed.

    Raises:
        IndexRangeError: a launch has found an index out of range, as for any read.
    """
    strided = "" if t.contiguous else f", strides {t.strides}"
    where = f", offset {t._offset}" if t._offset else ""
    name = "a closed device" if t._context.dead else t._context.info["name"]
    told = f"pykernels.Tensor {t.dtype} {t.shape}{strided}{where} on {name}"
    try:
        t._context.check()
        t._context.refuse("repr", "here")
        values = _values(t)
    except IndexRangeError:  # it is raised only once, so the next read succeeds
        raise
    except PyKernelsError:
        return f"<{told}>"
    gap = "\n" if "\n" in values else " "
    return f"<{told}:{gap}{values}>"


def _values(t: Any) -> str:
    """The text of the elements; the middle of large tensors is left out."""
    options: Any = np.get_printoptions()
    edge = options["edgeitems"]
    if t.size <= options["threshold"]:
        return np.array2string(_host(t, [[slice(0, n)] for n in t.shape]), separator=", ")
    pieces, shown = [], []
    for n in t.shape:
        cut = n > 2 * edge
        pieces.append([slice(0, edge), slice(n - edge, n)] if cut else [slice(0, n)])
        # one more element than numpy prints, so that numpy cuts the middle
        shown.append(2 * edge + 1 if cut else n)
    corners = _host(t, pieces)
    whole = np.zeros(shown, corners.dtype)
    places = [[i for i in range(n) if n <= 2 * edge or i != edge] for n in shown]
    whole[np.ix_(*places)] = corners
    return np.array2string(whole, threshold=0, edgeitems=edge, separator=", ")


def _host(t: Any, pieces: list[list[slice]]) -> NDArray:
    """Parts of a tensor, joined on the device and read at once; no tape records this."""
    dtype = DTYPES["uint16" if t.dtype == "bfloat16" else t.dtype]
    source = t._with(layout(t.shape, t.strides, dtype))
    if not (t.contiguous and all(len(parts) == 1 for parts in pieces)):
        shape = tuple([sum([p.stop - p.start for p in parts]) for parts in pieces])
        joined = t._fresh(contiguous_layout(shape, dtype))
        for corner in itertools.product(*pieces):
            at = [slice(0, p.stop) if not p.start else slice(n - (p.stop - p.start), n)
                  for p, n in zip(corner, shape, strict=True)]  # fmt: skip
            part, room = source[(*corner,)], joined[(*at,)]
            if part.size:
                key = (t._context.copy, (), part._location, room._location)
                launch(key, (part, room), (), True)
        source = joined
    found: NDArray = source.numpy()
    if t.dtype == "bfloat16":
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found
