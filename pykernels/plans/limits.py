"""Limits that all plans keep to."""

from __future__ import annotations

from pykernels.plan import Caps

__all__ = ["MAX_ROUNDS", "fits"]

# One invocation loops at most this often: a software driver ends all loops after 65,535 rounds.
MAX_ROUNDS = 30_000


def fits(caps: Caps, invocations: int, nbytes: int) -> bool:
    """May a workgroup have so many invocations and bytes of workgroup memory?"""
    return invocations <= caps.max_invocations and nbytes <= caps.max_workgroup_bytes
