"""A limit that all plans keep to."""

from __future__ import annotations

__all__ = ["MAX_ROUNDS"]

# One invocation loops at most this often: a software driver ends all loops after 65,535 rounds.
MAX_ROUNDS = 30_000
