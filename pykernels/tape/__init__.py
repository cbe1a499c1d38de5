"""Gradients: a tape records the calls of kernels, and goes through the calls backwards."""

from ._backward import Taped
from ._calls import checkpoint, custom_gradient
from ._check import check_gradients
from ._entry import of_pairs, reads
from ._no_grad import no_grad
from ._sums import reshaped
from ._tape import Tape
from ._transforms import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp

__all__ = [
    "Tape", "Taped", "check_gradients", "checkpoint", "custom_gradient", "grad", "hessian", "hvp",
    "jacobian", "jvp", "no_grad", "of_pairs", "reads", "reshaped", "value_and_grad",
    "vjp",
]  # fmt: skip
