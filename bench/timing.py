"""The clock of the benches for scripts that try things out: seconds of a call, ours or torch's."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pykernels as pk
from bench.others import cuda_sample
from pykernels.bench.ceilings import movement
from pykernels.bench.clock import Effort, GpuSample, measure

__all__ = ["HAVE_TORCH", "copy_bandwidth", "gpu_time", "torch_time"]

HAVE_TORCH = importlib.util.find_spec("torch") is not None
if HAVE_TORCH:
    import torch

    HAVE_TORCH = torch.cuda.is_available()


def gpu_time(
    dev: pk.Device, call: Callable[[], object], rounds: int = 20, warm: float = 0.3
) -> float:
    """Seconds of GPU time of one call: the median of `rounds` readings after a warm-up."""
    effort = replace(Effort.of(dev), warm=warm, rounds=rounds)
    return measure(GpuSample(dev, call), effort).seconds


def torch_time(call: Callable[[], object], rounds: int = 20) -> float:
    """The same by CUDA events."""
    return measure(cuda_sample(torch, call), Effort(warm=0.05, rounds=rounds)).seconds


def copy_bandwidth(dev: pk.Device, nbytes: int) -> dict[str, float]:
    """Bytes read plus bytes written per second, by way of copying; checked."""
    ways = movement(dev, nbytes, partial(measure, effort=Effort.of(dev)))
    return {name: rate for name, rate in ways.items() if name.startswith("copy")}
