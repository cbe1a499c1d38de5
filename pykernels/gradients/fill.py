"""Elements that are set to a number have a gradient of zero."""

from __future__ import annotations

from pykernels import functional as F
from pykernels.tape import Taped, reads


@reads("mask")
def fill_where(call: Taped) -> None:
    call.give("dst", F.masked_fill(call.dy(), call.saved("mask"), 0.0))
