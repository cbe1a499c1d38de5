"""Gradients: a tape records the calls of kernels, and goes through them backwards."""

from ._backward import Taped
from ._entry import reads
from ._no_grad import no_grad
from ._sums import reshaped
from ._tape import Tape

__all__ = ["Tape", "Taped", "no_grad", "reads", "reshaped"]
