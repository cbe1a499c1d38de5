"""Hatchling's build hook: the package of a folder of kernels is made before files are collected.

    [build-system]
    requires = ["hatchling", "pykernels[build]"]
    build-backend = "hatchling.build"

    [tool.hatch.build.hooks.pykernels]
    shaders = "shaders"
    into = "mypkg/_kernels"

`validate` may be "require" or "skip"; the default is "auto".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from .package import build_package

__all__ = ["KernelsHook", "hatch_register_build_hook"]


class KernelsHook(BuildHookInterface[Any]):
    """Writes the package and adds its files to the build, even if git ignores them."""

    PLUGIN_NAME = "pykernels"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        missing = {"shaders", "into"} - self.config.keys()
        if missing:
            told = ", ".join(sorted(missing))
            raise ValueError(f"[tool.hatch.build.hooks.pykernels] lacks {told}")
        into = self.config["into"]
        build_package(
            root / self.config["shaders"], root / into,
            validate=self.config.get("validate", "auto"), report=self.app.display_info,
        )  # fmt: skip
        build_data["artifacts"].append(f"/{into}")


@hookimpl
def hatch_register_build_hook() -> type[KernelsHook]:
    """The hook that hatchling asks an installed plugin for."""
    return KernelsHook
