"""The generated manifest and texts, read without importing a kernel."""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Collection
from typing import Any

from pykernels.wgsl.texts import read as read_text
from pykernels.wgsl.texts import unpack_manifest

from . import Missing

__all__ = ["kernel", "manifest", "read", "read_json"]


def read(name: str) -> str:
    """A file of pykernels/_generated."""
    try:
        return read_text(name)
    except FileNotFoundError:
        raise Missing(
            f"pykernels/_generated/{name} is missing: run python -m codegen, or install pykernels"
        ) from None


def read_json(name: str) -> Any:
    """A JSON file of pykernels/_generated."""
    return json.loads(read(name))


def manifest() -> dict[str, Any]:
    """Kernels, bodies and variants."""
    return unpack_manifest(read("manifest.json"))


# Names from other libraries, each with our kernel.
_CALLED = {
    "attention": "flash_attn", "conv": "conv2d", "copy": "cpy", "embedding": "get_rows",
    "gemm": "mul_mat", "linear": "mul_mat", "sdpa": "flash_attn",
}  # fmt: skip


def _meant(name: str, kernels: Collection[str]) -> str | None:
    """The kernel that was probably meant: by its name in another library, by a name with the same
    parts in another order ("matmul"), or by a name with nearly the same letters."""
    if _CALLED.get(name) in kernels:
        return _CALLED[name]
    plain = name.replace("_", "")
    for k in kernels:
        if len(k.replace("_", "")) == len(plain):
            if plain in map("".join, itertools.permutations(k.split("_"))):
                return k
    return next(iter(difflib.get_close_matches(name, kernels, 1)), None)


def kernel(name: str) -> dict[str, Any]:
    """The manifest's entry of one kernel."""
    kernels = read_json("manifest.json")["kernels"]
    if name not in kernels:
        close = _meant(name, kernels)
        meant = (
            f": did you mean {close!r}?" if close else f"; there are {', '.join(sorted(kernels))}"
        )
        raise Missing(f"there is no kernel {name!r}{meant}")
    found: dict[str, Any] = kernels[name]
    return found
