"""A sample of the grid of small parameters; `python -m tests.proofs.grid` asks all of it."""

from __future__ import annotations

import warnings

import pytest

import pykernels as pk
from tests.proofs.grid import LAWS, Outcome, compare, sampled

pytestmark = pytest.mark.gpu
CASES = 12


@pytest.mark.parametrize("name", LAWS)
def test_small_parameters_give_what_numpy_gives(dev: pk.Device, name: str) -> None:
    seen = Outcome()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's means of nothing
        for case in sampled(name, CASES, seed=1)[0]:
            compare(dev, name, case, seen)
    assert not seen.wrong
    assert seen.right


def test_a_wrong_answer_is_seen(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = LAWS["roll"]
    wrong = type(rule)(rule.cases, lambda x, shift, axis: pk.roll(x, shift + 1, axis), rule.numpy)
    monkeypatch.setitem(LAWS, "roll", wrong)
    seen = Outcome()
    for case in sampled("roll", CASES, seed=1)[0]:
        compare(dev, "roll", case, seen)
    assert seen.wrong
