"""Quantised weights: rows that become blocks have no gradients."""

from __future__ import annotations

from pykernels.errors import TapeError
from pykernels.tape import Taped


def rope_append_quant(call: Taped) -> None:
    raise TapeError(f"[tape] {call.kernel.name} has no gradient rule: the cache must be floats")
