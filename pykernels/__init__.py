"""Compute kernels in WGSL for Python, on wgpu.

Three layers: `pykernels.kernels` (views in, views out), the functions of this module (they
allocate their output; numpy in gives numpy out), and the command line `pykernels`.
Importing this module starts no GPU; everything is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import kernels as kernels
    from .device import Device as Device
    from .device import default_device as default_device
    from .device import list_adapters as list_adapters
    from .errors import *  # noqa: F403
    from .functional import fill as fill
    from .functional import log_softmax as log_softmax
    from .functional import memset as memset
    from .functional import softmax as softmax
    from .tensor import Tensor as Tensor

_HOMES = {
    "Device": "device",
    "Tensor": "tensor",
    "default_device": "device",
    "list_adapters": "device",
}
_MODULES = ("errors", "kernels", "functional", "validate")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    if not name.startswith("_"):
        for home in ("errors", "functional"):
            module = importlib.import_module(f".{home}", __name__)
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'pykernels' has no attribute {name!r}")


def __dir__() -> list[str]:
    from . import errors, functional

    return sorted({"__version__", *_HOMES, *_MODULES, *errors.__all__, *functional.__all__})
