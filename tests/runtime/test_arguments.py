"""Arguments are judged by what they are: not by what was called before, and before anything of the
call is touched."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import check_works

pytestmark = pytest.mark.gpu

Call: TypeAlias = Callable[..., None]


def conv2d(dev: pk.Device) -> Call:
    x, w, dst = dev.ones((1, 1, 4, 4)), dev.ones((1, 1, 1, 1)), dev.empty((1, 1, 4, 4))
    return lambda **options: pk.kernels.conv2d(x, w, dst, **options)


def flash_attn(dev: pk.Device) -> Call:
    q, dst = dev.ones((1, 1, 4, 8)), dev.empty((1, 1, 4, 8))
    return lambda **options: pk.kernels.flash_attn(q, q, q, dst, **options)


def memset(dev: pk.Device) -> Call:
    dst = dev.empty(16)
    return lambda **options: pk.kernels.memset(dst, 0, **options)


def softmax(dev: pk.Device) -> Call:
    x, dst = dev.ones((4, 16)), dev.empty((4, 16))
    return lambda **scalars: pk.kernels.softmax(x, dst, **scalars)


# An option, what it should be, and values that equal it: of the type, and of others.
CASES: list[tuple[Callable[[pk.Device], Call], str, Any, list[Any], list[Any]]] = [
    (conv2d, "stride", 1, [np.int64(1), (1, np.int32(1))], [True, 1.0, Fraction(1), (1.0, 1)]),
    (conv2d, "padding", 0, [np.uint8(0)], [False, 0.0, -0.0, (0.0, 0), np.float32(0)]),
    (conv2d, "groups", 1, [np.int64(1)], [True, 1.0, np.float64(1), Fraction(1)]),
    (flash_attn, "window", (2, 0), [(np.int64(2), np.uint8(0))], [(2.0, 0), (2, 0.0), (2, False)]),
    (flash_attn, "causal", True, [np.True_], [1, 1.0, np.float32(1), None, "no"]),
    (flash_attn, "scale", 1.0, [1, True, np.float32(1), Fraction(1)], [1 + 0j, "1"]),
    (
        flash_attn,
        "softcap",
        2.0,
        [2, np.float16(2), Fraction(2)],
        ["2", np.complex64(2), np.full(2, 2.0)],
    ),
    (memset, "offset", 4, [np.int64(4)], [4.0, Fraction(4)]),
    (memset, "size", 4, [np.uint8(4)], [4.0, Fraction(4)]),
    (
        softmax,
        "scale",
        1.0,
        [1, True, np.float32(1), Fraction(1)],
        [1 + 0j, "1", None, [1.0], 10**400],
    ),
]


@pytest.mark.parametrize("warm", (False, True), ids=("cold", "warm"))
@pytest.mark.parametrize(("kernel", "name", "value", "good", "bad"), CASES)
def test_values_that_equal_one_another(
    dev: pk.Device, warm: bool, kernel: Any, name: str, value: Any, good: Any, bad: Any
) -> None:
    call = kernel(dev)
    for given in [*bad, *good]:
        dev._context.forget_calls()
        if warm:
            call(**{name: value})
        if any(given is v for v in bad):
            with pytest.raises(pk.ArgumentError, match=name):
                call(**{name: given})
        else:
            call(**{name: given})
    dev.sync()


class Meddler:
    """A number that does something while it is converted."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self.meddle = meddle

    def __float__(self) -> float:
        self.meddle()
        return 2.0

    def __index__(self) -> int:
        self.meddle()
        return 1


def test_a_scalar_that_flushes_while_it_is_converted(dev: pk.Device) -> None:
    rows = np.random.default_rng(0).standard_normal((4, 16)).astype("f4")
    x, before, dst = dev.tensor(rows), dev.empty((4, 16)), dev.empty((4, 16))
    pk.kernels.softmax(x, dst, scale=2.0)
    expected = dst.numpy()
    for meddle in (dev.flush, dev.sync, dev.trim, x.numpy, lambda: pk.kernels.fill(before, 5)):
        for _ in range(2):  # cold and seen before
            pk.kernels.fill(dst, 0)
            pk.kernels.fill(before, 3)
            pk.kernels.softmax(x, dst, scale=Meddler(meddle))  # type: ignore[arg-type]
            np.testing.assert_array_equal(dst.numpy(), expected)
            assert (before.numpy() == (5 if "lambda" in repr(meddle) else 3)).all()
    check_works(dev)


def test_a_scalar_that_raises_while_it_is_converted(dev: pk.Device) -> None:
    x, dst = dev.ones((4, 16)), dev.full((4, 16), 3)

    def stop() -> None:
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            pk.kernels.softmax(x, dst, scale=Meddler(stop))  # type: ignore[arg-type]
    assert (dst.numpy() == 3).all()
    check_works(dev)


def test_an_option_that_flushes_while_it_is_converted(dev: pk.Device) -> None:
    x, w, dst = dev.ones((1, 1, 4, 4)), dev.ones((1, 1, 1, 1)), dev.empty((1, 1, 4, 4))
    for _ in range(2):
        pk.kernels.conv2d(x, w, dst, groups=Meddler(dev.sync))  # type: ignore[arg-type]
    assert (dst.numpy() == 1).all()
