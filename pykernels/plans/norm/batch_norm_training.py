"""batch_norm_training: computes the statistics of each channel, keeps them, then computes dst."""

from __future__ import annotations

from pykernels._generated.bodies import norm_running
from pykernels.errors import ArgumentError, ShapeError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .channels import check, normalised
from .statistics import Norm, Statistics, check_affine, statistics

__all__ = ["plan"]

OP = "batch_norm_training"


def plan(
    caps: Caps, scratch: Scratch, x: View, weight: View | None, bias: View | None,
    running_mean: View | None, running_variance: View | None, saved: View | None, dst: View,
    momentum: float, eps: float,
) -> list[Step]:  # fmt: skip
    """The dispatches of one call."""
    check(OP, x)
    channels = x.shape[1]
    check_affine(
        OP, channels, weight=weight, bias=bias, running_mean=running_mean,
        running_variance=running_variance,
    )  # fmt: skip
    if (running_mean is None) != (running_variance is None):
        raise ArgumentError(
            f"[{OP}] running_mean and running_variance go together: give both or neither"
        )
    if saved is not None and saved.shape != (3, channels):
        raise ShapeError(f"[{OP}] saved must have shape {(3, channels)} but has {saved.shape}")
    if x.size == 0:
        return []
    if x.size == channels:
        raise ShapeError(f"[{OP}] a channel must have two or more elements in x of {x.shape}")
    axes = tuple([a for a in range(x.ndim) if a != 1])
    norm = Norm(OP, True, eps)
    steps, known = statistics(caps, scratch, norm, x, axes)
    if running_mean is not None or saved is not None:
        steps.append(_kept(caps, scratch, known, running_mean, running_variance, saved, momentum))
    return steps + normalised(caps, scratch, norm, x, known, weight, bias, dst, 0)


def _kept(
    caps: Caps, scratch: Scratch, known: Statistics, running_mean: View | None,
    running_variance: View | None, saved: View | None, momentum: float,
) -> Step:  # fmt: skip
    """The step that writes the kept statistics; missing tensors get scratch memory."""
    shape, strides = known.squares.shape[1:2], known.squares.strides[1:2]
    pivot, offset = known.pivot or known.squares, known.offset or known.squares
    rooms = [scratch.empty((4,), "float32").with_layout(shape, (0,)) for _ in range(2)]
    room = scratch.empty((4,), "float32").with_layout((3, *shape), (0, 0))
    return norm_running.step(
        caps, pivot.with_layout(shape, strides), offset.with_layout(shape, strides),
        known.squares.with_layout(shape, strides), running_mean or rooms[0],
        running_variance or rooms[1], saved or room,
        has_running=int(running_mean is not None), has_saved=int(saved is not None),
        degrees=known.elements - 1, momentum=momentum,
    )  # fmt: skip
