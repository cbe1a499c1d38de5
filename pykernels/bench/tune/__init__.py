"""`pykernels tune`: measures a device, writes its tuning table, and checks the table's choices."""

from __future__ import annotations

from .meter import Kept
from .run import Choice, Outcome, Verdicts, adapter_of, check, measure

__all__ = ["Choice", "Kept", "Outcome", "Verdicts", "adapter_of", "check", "measure"]
