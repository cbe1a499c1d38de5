"""The measured cases: one module for each family, found by the family's name. A kernel of a family
without a module is measured, too.

SHAPES = [Shape("llama-3-logits", (512, 128256), "Llama 3: logits of 512 tokens")]
MAIN = {"softmax": ("f32-4096x4096",)}    ids of the cases that represent their kernel: if time is
                                          short, peers run only beside these cases; README shows
                                          these cases
def cases(edge): ...                      all cases, with sizes cut to `edge` if it is not 0
def softmax(shape=(...), dtype, out): ... the problem of a shape, as a Case: needed if inputs cannot
                                          be random, or if the tensors' shapes differ
PEERS = {"torch": torch}                  see pykernels.bench.peers
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, cast

from pykernels import kernels
from pykernels.bench.case import Case, Operand
from pykernels.bench.shapes import cut
from pykernels.dtypes import DTypeName, dtype_of
from pykernels.reference import family

if TYPE_CHECKING:
    from pykernels.bench.run import Peer

__all__ = ["FUNCTIONS", "cases", "default_shape", "is_main", "modules", "peers", "plain", "problem"]

SQUARE = (4096, 4096)
# Functions that build kernels at run time are measured, too: for each name, the module with the
# cases.
FUNCTIONS = {
    "elementwise": "elementwise", "reduction": "reduce", "mse_loss": "loss",
    "binary_cross_entropy_with_logits": "loss",
}  # fmt: skip


def modules() -> list[ModuleType]:
    """The modules of this package, one for each family."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


def cases(edge: int = 0) -> Iterator[Case]:
    """All cases of all families, with sizes cut to `edge` if it is given, and one case of each
    kernel without cases in a module."""
    known = set()
    for module in modules():
        for case in module.cases(edge):
            known.add(case.kernel)
            yield case
    for kernel in sorted({*kernels.__all__} - known):
        yield problem(kernel, tuple(cut(n, edge) for n in default_shape(kernel)), "float32")


def peers() -> dict[str, dict[str, Peer]]:
    """The peers, by kernel and then by name."""
    return {k: dict(getattr(_module(k), "PEERS", {})) for k in (*kernels.__all__, *FUNCTIONS)}


def is_main(case: Case) -> bool:
    """True for a case that represents its kernel. Cases with reduced sizes always do."""
    known = getattr(_module(case.kernel), "MAIN", {}).get(case.kernel)
    return known is None or case.id in known or case.id not in _ids()


@cache
def _ids() -> frozenset[str]:
    return frozenset(case.id for case in cases())


def _module(kernel: str) -> ModuleType | None:
    """The module of the kernel's family."""
    name = f"{__name__}.{FUNCTIONS.get(kernel) or family(kernel)}"
    return next((m for m in modules() if m.__name__ == name), None)


def problem(kernel: str, shape: Sequence[int], dtype: str, **args: object) -> Case:
    """A case of any kernel; the shape () means the kernel's default shape. `dtype` may give the
    dtype of the output after a colon: "float32:float16". Raises ValueError or TypeError if the
    kernel has no such problem."""
    given, out = (dtype_of(n).name if n else "" for n in dtype.partition(":")[::2])
    shape = tuple(shape) or default_shape(kernel)
    make = getattr(_module(kernel), kernel, None)
    case: Case
    case = make(shape, given, out or given) if make else plain(kernel, shape, given, out or given)
    if case.function is not None:
        return case
    given_args = dict(case.args) | args
    for n, p in inspect.signature(getattr(kernels, kernel)).parameters.items():
        if p.default is inspect.Parameter.empty and p.annotation != "Tensor":
            given_args.setdefault(n, 1)
    return case.labelled(args=given_args)


def plain(kernel: str, shape: tuple[int, ...], dtype: str, out: str) -> Case:
    """A case in which all tensors have this shape."""
    parameters = inspect.signature(getattr(kernels, kernel)).parameters
    names = [n for n, p in parameters.items() if p.annotation == "Tensor"]
    tensors = {n: Operand(shape, cast(DTypeName, dtype)) for n in names}
    tensors[names[-1]] = Operand(shape, cast(DTypeName, out))
    return Case(kernel, tensors, {}, shape)


def default_shape(kernel: str) -> tuple[int, ...]:
    """A size that keeps a large GPU busy."""
    make = getattr(_module(kernel), kernel, None)
    if make is None:
        return SQUARE
    found: tuple[int, ...] = inspect.signature(make).parameters["shape"].default
    return found
