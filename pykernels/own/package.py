"""`pykernels build` as functions: a folder of kernel sources becomes a package of Python."""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pykernels.errors import ArgumentError, PyKernelsError
from pykernels.tensors.host import type_name
from pykernels.validate._cache import default_folder

from ._codegen import part

__all__ = ["Built", "SourceError", "build_package", "load_kernels", "stamp"]

_MOST = 40  # most lines of a difference that are shown for one file


class SourceError(PyKernelsError, ValueError):
    """A kernel source cannot be built; the message begins with its file and line.

    Attributes:
        file: The path of the source, relative to the parent of its folder.
        line: The line, or 0 for the whole file.
    """

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.file, self.line = file, line


@dataclass(frozen=True)
class Built:
    """The result of a build.

    Attributes:
        kernels: The names of the wrappers.
        texts: The number of rendered texts.
        written: The files that were written or removed.
        difference: With `check`, the lines in which the files differ from a build; "" if they are
            equal.
    """

    kernels: tuple[str, ...]
    texts: int
    written: tuple[str, ...]
    difference: str = ""


def build_package(
    folder: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    validate: Literal["auto", "require", "skip"] = "auto",
    check: bool = False,
    report: Callable[[str], None] = print,
) -> Built:
    """Make a typed package of the kernel sources in a folder.

    Only files that an earlier build made are replaced.

    Args:
        folder: The folder of sources. It has a file NAME.wgsl with a spec block for each kernel,
            and the files that kernels need (`lib/`, `blocks.toml`, `plans/NAME.py`,
            `reference.py`, `tuning/NAME.toml`).
        into: The folder of the package, such as "mypkg/_kernels".
        validate: "auto" validates the texts with naga and Tint, if they are installed; "require"
            needs both.
        check: Write nothing, and return the differences of the files.
        report: Called with each line of the build's report.

    Raises:
        SourceError: a source does not build, or a validator refuses it.
        ArgumentError: `into` has files that were not made by a build.
        PyKernelsError: Jinja2 is not installed.
    """
    source, target = _folder(folder), Path(into)
    package = _made(source, validate, report)
    manifest = part("folder").MARK
    _check_target(target, manifest)
    kernels = tuple(json.loads(package.files[manifest])["kernels"])
    texts = len(package.variants)
    if check:
        return Built(kernels, texts, (), _difference(target, package.files))
    return Built(kernels, texts, _written(target, package.files))


def load_kernels(
    folder: str | os.PathLike[str], *,
    validate: Literal["auto", "require", "skip"] = "auto",
) -> ModuleType:  # fmt: skip
    """Build a folder of sources as `pykernels build` does, and load its kernels as a module.

        kernels = pk.load_kernels("shaders/")
        kernels.scale(x, out, factor=2.0)

    The module is kept in the user's cache folder under a hash of its sources, so loading it again
    builds nothing. A change of a source makes another module; the old one keeps working.

    Args:
        folder: As in `pykernels build`.
        validate: "auto" validates the texts with naga and Tint, if they are installed; "require"
            needs both; "skip" leaves errors to the device's compiler.

    Raises:
        SourceError: a source does not build, or a validator refuses it.
        PyKernelsError: Jinja2 is not installed: `pip install jinja2`.
    """
    source, name = _folder(folder), stamp(folder)
    module = sys.modules.get(name)
    if module is not None:
        return module
    home = default_folder() / "kernels" / name
    manifest = part("folder").MARK
    if validate == "require" or not (home / manifest).is_file():
        files = _made(source, validate, lambda line: None).files
        home.parent.mkdir(parents=True, exist_ok=True)
        # Other processes may build the same package now, so each process makes its own folder and
        # renames it at the end.
        with tempfile.TemporaryDirectory(dir=home.parent) as temporary:
            made = Path(temporary) / "made"
            _written(made, files)
            try:
                made.rename(home)
            except OSError:  # another process has built it already
                if not (home / manifest).is_file():
                    raise
    spec = importlib.util.spec_from_file_location(
        name, home / "__init__.py", submodule_search_locations=[str(home)]
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def stamp(folder: str | os.PathLike[str]) -> str:
    """The name of the module for the current contents of a folder."""
    source, codegen = _folder(folder), part("folder")
    found = codegen.sources_of(source)
    own, build = codegen.hash_of(source, found), codegen.hash_of_build()
    return f"pykernels_loaded_{own[:16]}_{build[:8]}"


def _folder(given: str | os.PathLike[str]) -> Path:
    if not isinstance(given, str | os.PathLike):
        raise ArgumentError(f"[build] folder must be a path but is {type_name(given)}")
    folder = Path(given)
    if not folder.is_dir():
        raise ArgumentError(f"[build] {folder.as_posix()} is no folder")
    return folder


def _made(source: Path, validate: str, report: Callable[[str], None]) -> Any:
    """The package as it was built, in memory."""
    packages, errors = part("packages"), part("errors")
    try:
        return packages.build_package(source, validate=validate, report=report)
    except errors.BuildError as e:
        raise SourceError(str(e), e.file, e.line) from None


def _check_target(target: Path, manifest: str) -> None:
    if target.exists() and not target.is_dir():
        raise ArgumentError(f"[build] {target.as_posix()} is no folder")
    if target.is_dir() and any(target.iterdir()) and not (target / manifest).is_file():
        raise ArgumentError(
            f"[build] {target.as_posix()} has files that no build made: name a folder of its own"
        )


def _there(target: Path) -> list[str]:
    """The files that the folder of a package has."""
    found = (p for p in sorted(target.rglob("*")) if p.is_file() and "__pycache__" not in p.parts)
    return [p.relative_to(target).as_posix() for p in found]


def _written(target: Path, files: dict[str, str]) -> tuple[str, ...]:
    """Write changed files and remove files that are no longer made; return their names."""
    touched = []
    for name, text in files.items():
        path = target / name
        if not path.is_file() or path.read_bytes() != text.encode():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            touched.append(name)
    for name in _there(target):
        if name not in files:
            (target / name).unlink()
            touched.append(name)
    return tuple(touched)


def _difference(target: Path, files: dict[str, str]) -> str:
    lines: list[str] = []
    for name, text in files.items():
        path = target / name
        old = path.read_text(encoding="utf-8") if path.is_file() else ""
        if old != text:
            named = f"a/{name}", f"b/{name}"
            diff = difflib.unified_diff(
                old.splitlines(), text.splitlines(), *named, lineterm="", n=1
            )
            lines += list(diff)[:_MOST]
    there = _there(target) if target.is_dir() else []
    lines += [f"not made by this build: {name}" for name in there if name not in files]
    return "\n".join(lines)
