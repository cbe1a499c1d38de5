"""Opens the GPUDevice of a `Device`: adapter, engine and features."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pykernels.contract import SUBGROUP_MATRIX
from pykernels.errors import ArgumentError, NoAdapterError

from . import matrix
from .adapters import AdapterType, choose, of_type
from .engine import Engine, EngineName, get_engine

__all__ = ["opened", "shared_device"]


def opened(
    adapter: int | str | None, engine: EngineName | None, checks: bool, matrix_units: bool,
    type: AdapterType | None,
) -> tuple[Engine, Any]:  # fmt: skip
    """The engine, and a new GPUDevice of it; the arguments are the same as in `Device`."""
    if not (adapter is None or _is_index(adapter) or (isinstance(adapter, str) and adapter)):
        raise ArgumentError(
            f"[device] adapter must be None, a number or a part of a name but is {adapter!r}"
        )
    if not (engine is None or isinstance(engine, str)):
        raise ArgumentError(f"[device] engine must be 'wgpu' or 'dawn' but is {engine!r}")
    e = get_engine("wgpu" if engine is None else engine)
    allowed = matrix_units and matrix.allow(e)
    chosen = choose(of_type(e.adapters(), type, e), adapter, e)
    if matrix_units:
        matrix.require(chosen, allowed)
    try:
        raw = e.open(chosen, checks, (SUBGROUP_MATRIX.name,) if matrix_units else ())
    except (e.error_class, RuntimeError) as error:
        raise NoAdapterError(f"the adapter gives no device: {error}") from None
    return e, raw


def shared_device() -> Any:
    """The GPUDevice that other users of the engine share; PYKERNELS_ENGINE names the engine."""
    name, with_units = _asked_engine()
    engine = get_engine(name)
    allowed = with_units and matrix.allow(engine)
    first = choose(of_type(engine.adapters(), None, engine), None, engine)
    if with_units:
        matrix.require(first, allowed)
    return engine.default_device((SUBGROUP_MATRIX.name,) if with_units else ())


def _asked_engine() -> tuple[EngineName, bool]:
    """The engine of the default device, and whether to open its matrix units."""
    known: dict[str, tuple[EngineName, bool]] = {
        "": ("wgpu", False), "wgpu": ("wgpu", False), "dawn": ("dawn", False),
        "dawn-matrix": ("dawn", True),
    }  # fmt: skip
    asked = os.environ.get("PYKERNELS_ENGINE", "")
    if asked not in known:
        raise NoAdapterError(
            f"[device] PYKERNELS_ENGINE must be wgpu, dawn or dawn-matrix but is {asked!r}"
        )
    return known[asked]


def _is_index(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
