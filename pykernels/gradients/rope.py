"""Rotary position embedding: the gradient is turned back by the same angles."""

from __future__ import annotations

from pykernels.functional.rope import rope as _rope
from pykernels.tape import Taped, reads


@reads("positions", "table")
def rope(call: Taped) -> None:
    turned = _rope(
        call.dy(), call.saved("positions"), table=call.saved("table"),
        style=call.option("style"), backward=not call.scalar("backward"),
    )  # fmt: skip
    call.give("x", turned)
