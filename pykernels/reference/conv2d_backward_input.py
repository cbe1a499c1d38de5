"""conv2d_backward_input: see conv2d."""

from __future__ import annotations

from .conv2d import LAYER, Problem, conv2d_backward_input, problem_back

__all__ = ["conv2d_backward_input", "problem"]


def problem(
    shape: tuple[int, ...] = LAYER, dtype: str = "float32", out: str = "float32"
) -> Problem:
    """Shapes and dtypes for a layer (n, c, h, w, o, kh, kw), stride 1, no padding."""
    return problem_back("dy", shape, dtype, out)
