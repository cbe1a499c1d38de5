"""Copies and conversions: the gradient of the source is the gradient of the copy, converted
back."""

from __future__ import annotations

from pykernels.tape import Taped, of_pairs, reads


@reads()
@of_pairs
def default(call: Taped) -> None:
    dy = call.dy()
    if call.is_complex("dst") and not call.is_complex("src"):
        dy = dy[..., 0]
    call.give("src", dy.reshape(call.shape("src") or ()))
