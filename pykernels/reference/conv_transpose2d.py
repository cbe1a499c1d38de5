"""conv_transpose2d: see conv2d."""

from __future__ import annotations

from .conv2d import LAYER, Problem, conv_transpose2d, problem_back

__all__ = ["conv_transpose2d", "problem"]


def problem(
    shape: tuple[int, ...] = LAYER, dtype: str = "float32", out: str = "float32"
) -> Problem:
    """Shapes and dtypes for a layer (n, c, h, w, o, kh, kw), stride 1, no padding."""
    return problem_back("x", shape, dtype, out)
