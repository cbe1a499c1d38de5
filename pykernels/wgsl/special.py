"""Functions that numpy lacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["erf", "erfc"]


def erf(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The error function in float64."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def erfc(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """1 minus the error function, in float64; accurate for large arguments, too."""
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x))
