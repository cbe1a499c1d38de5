"""Matrix units: how a process opens them, and which products an adapter's units compute.

Dawn offers them, and f16 on NVIDIA, only to processes that ask for them before they list adapters.
They are experimental. A process that does not ask runs the same shaders as on a device without
them.
"""

from __future__ import annotations

import importlib
from typing import Any

from pykernels.contract import SUBGROUP_MATRIX
from pykernels.errors import FeatureError
from pykernels.steps import MatrixUnits

from .engine import Engine

__all__ = ["allow", "require", "units_of"]

# Toggles of the whole process. With the first toggle, Dawn lists matrix units. Without the second
# toggle, Dawn hides f16 on NVIDIA's Vulkan driver, where some of its own conformance tests failed.
TOGGLES = ("allow_unsafe_apis", "vulkan_enable_f16_on_nvidia")
SUBGROUP = 32  # the lanes of a subgroup that the texts need
_KINDS = ("F32", "F16", "U32", "I32", "U8", "I8")


def allow(engine: Engine) -> bool:
    """Ask for matrix units; False if this process has listed adapters before without asking."""
    if engine.name != "dawn":
        raise FeatureError(
            "[device] the engine 'wgpu' cannot use matrix units: Device(engine='dawn', "
            "matrix_units=True), with pip install 'wgpudawn~=0.32.0'"
        )
    if not engine.matrix_units:
        extras = importlib.import_module(f"{engine.module.__name__}.backends.dawn.extras")
        try:
            extras.set_instance_extras(enable_toggles=TOGGLES)
        except RuntimeError:
            return False
        engine.matrix_units = True
    return True


def require(adapter: Any, allowed: bool) -> None:
    """Raise FeatureError if the adapter has no matrix units. `allowed` is the result of `allow`."""
    if SUBGROUP_MATRIX.name in adapter.features:
        return
    name = adapter.info["device"]
    if allowed:
        raise FeatureError(f"[device] the adapter {name!r} has no matrix units that Dawn can use")
    raise FeatureError(
        "[device] matrix units must be asked for before this process first looks at Dawn's "
        "adapters, and it did so without them: make the device with matrix_units=True first, or "
        "set PYKERNELS_ENGINE=dawn-matrix"
    )


def units_of(engine: Engine, adapter: Any) -> MatrixUnits | None:
    """The products of the adapter's units; None if it has none, or subgroups of another size."""
    if engine.name != "dawn" or SUBGROUP_MATRIX.name not in adapter.features:
        return None
    ffi, lib = engine.ffi, engine.lib
    configs = ffi.new("WGPUAdapterPropertiesSubgroupMatrixConfigs *")
    configs.chain.sType = lib.WGPUSType_AdapterPropertiesSubgroupMatrixConfigs
    info = ffi.new("WGPUAdapterInfo *")
    info.nextInChain = ffi.cast("WGPUChainedStruct *", configs)
    if lib.wgpuAdapterGetInfo(adapter._internal, info) != lib.WGPUStatus_Success:
        return None
    try:
        if not info.subgroupMinSize == info.subgroupMaxSize == SUBGROUP:
            return None
        kinds = {getattr(lib, f"WGPUSubgroupMatrixComponentType_{k}"): k.lower() for k in _KINDS}
        found = (configs.configs[i] for i in range(configs.configCount))
        shapes = frozenset(
            (kinds[c.componentType], kinds[c.resultComponentType], c.M, c.N, c.K) for c in found
        )
    finally:
        lib.wgpuAdapterPropertiesSubgroupMatrixConfigsFreeMembers(configs[0])
        lib.wgpuAdapterInfoFreeMembers(info[0])
    return MatrixUnits("subgroup_matrix", shapes)
