"""The build hook: renders the kernels before hatchling collects the package's files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def is_for_pre_commit(root: Path) -> bool:
    """Is this a clone in pre-commit's store? Its hook validates other people's files: an install
    without kernels is enough, and takes seconds where rendering and validating takes a minute."""
    return root.name.startswith("repo") and (root.parent / "db.db").is_file()


class KernelBuildHook(BuildHookInterface[Any]):
    """Writes `pykernels/_generated` for an sdist, a wheel and an editable install alike, but not
    where pre-commit installs its hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if is_for_pre_commit(root):
            return
        sys.path.insert(0, self.root)
        try:
            import codegen

            # An sdist (it has PKG-INFO) carries what was rendered and validated when it was made.
            if (root / "PKG-INFO").is_file() and codegen.is_fresh(root):
                return
            codegen.generate(root, validate="auto", report=self.app.display_info)
        finally:
            sys.path.remove(self.root)
