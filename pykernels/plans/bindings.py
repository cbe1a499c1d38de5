"""Cuts calls into parts if a tensor or a temporary does not fit one storage binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pykernels.errors import LimitError
from pykernels.plans.copy import cpy
from pykernels.plans.parts import MAX_PARTS, Part, fits_binding, halves, parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["in_parts", "whole"]


def whole(
    caps: Caps, scratch: Scratch, views: Sequence[View | None], plan: Callable[[], list[Step]]
) -> list[Step] | None:
    """The steps of a call whose tensors and temporaries each fit one binding, as in most calls."""
    for v in views:
        if v is not None and not fits_binding(caps, v):
            return None
    before = len(scratch.sizes)
    steps = plan()
    return steps if _fit(caps, scratch, before, steps) else None


def in_parts(
    caps: Caps,
    scratch: Scratch,
    views: Mapping[str, View],
    axes: Sequence[Mapping[str, int]],
    plan: Callable[[Part], list[Step]],
    outputs: Sequence[str] = ("dst",),
) -> list[Step]:
    """The steps of `plan` for the parts of a call, which is cut along `axes` as in `parts`.

    If a temporary of a part does not fit (sums in float32 of a float16 result, splits of K), that
    part is halved. If the elements of one part lie too far apart in a view, the view is copied:
    before the call, or after it for `outputs`.
    """
    found: list[Step] = []
    after: list[Step] = []
    given = dict(views)
    for name, v in views.items():
        if _is_spread(caps, v, [axis[name] for axis in axes if name in axis]):
            once = _once(v)
            copy = scratch.empty(once.shape, v.dtype.name)
            given[name] = copy.broadcast_to(v.shape)
            if name in outputs:
                after += cpy.plan(caps, scratch, copy, once)
            else:
                found += cpy.plan(caps, scratch, once, copy)
    waiting = parts(caps, given, axes)[::-1]
    while waiting:
        part = waiting.pop()
        before = len(scratch.sizes)
        steps = plan(part)
        if _fit(caps, scratch, before, steps):
            found += steps
            if len(found) > MAX_PARTS:
                raise LimitError(f"the call needs more than {MAX_PARTS} dispatches")
            continue
        smaller = halves(part, axes, part.views)
        if not smaller:
            raise LimitError(
                "the call needs a temporary that is larger than one binding of this device, "
                f"{caps.max_binding} bytes, and cannot be cut"
            )
        waiting += smaller[::-1]
    return found + after


def _fit(caps: Caps, scratch: Scratch, before: int, steps: Sequence[Step]) -> bool:
    """True if all tensors that these steps bind fit their bindings. If not, all temporaries except
    the first `before` are released."""
    if max(scratch.sizes[before:], default=0) + caps.alignment <= caps.max_binding:
        return True
    bound = [b.view for step in steps for b in step.bound]
    if all(v is None or fits_binding(caps, v) for v in bound):
        return True
    while len(scratch.sizes) > before:
        scratch.sizes.pop()
    return False


def _is_spread(caps: Caps, v: View, cut: Sequence[int]) -> bool:
    """True if a view is too large for a binding, spans more than half a binding along the axes that
    cannot be cut, and has few elements along these axes."""
    if fits_binding(caps, v):
        return False
    reach, size = v.dtype.itemsize, v.dtype.itemsize
    for axis in range(v.ndim):
        if axis not in cut:
            reach += abs(v.strides[axis]) * (v.shape[axis] - 1)
            size *= v.shape[axis]
    return 2 * reach > caps.max_binding and size < reach


def _once(v: View) -> View:
    """The view in which broadcast axes have size 1."""
    shape = tuple(1 if step == 0 else n for n, step in zip(v.shape, v.strides, strict=True))
    return v.with_layout(shape, v.strides)
