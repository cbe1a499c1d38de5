"""Lists adapters, selects one of them, and computes the capabilities that plans read (`Caps`)."""

from __future__ import annotations

import functools
import os
import warnings
from typing import Any, Literal, TypeAlias

from pykernels.contract import F16, SUBGROUPS
from pykernels.errors import ArgumentError, NoAdapterError, SoftwareDeviceWarning
from pykernels.steps import Caps, MatrixUnits
from pykernels.tuning import Tuning

from .engine import MODULES, Engine, EngineName, get_engine, installed
from .log import logger
from .processes import refuse_process

__all__ = [
    "AdapterInfo", "AdapterType", "advice", "caps_of", "choose", "info_of", "list_adapters",
    "of_type", "tell_software",
]  # fmt: skip

AdapterType: TypeAlias = Literal["gpu", "cpu"]


class AdapterInfo(dict[str, Any]):
    """The facts about an adapter: name, type, backend, driver, engine, features, limits."""

    def __repr__(self) -> str:
        return f"<{self['name']}, {self['type']}, {self['backend']}, engine {self['engine']}>"


def info_of(engine: Engine, adapter: Any) -> AdapterInfo:
    """The facts that an adapter reports."""
    info = adapter.info
    return AdapterInfo(
        name=info["device"],
        type=info["adapter_type"],
        backend=info["backend_type"],
        driver=info["description"],
        vendor=info["vendor"],
        engine=engine.name,
        engine_version=engine.version,
    )


def advice(engine: Engine) -> str:
    """Advice for a machine on which an engine finds no adapter."""
    others = get_engine("wgpu").adapters() if engine.name != "wgpu" else []
    if not others:
        return (
            "install a Vulkan driver (on Debian the software driver mesa-vulkan-drivers, for any "
            "machine)"
        )
    refused = ", ".join(dict.fromkeys(f"{_name(a)}, {a.info['description']}" for a in others))
    return (
        f"it refuses what the engine 'wgpu' finds ({refused}), most likely as too old: take "
        "engine='wgpu', a newer driver, or SwiftShader, whose ICD file "
        "VK_DRIVER_FILES names (on Debian that of chromium-common)"
    )


def _name(adapter: Any) -> str:
    return str(adapter.info["device"])


def list_adapters(engine: EngineName | None = None) -> list[AdapterInfo]:
    """The adapters of an engine (of all engines that are installed), best first.

    You may fork a process that has only called this function: it releases the engine again if no
    other code in the process uses the engine. On an NVIDIA GPU it does not release `wgpu`;
    children that are forked afterwards raise DeviceLostError if they open a device.
    """
    refuse_process()
    names: list[EngineName] = [engine] if engine else [n for n in MODULES if installed(n)]
    return [info for e in map(get_engine, names) for info in e.look(functools.partial(info_of, e))]


def require_gpu() -> bool | None:
    """The value of PYKERNELS_REQUIRE_GPU: True for 1 (a GPU is required), False for 0 (a CPU is
    accepted without a warning), None if it is not set."""
    asked = os.environ.get("PYKERNELS_REQUIRE_GPU", "")
    if asked not in ("", "0", "1"):
        raise ArgumentError(f"[device] PYKERNELS_REQUIRE_GPU must be 0 or 1 but is {asked!r}")
    return None if asked == "" else asked == "1"


def of_type(adapters: list[Any], kind: AdapterType | None, engine: Engine) -> list[Any]:
    """The adapters of this kind, GPUs or CPUs. Without `kind`, the adapters that
    PYKERNELS_REQUIRE_GPU allows."""
    if kind not in (None, "gpu", "cpu"):
        raise ArgumentError(f"[device] type must be 'gpu', 'cpu' or None but is {kind!r}")
    required = require_gpu() and kind is None
    if kind is None and not required:
        return adapters
    found = [a for a in adapters if (a.info["adapter_type"] == "CPU") == (kind == "cpu")]
    if found or not adapters:
        return found
    names = [a.info["device"] for a in adapters]
    why = "PYKERNELS_REQUIRE_GPU=1 asks" if required else f"type={kind!r} asks"
    what = "CPU" if kind == "cpu" else "GPU"
    raise NoAdapterError(f"[device] {why} for a {what}, but the engine {engine.name!r} has {names}")


def tell_software(info: AdapterInfo) -> None:
    """Warn once that the default device runs on the CPU."""
    if info["type"] == "CPU" and require_gpu() is None:
        _tell(info["name"], info["backend"])


@functools.cache
def _tell(name: str, backend: str) -> None:
    logger.info("no GPU: the default device is %s (%s)", name, backend)
    warnings.warn(
        f"no GPU was found: the default device is {name} ({backend}), on the CPU. "
        "With PYKERNELS_REQUIRE_GPU=1 this is an error, with 0 it is no warning",
        SoftwareDeviceWarning, stacklevel=4,
    )  # fmt: skip


def choose(adapters: list[Any], wanted: int | str | None, engine: Engine) -> Any:
    """The first adapter, the adapter with this number, or the first whose name contains the
    text."""
    if not adapters:
        raise NoAdapterError(f"the engine {engine.name!r} finds no adapter: {advice(engine)}")
    names = [a.info["device"] for a in adapters]
    if wanted is None:
        return adapters[0]
    if isinstance(wanted, int):
        if not 0 <= wanted < len(adapters):
            raise NoAdapterError(f"adapter {wanted} does not exist; there are {names}")
        return adapters[wanted]
    for a in adapters:
        if wanted.lower() in a.info["device"].lower():
            return a
    raise NoAdapterError(f"no adapter's name contains {wanted!r}; there are {names}")


def caps_of(
    features: frozenset[str], limits: dict[str, int], tuning: Tuning, matrix: MatrixUnits | None
) -> Caps:
    """The capabilities of a device, which plans read."""
    return Caps(
        f16=F16.name in features,
        subgroups=SUBGROUPS.name in features,
        alignment=max(limits["min-storage-buffer-offset-alignment"], 32),
        max_invocations=limits["max-compute-invocations-per-workgroup"],
        max_workgroup_bytes=limits["max-compute-workgroup-storage-size"],
        max_binding=limits["max-storage-buffer-binding-size"] // 4 * 4,
        max_groups=limits["max-compute-workgroups-per-dimension"],
        tuning=tuning,
        matrix=matrix,
    )
