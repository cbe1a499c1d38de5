"""The logger of the package, named `pykernels`: what is worth knowing of a process in service."""

from __future__ import annotations

import logging

__all__ = ["logger"]

logger = logging.getLogger("pykernels")
