"""What the tests of set_rows and get_rows share: dtypes, shapes, index values, comparison."""

from __future__ import annotations

import numpy as np

from tests.harness import Array, Form, assert_same, assert_same_bits, bits

FLOATS = ("float32", "float16", "bfloat16")
# One dtype of each size, then the conversions.
PAIRS = (
    ("uint8", "uint8"), ("float16", "float16"), ("float32", "float32"), ("int64", "int64"),
    ("bool", "bool"), ("bfloat16", "bfloat16"),
    *((s, d) for s in FLOATS for d in FLOATS if s != d),
)  # fmt: skip
# Contiguous rows; rows that lie apart; columns apart or backwards; odd phases.
FORMS = (
    Form(), Form(phase=1), Form(gap=4, phase=8), Form(gap=3), Form(steps=(1, 2), phase=1),
    Form(order=(1, 0)), Form(steps=(-1, 1)), Form(steps=(2, -1), phase=3),
)  # fmt: skip
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 260, 1027)
BEYOND = (-1, -(2**31), 2**31 - 1)
FAR_BEYOND = (2**31, 2**32, 2**32 + 1, -(2**32), -(2**63), 2**63 - 1, -1)


def widened(form: Form, ndim: int) -> Form:
    """A form of matrices for a tensor with more leading axes."""
    extra = ndim - 2
    order = tuple(range(extra)) + tuple(extra + a for a in form.order) if form.order else ()
    return Form(order, (1,) * extra + form.steps if form.steps else (), form.gap, form.phase)


def distinct(
    rng: np.random.Generator, shape: tuple[int, ...], m: int, dtype: str, bad: float = 0.0
) -> Array:
    """Indices into m rows, none twice along the last axis; a share `bad` of them out of range."""
    n = shape[-1]
    rows = [rng.permutation(max(m, n))[:n] for _ in range(int(np.prod(shape[:-1], dtype=int)))]
    index = np.array(rows, np.int64).reshape(shape)
    wrong = rng.random(shape) < bad
    out_there = (*BEYOND, m, m + 1, *(FAR_BEYOND if dtype == "int64" else ()))
    index[wrong] = rng.choice(np.array(out_there, np.int64), int(wrong.sum()))
    return index.astype(dtype)


def compare(got: Array, want: Array, before: Array, converted: bool, what: str) -> None:
    """Bit for bit, but that a NaN that was converted stands for any other."""
    if not converted:
        assert_same_bits(got, want, what)
        return
    written = (bits(want) != bits(before)) | (bits(got) != bits(before))
    assert_same(got[written], want[written], what)
