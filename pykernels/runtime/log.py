"""The logger of the package, `pykernels`, with the events that matter in a service."""

from __future__ import annotations

import logging

__all__ = ["logger"]

logger = logging.getLogger("pykernels")
