"""conv2d_backward_weight: see conv2d."""

from __future__ import annotations

from .conv2d import conv2d_backward_weight

__all__ = ["conv2d_backward_weight"]
