"""Compute kernels in WGSL for Python, on wgpu.

Three layers: `pykernels.kernels` (views in, views out), the functions of this module (they
allocate their output; numpy in gives numpy out), and the command line `pykernels`.
Importing this module starts no GPU and loads nothing; everything is loaded on first use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__
from .lazy import load as _load_module

if TYPE_CHECKING:
    from . import errors as errors
    from . import fft as fft
    from . import functional as functional
    from . import gguf as gguf
    from . import kernels as kernels
    from . import onnx as onnx
    from . import validate as validate
    from .call.asking import Meta as Meta
    from .call.asking import supports as supports
    from .call.autocast import autocast as autocast
    from .device import Device as Device
    from .device import Tensor as Tensor
    from .device import default_device as default_device
    from .dtypes import DTypeLike as DTypeLike
    from .dtypes import DTypeName as DTypeName
    from .errors import *  # noqa: F403
    from .functional import *  # noqa: F403
    from .own import load_kernels as load_kernels
    from .raw import raw_kernel as raw_kernel
    from .runtime.adapters import AdapterInfo as AdapterInfo
    from .runtime.adapters import list_adapters as list_adapters
    from .tape import Tape as Tape
    from .tape import check_gradients as check_gradients
    from .tape import checkpoint as checkpoint
    from .tape import custom_gradient as custom_gradient
    from .tape import grad as grad
    from .tape import hessian as hessian
    from .tape import hvp as hvp
    from .tape import jacobian as jacobian
    from .tape import jvp as jvp
    from .tape import no_grad as no_grad
    from .tape import value_and_grad as value_and_grad
    from .tape import vjp as vjp
    from .tensors.quantised import QTensor as QTensor
    from .tensors.sparse import CSR as CSR

# The module of each public name. The names of errors and functional come from the `__all__` of
# these modules.
_MODULES = ("errors", "fft", "functional", "gguf", "kernels", "onnx", "validate")
_HOMES = {
    "AdapterInfo": "runtime.adapters",
    "CSR": "tensors.sparse",
    "DTypeLike": "dtypes",
    "DTypeName": "dtypes",
    "Device": "device",
    "Meta": "call.asking",
    "QTensor": "tensors.quantised",
    "Tape": "tape",
    "Tensor": "device",
    "autocast": "call.autocast",
    "check_gradients": "tape",
    "checkpoint": "tape",
    "custom_gradient": "tape",
    "default_device": "device",
    "grad": "tape",
    "hessian": "tape",
    "hvp": "tape",
    "jacobian": "tape",
    "jvp": "tape",
    "list_adapters": "runtime.adapters",
    "load_kernels": "own",
    "no_grad": "tape",
    "raw_kernel": "raw",
    "supports": "call.asking",
    "value_and_grad": "tape",
    "vjp": "tape",
}


def _load(name: str) -> Any:
    try:
        return globals().get(name) or _load_module(f"{__name__}.{name}")
    except ModuleNotFoundError as e:
        if e.name is None or not e.name.startswith(f"{__name__}._generated"):
            raise
        raise ImportError("the kernels are not built: run python -m codegen") from None


def _is_module(name: str) -> bool:
    """True for a module of the package, because `from pykernels import contract` asks `__getattr__`
    first."""
    if sys.is_finalizing():
        return False  # the import system is gone; loading the name then raises the error
    from importlib.util import find_spec

    return find_spec(f"{__name__}.{name}") is not None


if not TYPE_CHECKING:  # hidden from type checkers, which would accept every name

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        if name in _MODULES:
            return _load(name)
        homes: tuple[str, ...] = ("errors", "functional")
        if name in _HOMES:
            homes = (_HOMES[name],)
        elif name.startswith("_") or _is_module(name):
            homes = ()
        for home in homes:
            module = _load(home)
            if name in module.__all__:
                value = globals()[name] = getattr(module, name)
                return value
        hint = ""
        if homes:
            dtypes = _load("dtypes").DTYPES
            hint = _load("tensors.interop.names").instead(name, _load("functional").__all__, dtypes)
        # The error has the attributes that Python needs for its hint "Did you mean".
        raise AttributeError(
            f"module 'pykernels' has no attribute {name!r}{hint and f': use {hint}'}",
            name=name, obj=sys.modules[__name__],
        )  # fmt: skip


def __dir__() -> list[str]:
    public = {"__version__", *_HOMES, *_MODULES}
    return sorted(public.union(_load("errors").__all__, _load("functional").__all__))
