"""Decides for all kernels which inputs may stay in the output's buffer.

WebGPU refuses a buffer that is bound both read-only and writable in one dispatch, and two
writable windows that touch. See `Mode` in steps.py. An input that no mode allows is copied first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pykernels.steps import Arg, Bound, Mode
from pykernels.tensors.layout import Layout, View, Window

__all__ = ["decide", "overlaps_itself", "rounded", "share_elements"]

_MAX_WORK = 10_000
_BASE = 1 << 40


class _Fake:
    """An array interface with an invented address; numpy compares addresses and reads nothing."""

    def __init__(self, view: View) -> None:
        self.__array_interface__: dict[str, Any] = {
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{view.dtype.itemsize}",
            "data": (_BASE + view.offset, False),
            "version": 3,
        }


def share_elements(a: View, b: View) -> bool:
    """True if two views share a byte, or if a bounded search cannot decide."""
    if a.size == 0 or b.size == 0 or not a.window.overlaps(b.window):
        return False
    try:
        first, second = np.asarray(_Fake(a)), np.asarray(_Fake(b))
        return np.shares_memory(first, second, max_work=_MAX_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(layout: Layout | View) -> bool:
    """True if two elements of one view share a byte. Nested strides need no search; otherwise the
    positions of all elements are compared."""
    axes = sorted((abs(s), n) for n, s in zip(layout.shape, layout.strides, strict=True) if n > 1)
    if layout.size == 0:
        return False
    reach = layout.dtype.itemsize
    nested = True
    for step, n in axes:
        if step < reach:
            nested = False
            break
        reach = step * (n - 1) + reach
    if nested:
        return False
    if layout.size > 1 << 22:
        return True  # the view has too many elements to test, so it is refused
    positions = np.zeros(1, np.int64)
    for step, n in axes:
        positions = (positions[:, None] + np.arange(n) * step).ravel()
    positions.sort()
    return bool(np.any(np.diff(positions) < layout.dtype.itemsize))


def rounded(view: View, align: int) -> Window:
    """The bound window of a view: rounded down to the alignment, and up to 16 bytes."""
    lo, hi = view.window
    return Window(lo // align * align, -(-hi // 16) * 16)


def decide(
    args: Sequence[Arg] | Sequence[Bound],
    views: Mapping[str, View],
    shared: Sequence[str],
    align: int,
    max_window: int | None = None,
) -> tuple[Mode, list[str]]:
    """The binding mode of a call, or of one step, and the inputs that must be copied before it.

    `shared` names the inputs in an output's buffer; the offsets of these inputs and of the output
    count from one origin. `max_window` is the size of the largest binding, None to ignore it.
    """
    if not shared:
        return "read", []
    # A plan's own temporary, in a slot below 0, is memory that no tensor shares.
    outputs = [a for a in args if a.role == "out" and a.name in views and views[a.name].slot >= 0]
    by_name: dict[str, Arg | Bound] = {a.name: a for a in args}
    copies: list[str] = []
    merged: list[str] = []
    writable: list[str] = []
    for name in shared:
        view = views[name]
        clash = [o for o in outputs if share_elements(view, views[o.name])]
        alias = next((o for o in outputs if o.alias == name), None)
        same_type = alias is not None and views[alias.name].dtype == view.dtype
        identical = alias is not None and same_type and _identical(view, views[alias.name])
        if by_name[name].readonly or (clash and not (identical and clash == [alias])):
            copies.append(name)
        elif clash:
            merged.append(name)
        elif _apart(view, [views[o.name] for o in outputs], align):
            writable.append(name)
        elif same_type:
            merged.append(name)
        else:
            copies.append(name)
    if merged:
        # In this mode all other inputs are bound read-only. A union of windows cannot be bound if
        # it is too large or touches another output.
        alias = next(o for o in outputs if o.alias == merged[0])
        (a0, a1), (b0, b1) = (rounded(views[n], align) for n in (merged[0], alias.name))
        low, high = min(a0, b0), max(a1, b1)
        others = [rounded(views[o.name], align) for o in outputs if o is not alias]
        if any(low < c1 and c0 < high for c0, c1 in others) or (
            max_window is not None and high - low > max_window
        ):
            return "read", list(shared)
        return "merged", copies + writable
    if writable and not _disjoint(
        [views[n] for n in views if _is_input(by_name, n, copies)], align
    ):
        return "read", list(shared)
    return ("rw" if writable else "read"), copies


def _is_input(by_name: Mapping[str, Arg | Bound], name: str, copies: Sequence[str]) -> bool:
    return by_name[name].role == "in" and not by_name[name].readonly and name not in copies


def _identical(a: View, b: View) -> bool:
    return (a.offset, a.shape, a.strides) == (b.offset, b.shape, b.strides)


def _apart(view: View, others: Sequence[View], align: int) -> bool:
    own = rounded(view, align)
    return not any(own.overlaps(rounded(o, align)) for o in others)


def _disjoint(views: Sequence[View], align: int) -> bool:
    """True if no two windows touch. Views of different buffers have different origins, so this may
    be False although the windows are apart: then inputs are copied, which is always right."""
    return all(_apart(v, views[i + 1 :], align) for i, v in enumerate(views))
