"""Sweeps: times of the functions of layer two and of peers at many sizes, by the caller's
clock."""

from __future__ import annotations

from .case import OtherEngine, SweepCase, chosen, peers
from .grid import FAMILIES, Call, calls
from .heatmap import heatmap
from .summary import as_markdown, beside, lines

__all__ = [
    "FAMILIES",
    "Call",
    "OtherEngine",
    "SweepCase",
    "as_markdown",
    "beside",
    "calls",
    "chosen",
    "heatmap",
    "lines",
    "peers",
]
