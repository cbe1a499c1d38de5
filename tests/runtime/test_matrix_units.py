"""Opening matrix units: who gets them, and what those are told who cannot."""

from __future__ import annotations

import pytest

import pykernels as pk

from ._helpers import ENGINE, run_isolated

pytestmark = pytest.mark.gpu
dawn = pytest.mark.skipif(ENGINE != "dawn", reason="Dawn takes another driver")

ASK = """
import pykernels as pk
try:
    dev = {ask}
    print("opened", dev.engine, len(dev.matrix_shapes) > 0)
except pk.FeatureError as e:
    print("refused", e)
"""
OWN = 'pk.Device(engine="dawn", matrix_units=True)'


def _said(ask: str, before: str = "", **env: str) -> str:
    return run_isolated(
        ASK.format(ask=ask) if not before else before + ASK.format(ask=ask), **env
    ).stdout


def test_wgpu_does_not_reach_them() -> None:
    with pytest.raises(pk.FeatureError, match=r"'wgpu' cannot use matrix units: Device\(engine"):
        pk.Device(matrix_units=True)


def test_a_device_without_asking_has_none(dev: pk.Device) -> None:
    if dev._context.caps.matrix is None:
        assert dev.matrix_shapes == ()
    else:
        assert "f16 x f16 -> f32 16x16x16" in dev.matrix_shapes


@dawn
def test_they_are_opened_or_refused_with_a_reason() -> None:
    said = _said(OWN)
    assert said.startswith("opened dawn True") or "has no matrix units that Dawn can use" in said


@dawn
def test_too_late() -> None:
    """Where there are some: what was opened without them stays without them. A list of adapters
    leaves nothing open."""
    said = _said(OWN, 'import pykernels\nheld = pykernels.Device(engine="dawn")\n')
    assert "asked for before this process first looks at Dawn's adapters" in said


@dawn
def test_the_default_device_by_a_variable() -> None:
    assert _said("pk.default_device()", PYKERNELS_ENGINE="dawn").startswith("opened dawn False")
    said = _said("pk.default_device()", PYKERNELS_ENGINE="dawn-matrix")
    assert said.startswith("opened dawn True") or "has no matrix units" in said
    wrong = """
import pykernels as pk
try:
    pk.default_device()
except pk.NoAdapterError as e:
    print(e)
"""
    told = run_isolated(wrong, PYKERNELS_ENGINE="metal").stdout
    assert "PYKERNELS_ENGINE must be wgpu, dawn or dawn-matrix but is 'metal'" in told
