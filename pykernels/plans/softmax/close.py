"""Copies of rows whose elements lie so far apart that a binding holds few of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykernels.plans.copy import cpy
from pykernels.plans.parts import fits_binding
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["Close", "close"]


class Close(NamedTuple):
    """The tensors of a call, some of them replaced by temporaries, and the copies to and from the
    temporaries."""

    views: dict[str, View]
    before: list[Step]
    after: list[Step]


def close(caps: Caps, scratch: Scratch, views: Mapping[str, View]) -> Close:
    """The same call; if it could not be cut between rows, the rows are replaced by contiguous
    copies.

    `dst` is the written tensor.
    """
    found = Close(dict(views), [], [])
    for name, v in views.items():
        if fits_binding(caps, v):
            continue
        step = abs(v.strides[-1])
        if step <= v.dtype.itemsize or 2 * step * v.shape[-1] <= caps.max_binding:
            continue
        near = scratch.empty(v.shape, v.dtype.name)
        found.views[name] = near
        if name == "dst":
            found.after.extend(cpy.plan(caps, scratch, near, v))
        else:
            found.before.extend(cpy.plan(caps, scratch, v, near))
    return found
