"""Running products and sums that use only multiplications and additions, in log2(n) steps each.

Quotients would be faster, but have no gradient where an element is 0.
"""

from __future__ import annotations

from typing import Any

from pykernels import functional as F

__all__ = ["products_before", "products_of_others", "weighted_from_the_end"]


def products_before(x: Any) -> Any:
    """For each element, the product of the elements before it, along the last axis."""
    return _running(_shifted(x, 1), None)[0]


def products_of_others(x: Any) -> Any:
    """For each element, the product of all other elements, along the last axis."""
    return products_before(x) * _backwards(products_before(_backwards(x)))


def weighted_from_the_end(x: Any, b: Any) -> Any:
    """h[i] = b[i] + x[i + 1] h[i + 1], along the last axis: the sum over k >= i of b[k] times
    the product of x[i + 1] to x[k]."""
    factors = _shifted(_backwards(x), 1)
    return _backwards(_running(factors, _backwards(b))[1])


def _running(a: Any, b: Any) -> tuple[Any, Any]:
    """The running products of a, and h[i] = b[i] + a[i] h[i - 1]."""
    step, size = 1, a.shape[-1]
    while step < size:
        if b is not None:
            ahead = b[..., step:] + a[..., step:] * b[..., :-step]
            b = F.concatenate([b[..., :step], ahead], axis=-1)
        a = F.concatenate([a[..., :step], a[..., step:] * a[..., :-step]], axis=-1)
        step *= 2
    return a, b


def _shifted(x: Any, first: float) -> Any:
    """The elements moved back by one place, after the number `first`."""
    head = x.device.full((*x.shape[:-1], min(1, x.shape[-1])), first, x.dtype)
    return F.concatenate([head, x[..., :-1]], axis=-1)


def _backwards(x: Any) -> Any:
    return x[..., ::-1]
