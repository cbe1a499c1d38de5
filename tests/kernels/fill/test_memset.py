"""memset: any byte range of a view, to the byte, and nothing beside it."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import memset
from pykernels.reference.fill import memset as reference
from tests.harness import DTYPE_NAMES, Case, Form, assert_same_bits, caps, forms, values

pytestmark = pytest.mark.gpu

# Around the words, vectors and workgroups of the kernel (4, 16, 4096 bytes).
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 255, 256, 257, 4095, 4096, 4097, 12289)


def check(dev: pk.Device, ranges: list[tuple[int, int, int]], tail: int = 8192) -> None:
    """memset of (phase, offset, size) ranges, each in a view of its own."""
    case = Case(dev, tail=tail)
    views = []
    for phase, offset, size in ranges:
        # Some bytes of the view lie behind the range, unless the buffer is to end with it.
        before = values(case.rng, "uint8", offset + size + (5 if tail else 0))
        views.append(case.in_place(before, Form(phase=phase), buffer="one" if tail else None))
    case.build()

    def call() -> None:
        for i, (v, (_, offset, size)) in enumerate(zip(views, ranges, strict=True)):
            memset(v.tensor, i % 255 + 1, offset=offset, size=size)

    results = case.run(call)
    for i, (got, v, (_, offset, size)) in enumerate(zip(results, views, ranges, strict=True)):
        assert v.values is not None
        want = reference(v.values, i % 255 + 1, offset=offset, size=size)
        assert_same_bits(got, want, f"range {ranges[i]}")


@pytest.mark.parametrize("phase", range(16))
def test_memset_sets_exactly_its_range(dev: pk.Device, phase: int) -> None:
    check(dev, [(phase, offset, size) for size in SIZES for offset in (0, phase * 7 % 19)])


def test_memset_of_two_bytes_at_three(dev: pk.Device) -> None:
    t = dev.tensor(np.arange(1, 13, dtype=np.uint8))
    memset(t, 255, offset=3, size=2)
    assert t.numpy().tolist() == [1, 2, 3, 255, 255, 6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("phase", range(4))
def test_memset_at_the_end_of_a_buffer(dev: pk.Device, phase: int) -> None:
    check(dev, [(phase, offset, size) for size in (1, 5, 13, 258) for offset in (0, 3)], tail=0)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_memset_whole_views_of_any_dtype(dev: pk.Device, dtype: str) -> None:
    case = Case(dev)
    for i, form in enumerate(forms(3, repeats=False).values()):
        case.output((5, 6, 1 + i % 4), dtype, form, buffer="one")
    case.build()

    def call() -> None:
        for i, v in enumerate(case.operands):
            memset(v.tensor, 0x40 + i)

    for i, got in enumerate(case.run(call)):
        assert set(got.tobytes()) == {0x40 + i}


def test_memset_splits_what_no_binding_holds(dev: pk.Device) -> None:
    with caps(dev, max_binding=2 * dev._context.caps.alignment + 1024):
        check(dev, [(phase, 1, size) for phase in (0, 5) for size in (1024, 1025, 3072, 5000)])
        # The last piece is shorter than the rounding of the window before it.
        check(dev, [(5, 0, 2049), (1, 0, 1025), (3, 0, 1029), (0, 0, 1026)], tail=0)


def test_memset_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        check(dev, [(3, 2, 3 * 4096 + 1)])


@pytest.mark.parametrize(
    ("value", "options", "error", "parts"),
    [
        (256, {}, pk.ArgumentError, ["[memset]", "[0, 255]", "256"]),
        (-1, {}, pk.ArgumentError, ["[memset]", "[0, 255]", "-1"]),
        (0.5, {}, pk.ArgumentError, ["[memset]", "integer", "0.5"]),
        (float("nan"), {}, pk.ArgumentError, ["[memset]", "nan"]),
        ("1", {}, pk.DTypeError, ["[memset]", "real number", "'1'"]),
        (1, {"offset": -1}, pk.ShapeError, ["[memset]", "-1", "12 bytes"]),
        (1, {"offset": 13}, pk.ShapeError, ["[memset]", "13", "12 bytes"]),
        (1, {"size": 13}, pk.ShapeError, ["[memset]", "13", "12 bytes"]),
        (1, {"size": -1}, pk.ShapeError, ["[memset]", "-1"]),
        (1, {"offset": 8, "size": 5}, pk.ShapeError, ["[memset]", "8 to 13", "12 bytes"]),
        (1, {"offset": 1.5}, pk.ArgumentError, ["[memset]", "int", "1.5"]),
    ],
)
def test_memset_rejects_values_and_ranges(
    dev: pk.Device, value: float, options: dict[str, int], error: type[Exception], parts: list[str]
) -> None:
    before = np.arange(12, dtype=np.uint8)
    t = dev.tensor(before)
    with pytest.raises(error) as e:
        memset(t, value, **options)
    assert all(part in str(e.value) for part in parts), str(e.value)
    assert_same_bits(t.numpy(), before)


def test_memset_rejects_views(dev: pk.Device) -> None:
    t = dev.tensor(np.zeros((4, 6), np.float32))
    with pytest.raises(pk.ShapeError, match=r"\[memset\] a range of bytes needs a contiguous view"):
        memset(t[:, ::2], 1, offset=4)
    with pytest.raises(pk.AliasError, match=r"\[memset\] dst is broadcast or overlaps itself"):
        memset(t[:1].broadcast_to((3, 6)), 1)
    with pytest.raises(pk.DTypeError, match=r"\[memset\] dst must be a pykernels.Tensor"):
        memset(np.zeros(3), 1)  # type: ignore[arg-type]


def test_memset_of_two_words_up_to_the_end_of_a_buffer(dev: pk.Device) -> None:
    """No vector of four words ends there, so words are written one by one."""
    buffer = dev.wgpu_device.create_buffer(size=24, usage=0x80 | 0x04 | 0x08)
    x = pk.Tensor.from_buffer(buffer, (3,), "int64", device=dev)
    pk.kernels.fill(x[1:], value=-5 << 33)
    assert x.numpy().tolist() == [0, -5 << 33, -5 << 33]
