"""Running sums and products: their gradients are running sums from the end."""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels.functional.elementwise import elementwise
from pykernels.runtime.observe import recording
from pykernels.tape import Taped, reads

from ._running import products_before, weighted_from_the_end


def _from_the_end(x: Any) -> Any:
    return F.cumsum(x[..., ::-1], axis=-1)[..., ::-1]


@reads()
def cumsum(call: Taped) -> None:
    call.give("x", _from_the_end(call.dy()))


@reads("x", "dst")
def cumprod(call: Taped) -> None:
    """dx[i] = sum_k>=i dy[k] y[k] / x[i]. At the first zero of a row, y is computed without the
    zero as a factor; after it, dx is 0."""
    x, y, dy = (t.astype("float32") for t in (call.saved("x"), call.saved("dst"), call.dy()))
    if recording():  # this form has gradients of second order
        call.give("x", products_before(x) * weighted_from_the_end(x, dy))
        return
    zeros = F.cumsum((x == 0).astype("int32"), axis=-1)
    text = "where(x == 0 and zeros == 1, 1, x)"
    others = F.cumprod(elementwise(text, x=x, zeros=zeros), axis=-1)
    before, at = _from_the_end(dy * y), _from_the_end(dy * others)
    text = "where(zeros == 0, before / x, where(x == 0 and zeros == 1, at, 0))"
    call.give("x", elementwise(text, x=x, zeros=zeros, before=before, at=at))
