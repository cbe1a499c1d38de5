"""conv_transpose2d: see conv2d."""

from __future__ import annotations

from .conv2d import conv_transpose2d

__all__ = ["conv_transpose2d"]
