"""Fourier transforms are linear: their gradients are transforms in the other direction."""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels.device import Tensor
from pykernels.tape import Taped, of_pairs, reads


@reads("table")
@of_pairs
def fft(call: Taped) -> None:
    """The gradient is the conjugate transpose of the transform. Elements of x that the transform
    did not read have a gradient of 0. For half a spectrum, each element between the first and the
    last stands for two elements of the whole spectrum, so its gradient is doubled."""
    length = call.option("length")
    shape: Any = call.shape("x")
    options = {
        "length": length, "inverse": not call.option("inverse"), "scale": call.option("scale"),
    }  # fmt: skip
    dy: Any = call.dy()
    of_half = not call.is_complex("dst")
    size = shape[-2] if call.is_complex("x") else shape[-1]
    rows = dy.shape[:-1] if of_half else dy.shape[:-2]
    taken = min(size, length // 2 + 1 if of_half else length)
    dx = dy.device.zeros((*rows, size), "complex64")
    kernels.fft(dy if of_half else _complex(dy), call.saved("table"), dx[..., :taken], **options)
    pairs = F.view_as_real(dx)
    if of_half:
        twice = pairs[..., 1 : min(taken, (length + 1) // 2), :]
        F.mul(twice, 2, out=twice)
    call.give("x", pairs if call.is_complex("x") else pairs[..., 0])


def _complex(pairs: Tensor) -> Tensor:
    if pairs.strides[-1] != 4 or any(s % 8 for s in (*pairs.strides[:-1], pairs.offset)):
        pairs = pairs.copy()
    return F.view_as_complex(pairs)


@reads()
@of_pairs
def complex(call: Taped) -> None:
    dy = call.dy()
    call.give("real", dy[..., 0])
    call.give("imag", dy[..., 1])
