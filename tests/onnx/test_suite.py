"""ONNX's backend tests: what passes, passes; what does not, is in exclusions.toml with a reason.

`python -m tests.onnx.census` runs them, too.
"""

from __future__ import annotations

import tomllib

import pytest

import pykernels as pk
from tests.conftest import COLUMN
from tests.onnx.census import COUNTS, EXCLUSIONS, cases, expected, table, verdict

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1800)]


def test_tests_end_as_they_are_known_to(dev: pk.Device) -> None:
    if COLUMN not in ("", "wgpu-lavapipe"):
        pytest.skip("on lavapipe")
    known, wrong = expected(), []
    found = [verdict(case, dev) for case in cases()]
    for f in found:
        if f.verdict != known.get(f.name, "passed"):
            wrong.append(f"{f.name} is not {known.get(f.name, 'passed')} but {f.verdict} {f.told}")
    assert not wrong, "\n".join(wrong)
    assert table(found) + "\n" == COUNTS.read_text(encoding="utf-8")


def test_each_exclusion_has_a_reason() -> None:
    groups = tomllib.loads(EXCLUSIONS.read_text(encoding="utf-8"))["group"]
    names = [name for group in groups for name in group["tests"]]
    assert len(names) == len(set(names))
    assert all(len(group["reason"]) > 15 for group in groups)
    assert {group["verdict"] for group in groups} == {"host", "refused", "wrong"}
    last = COUNTS.read_text(encoding="utf-8").splitlines()[-1].split()
    assert int(last[1]) >= 1869 and last[-1] == "0"  # passed, crashed: the former only rises
    assert sum(map(int, last[2:])) == len(names)
