"""random_advance: a counter of 128 bits, and what beside it stays."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import random as reference
from tests.harness import Case, Form, assert_same_bits

ONES = 0xFFFFFFFF
STATE = np.array([7, 9, ONES - 3, 5, 1, 2], np.uint32)


@pytest.mark.gpu
def test_random_advance_carries_and_keeps_the_rest(dev: pk.Device) -> None:
    case = Case(dev)
    starts = [STATE, np.array([1, 2, ONES, ONES, 3, 4], np.uint32), np.zeros(6, np.uint32)]
    states = [
        case.in_place(s, f, buffer="one")
        for s, f in zip(starts, (Form(phase=1), Form(steps=(-1,)), Form(steps=(3,))), strict=True)
    ]
    blocks = (4, ONES, 0)
    case.build()

    def run() -> None:
        for s, n in zip(states, blocks, strict=True):
            kernels.random_advance(s.tensor, n)

    for got, start, n in zip(case.run(run), starts, blocks, strict=True):
        assert_same_bits(got, reference.random_advance(start, n))
