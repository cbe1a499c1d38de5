"""What is said where an engine finds no adapter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykernels.errors import NoAdapterError
from pykernels.runtime import adapters

LAVAPIPE = SimpleNamespace(info={"device": "llvmpipe", "description": "Mesa 22.3.6"})


def engine(name: str, *found: Any) -> Any:
    return SimpleNamespace(name=name, adapters=lambda: list(found))


def test_an_engine_that_refuses_the_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dawn refuses an old lavapipe: to install it again is no help."""
    monkeypatch.setattr(adapters, "get_engine", lambda name: engine(name, LAVAPIPE))
    with pytest.raises(NoAdapterError) as caught:
        adapters.choose([], None, engine("dawn"))
    said = str(caught.value)
    assert "refuses what the engine 'wgpu' finds (llvmpipe, Mesa 22.3.6)" in said
    assert "mesa-vulkan-drivers" not in said and "engine='wgpu'" in said


@pytest.mark.parametrize("name", ["wgpu", "dawn"])
def test_a_machine_without_drivers_gets_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "get_engine", lambda name: engine(name))
    with pytest.raises(NoAdapterError, match=r"install a Vulkan driver .*mesa-vulkan-drivers"):
        adapters.choose([], None, engine(name))
