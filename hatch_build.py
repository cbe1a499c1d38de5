"""The build hook: renders the kernels before hatchling collects the package's files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelBuildHook(BuildHookInterface[Any]):
    """Writes `pykernels/_generated` for an sdist, a wheel and an editable install alike."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        sys.path.insert(0, self.root)
        try:
            import codegen

            # An sdist (it has PKG-INFO) carries what was rendered and validated when it was made.
            if (root / "PKG-INFO").is_file() and codegen.is_fresh(root):
                return
            codegen.generate(root, validate="auto", report=self.app.display_info)
        finally:
            sys.path.remove(self.root)
