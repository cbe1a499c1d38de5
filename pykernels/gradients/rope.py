"""Rotary position embedding: the gradient is turned back by the same angles."""

from __future__ import annotations

from pykernels import functional as F
from pykernels.tape import Taped, reads


@reads("positions", "table")
def rope(call: Taped) -> None:
    turned = F.rope(
        call.dy(), call.saved("positions"), table=call.saved("table"),
        style=call.option("style"), backward=not call.scalar("backward"),
    )  # fmt: skip
    call.give("x", turned)
