"""Names of a module that are loaded when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .errors import DeviceLostError

__all__ = ["Lazy", "load"]


def load(name: str) -> ModuleType:
    """The module of this name; DeviceLostError when Python ends and cannot import modules any
    more."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if not sys.is_finalizing():
            raise
        raise DeviceLostError(f"[pykernels] the process ends: {name} cannot be loaded") from None


class Lazy(ModuleType):
    """A module whose `HOMES` maps each of its names to the module that defines it.

    A submodule never hides a name: `pykernels.functional.sort` is the function.
    """

    HOMES: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        home = self.HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(load(home), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in self.HOMES):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.HOMES})
