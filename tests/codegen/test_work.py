"""What a call moves and computes: the functions `nbytes` and `operations` that specs say."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from pykernels.dtypes import DTYPES
from pykernels.layout import View, contiguous_strides
from pykernels.plan import Kernel, touched


def view(*shape: int, dtype: str = "float32") -> View:
    dt = DTYPES[dtype]
    return View(0, dt, shape, contiguous_strides(shape, dt.itemsize), 0)


def kernel(name: str) -> Kernel:
    found: Kernel = importlib.import_module(f"pykernels._generated.kernels.{name}").KERNEL
    return found


X = view(6, 4, 10)
HALF = view(6, 4, 10, dtype="float16")
A, B = view(2, 7, 5), view(4, 3, 5, dtype="float16")
# kernel, views, arguments by name: bytes, operations
WORK: list[tuple[str, tuple[View | None, ...], dict[str, Any], int, int]] = [
    ("cpy", (X, HALF), {}, 240 * 6, 0),
    ("fill", (HALF,), {}, 480, 0),
    ("memset", (X,), {}, 960, 0),
    ("memset", (X,), {"offset": 3}, 957, 0),
    ("memset", (X,), {"offset": 3, "size": 2}, 2, 0),
    ("softmax", (X, None, None, X), {}, 2 * 960, 6 * 240),
    ("softmax", (X, view(10), view(6), X), {"scale": 2.0}, 2 * 960 + 40 + 24, 8 * 240),
    ("softmax_backward", (HALF, HALF, HALF), {}, 3 * 480, 5 * 240),
    ("mul_mat", (A, B, None, None, view(4, 3, 7)), {}, 280 + 120 + 336, 2 * 4 * 3 * 7 * 5),
    (
        "conv2d", (view(2, 4, 6, 6), view(8, 2, 3, 3), None, None, view(2, 8, 4, 4)), {"groups": 2},
        4 * (288 + 144 + 256), 2 * 256 * 18,
    ),
    (
        "conv2d", (view(2, 4, 6, 6), view(8, 4, 3, 3), None, view(8, 1, 1), view(2, 8, 4, 4)), {},
        4 * (288 + 288 + 8 + 256), 2 * 256 * 36,
    ),
    (
        "mul_mat", (A, B, view(7), view(3, 7), view(4, 3, 7)), {"activation": "relu"},
        280 + 120 + 28 + 84 + 336, 2 * 4 * 3 * 7 * 5,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "views", "given", "nbytes", "operations"), WORK)
def test_work_of_a_call(
    name: str, views: tuple[View | None, ...], given: dict[str, Any], nbytes: int, operations: int
) -> None:
    k = kernel(name)
    assert len(views) == len(k.args)
    assert k.nbytes(*views, **given) == nbytes
    assert k.operations(*views, **given) == operations
    options = {o: given.get(o) for o in k.options if o in given}
    assert k.operations(*views, **options) == operations


def test_a_broadcast_counts_once() -> None:
    repeated = view(4, 5).with_layout((3, 4, 5), (0, 20, 4))
    assert touched(repeated, None) == 80
    assert touched(view(4, 5).with_layout((0, 5), (0, 0))) == 0
