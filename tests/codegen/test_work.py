"""What a call moves and computes: the functions `nbytes` and `operations` that specs say."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from pykernels.dtypes import DTYPES
from pykernels.steps import Kernel, seen_keys, seen_pairs, spans, touched
from pykernels.tensors.layout import View, contiguous_strides


def view(*shape: int, dtype: str = "float32") -> View:
    dt = DTYPES[dtype]
    return View(0, dt, shape, contiguous_strides(shape, dt.itemsize), 0)


def kernel(name: str) -> Kernel:
    found: Kernel = importlib.import_module(f"pykernels._generated.kernels.{name}").KERNEL
    return found


X = view(6, 4, 10)
HALF = view(6, 4, 10, dtype="float16")
IMAGES = view(2, 3, 8, 8)
Q, KV = view(1, 4, 4, 10), view(1, 4, 10, 10)
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
    ("sum", (X, view(6, 4)), {"axis": 2}, 960 + 96, 240),
    ("var", (X, view(6, 4)), {"axis": 2}, 960 + 96, 4 * 240),
    ("std", (X, view(6, 4)), {"axis": 2}, 960 + 96, 4 * 240),
    ("logsumexp", (X, view(6, 4)), {"axis": 2}, 960 + 96, 4 * 240),
    # Windows count their elements, wherever they overlap.
    ("avg_pool2d", (IMAGES, view(2, 3, 6, 6)), {"kernel": 3, "stride": 1}, 4 * 600, 216 * 9),
    ("max_pool2d", (IMAGES, None, view(2, 3, 4, 4)), {"kernel": (2, 2)}, 4 * 480, 96 * 4),
    ("avg_pool2d_backward", (view(2, 3, 6, 6), IMAGES), {"kernel": 3, "stride": 1}, 4 * 600,
     216 * 10),
    ("adaptive_avg_pool2d", (IMAGES, view(2, 3, 4, 4)), {}, 4 * 480, 384),
    ("adaptive_avg_pool2d", (IMAGES, view(2, 3, 3, 4)), {}, 4 * 456, 6 * 10 * 8),
    # Of a table the rows of 5 positions, and of their thousands.
    ("rope", (view(2, 5, 8), view(5, dtype="int32"), view(2, 1024, 2, 4), view(2, 5, 8)), {},
     4 * 80 + 20 + 4 * 80 + 6 * 32, 240),
    # Keys that nobody sees are neither read nor multiplied.
    ("flash_attn", (Q, KV, KV, None, None, None, None, Q), {}, 4 * (2 * 160 + 2 * 400),
     2 * 2 * 160 * 10),
    ("flash_attn", (Q, KV, KV, None, None, None, None, Q), {"causal": True},
     4 * (2 * 160 + 2 * 400), 2 * 2 * 40 * (7 + 8 + 9 + 10)),
    ("flash_attn", (Q, KV, KV, None, None, None, None, Q), {"causal": True, "window": (2, None)},
     4 * (2 * 160 + 2 * 240), 2 * 2 * 40 * 12),
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


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 9), (9, 3), (0, 4), (4, 0)])
@pytest.mark.parametrize("causal", [False, True, "top-left"])
@pytest.mark.parametrize("window", [None, (2, 1), (None, 0), (0, None)])
def test_seen_keys_are_those_of_the_definition(
    queries: int, keys: int, causal: object, window: Any
) -> None:
    left, right = window or (None, None)
    pairs = {
        (i, j)
        for i in range(queries)
        for j in range(keys)
        if (left is None or j >= i + keys - queries - left)
        and (right is None or j <= i + keys - queries + right)
        and (causal is not True or j <= i + keys - queries)
        and (causal != "top-left" or j <= i)
    }
    assert seen_pairs(queries, keys, causal, window) == len(pairs)
    assert seen_keys(queries, keys, causal, window) == len({j for _, j in pairs})


def test_windows_that_divide_an_axis_share_elements() -> None:
    for n in range(1, 20):
        for m in range(1, n + 5):
            assert spans(n, m) == sum(-(-(o + 1) * n // m) - o * n // m for o in range(m))


def test_a_broadcast_counts_once() -> None:
    repeated = view(4, 5).with_layout((3, 4, 5), (0, 20, 4))
    assert touched(repeated, None) == 80
    assert touched(view(4, 5).with_layout((0, 5), (0, 0))) == 0
