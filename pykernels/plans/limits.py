"""Limits that all plans keep to."""

from __future__ import annotations

from pykernels.steps import Caps

__all__ = ["MAX_ROUNDS", "fits", "fits_tile"]

# The most rounds of a loop of one invocation: a software driver ends all loops after 65,535 rounds.
MAX_ROUNDS = 30_000


def fits(caps: Caps, invocations: int, nbytes: int) -> bool:
    """True if a workgroup may have this number of invocations and bytes of workgroup memory."""
    return invocations <= caps.max_invocations and nbytes <= caps.max_workgroup_bytes


def fits_tile(caps: Caps, threads: int, rows: int, cols: int, bk: int) -> bool:
    """True if workgroup memory can hold a stage of depth `bk` in f32: `rows` rows of one operand
    and `cols` columns of the other."""
    return fits(caps, threads, 4 * bk * (rows + cols))
