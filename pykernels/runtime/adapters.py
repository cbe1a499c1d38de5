"""Adapters: what there is to run on, and which one is meant."""

from __future__ import annotations

from typing import Any

from pykernels.errors import NoAdapterError

from .engine import MODULES, Engine, EngineName, get_engine, installed

__all__ = ["AdapterInfo", "choose", "info_of", "list_adapters"]


class AdapterInfo(dict[str, Any]):
    """What is known of an adapter: name, type, backend, driver, engine, features, limits."""

    def __repr__(self) -> str:
        return f"<{self['name']}, {self['type']}, {self['backend']}, engine {self['engine']}>"


def info_of(engine: Engine, adapter: Any) -> AdapterInfo:
    """What an adapter says of itself."""
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


def list_adapters(engine: EngineName | None = None) -> list[AdapterInfo]:
    """The adapters of an engine (of all engines that are installed), best first."""
    names: list[EngineName] = [engine] if engine else [n for n in MODULES if installed(n)]
    return [info_of(e, a) for e in map(get_engine, names) for a in e.adapters()]


def choose(adapters: list[Any], wanted: int | str | None, engine: Engine) -> Any:
    """The first adapter, the one of this number, or the first whose name contains the text."""
    if not adapters:
        raise NoAdapterError(
            f"the engine {engine.name!r} finds no adapter: install a Vulkan driver (on Debian "
            "the software driver mesa-vulkan-drivers, for any machine)"
        )
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
