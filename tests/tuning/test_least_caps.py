"""Each kernel on a device of WebGPU's least limits: a small case of it computes what it should.

Plans think that workgroups have 256 invocations and 16 KiB and that there are no halves,
subgroups and matrix units, as on the least device of devices.toml; the driver may have more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import pytest

import pykernels as pk
from pykernels.bench import cases as named_cases
from pykernels.bench.case import Case, load
from pykernels.tuning import named
from pykernels.wgsl.texts import read_manifest
from tests.harness import caps

LEAST = {
    "f16": False, "subgroups": False, "matrix": None, "max_invocations": 256,
    "max_workgroup_bytes": 16384, "max_binding": 1 << 27,
}  # fmt: skip
EDGE = 32


def _cases() -> Iterator[Case]:
    """The first small case of each kernel without halves."""
    found: set[str] = set()
    for case in named_cases.cases(EDGE):
        halves = any(o.dtype in ("float16", "bfloat16") for o in case.tensors.values())
        if case.function is None and not halves and case.kernel not in found:
            found.add(case.kernel)
            yield case


CASES = list(_cases())


@functools.cache
def _variants() -> dict[str, Any]:
    found: dict[str, Any] = read_manifest()["variants"]
    return found


@pytest.mark.gpu
@pytest.mark.once
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.kernel)
def test_small_cases_on_the_least_device(dev: pk.Device, case: Case) -> None:
    facts = _variants()
    with caps(dev, **LEAST, tuning=named("generic-large")):
        loaded = load(dev, case)
        with dev.profile() as p:
            loaded()
        verdict = loaded.check()
    assert verdict.size and not verdict.wrong
    assert p.records
    for record in p.records:
        text = facts[record.label]
        assert not text["features"] and text["workgroup_bytes"] <= 16384, record.label
        assert math.prod(text["workgroup_size"]) <= 256, record.label
