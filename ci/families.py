"""Kernels and functions by family, and their pages of docs/reference, for ci/docs.py."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from docstrings import docstring, signature

from pykernels import functional, kernels
from pykernels.steps import Kernel

__all__ = [
    "aliases",
    "entry",
    "family",
    "family_pages",
    "function_families",
    "function_page",
    "functions_page",
    "kernel_families",
    "kernels_page",
    "manifest",
    "page",
]

DESIGN = Path(__file__).resolve().parent.parent / "docs" / "design"
NOTE = "<!-- Written by ci/docs.py from {source}: edit that, and run `python ci/docs.py`. -->"


def page(title: str, source: str) -> Iterator[str]:
    """The lines at the beginning of a page."""
    yield from (NOTE.format(source=source), "", f"# {title}", "")


def entry(title: str, name: str, f: Callable[..., Any], level: int = 3) -> Iterator[str]:
    """The entry of a function: heading, signature, docstring."""
    yield from (f"{'#' * level} {title}", "", signature(name, f), "", *docstring(f), "")


def manifest() -> dict[str, Any]:
    """The facts of the build: kernels, dtypes and bodies."""
    from pykernels.cli import _manifest

    found: dict[str, Any] = _manifest.manifest()
    return found


def family(name: str) -> str:
    """The family of a kernel."""
    of = getattr(kernels, name).__module__.rpartition(".")[2]
    kernel: Kernel = importlib.import_module(f"pykernels._generated.kernels.{of}").KERNEL
    return kernel.family


def kernel_families() -> dict[str, list[str]]:
    """Names of kernels by family, both sorted."""
    found: dict[str, list[str]] = {}
    for name in sorted(kernels.__all__):
        found.setdefault(family(name), []).append(name)
    return dict(sorted(found.items()))


def function_families() -> dict[str, list[str]]:
    """Names of the functions of layer two by family."""
    found: dict[str, list[str]] = {}
    for name in sorted({*functional.__all__} - {*aliases()}):
        home = getattr(functional, name).__module__.rpartition(".")[2].partition("_")[0]
        if home == "functional" or name in kernels.__all__:
            home = family(name)
        found.setdefault(home, []).append(name)
    return dict(sorted(found.items()))


def aliases() -> dict[str, str]:
    """The aliases of functions, each with the name of its function."""
    names = {n: getattr(functional, n).__name__ for n in sorted(functional.__all__)}
    return {alias: name for alias, name in names.items() if alias != name}


def function_page(name: str) -> str:
    """The link to the entry of a function of layer two, relative to docs/reference."""
    name = aliases().get(name, name)
    room = next(room for room, names in function_families().items() if name in names)
    return f"functions/{room}.md#{name.lower()}"


def kernels_page() -> Iterator[str]:
    """The page with the families of layer one."""
    yield from page("Kernels", "the kernels' specs (kernels/*/*.wgsl, ops.toml)")
    yield (
        "Layer one, `pykernels.kernels`: views in, views out. A kernel allocates nothing but "
        "scratch memory. Inputs come first, then the output, which is always called `dst`; options "
        "are keywords. [Dtypes](dtypes.md) says which dtypes each argument may have, and "
        "[errors](errors.md) what a call may raise. `python -m pykernels list` prints bodies and "
        "variants, `pykernels show NAME` a shader."
    )
    yield ""
    yield "| family | kernels | design |"
    yield "|---|---|---|"
    for room, names in kernel_families().items():
        links = ", ".join(f"[`{n}`](kernels/{room}.md#{n})" for n in names)
        yield f"| [{room}](kernels/{room}.md) | {links} | [{room}](../design/{room}.md) |"


def functions_page() -> Iterator[str]:
    """The page with the families of layer two."""
    yield from page("Functions", "the docstrings of pykernels/functional")
    yield (
        "Layer two, `pykernels` itself: functions that allocate their output, with the names and "
        "arguments of numpy and torch. A function of numpy arrays runs on the default device and "
        "returns a numpy array. If one argument is a Tensor, the function runs on its device and "
        "returns a Tensor. `out=` takes a Tensor to write to."
    )
    yield ""
    yield "| family | functions |"
    yield "|---|---|"
    for room, names in function_families().items():
        links = ", ".join(f"[`{n}`](functions/{room}.md#{n.lower()})" for n in names)
        yield f"| [{room}](functions/{room}.md) | {links} |"
    yield ""
    told = (f"`{alias}` ([{name}]({function_page(name)}))" for alias, name in aliases().items())
    yield f"Other spellings, mostly those of numpy: {', '.join(told)}."


def family_pages() -> dict[str, Callable[[], Iterator[str]]]:
    """A page for each family of each layer, by its path in docs/reference without `.md`."""
    found: dict[str, Callable[[], Iterator[str]]] = {}
    for room, names in kernel_families().items():
        found[f"kernels/{room}"] = partial(_kernel_family, room, names)
    for room, names in function_families().items():
        found[f"functions/{room}"] = partial(_function_family, room, names)
    return found


def _kernel_family(room: str, names: list[str]) -> Iterator[str]:
    yield from page(f"Kernels: {room}", "the kernels' specs (kernels/*/*.wgsl, ops.toml)")
    yield "Layer one: views in, views out. [All kernels](../kernels.md)."
    if room in function_families():
        yield f"Functions that allocate: [functions of {room}](../functions/{room}.md)."
    yield f"How they work: [design of {room}](../../design/{room}.md)."
    yield ""
    for name in names:
        yield from entry(name, f"pk.kernels.{name}", getattr(kernels, name), 2)


def _function_family(room: str, names: list[str]) -> Iterator[str]:
    yield from page(f"Functions: {room}", "the docstrings of pykernels/functional")
    yield "Layer two: functions that allocate their output. [All functions](../functions.md)."
    if room in kernel_families():
        yield f"Kernels with views in and out: [kernels of {room}](../kernels/{room}.md)."
    if (DESIGN / f"{room}.md").exists():
        yield f"How they work: [design of {room}](../../design/{room}.md)."
    yield ""
    for name in names:
        yield from entry(name, f"pk.{name}", getattr(functional, name), 2)
