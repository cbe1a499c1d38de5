"""The sum over the splits of gradients with respect to weights or bias."""

from __future__ import annotations

from pykernels._generated.bodies import conv_splitk_reduce
from pykernels.steps import Caps, Step
from pykernels.tensors.layout import View

__all__ = ["reduce_step"]

LANES = 2048  # invocations that keep one multiprocessor busy
SPLITS = 4  # splits that one invocation loads at a time


def reduce_step(
    caps: Caps, partials: View, dst: View, splits: int, taps: int = 1, channels: int = 1
) -> Step:
    """The step of conv_splitk_reduce; partials are (splits, rows, taps, channels), dst is (rows,
    channels, taps).

    If there are few elements, several invocations share the splits of an element.
    """
    bits = 0
    while (
        bits < 3 and splits >> bits > SPLITS and dst.size << bits < LANES * caps.tuning.device.units
    ):
        bits += 1
    return conv_splitk_reduce.step(
        caps, partials, dst, splits=splits, lane_bits=bits, taps=taps, channels=channels
    )
