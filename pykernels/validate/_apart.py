"""Runs one job of a validator in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ._types import Finding, Source

__all__ = ["TIMEOUT", "apart"]

_WORKER = "pykernels.validate._pool"
_MOST_SECONDS = 60  # seconds after which a worker is stopped; for some texts Tint would take longer
TIMEOUT = "timeout"  # the code of a finding on a text that takes too long


def apart(checker: Mapping[str, Any], sources: list[Source]) -> list[Finding]:
    """Check texts in another process. A text that ends the process, or takes too long, gets an
    error."""
    name = checker["name"]
    job = {"checker": dict(checker), "sources": [asdict(s) for s in sources]}
    code = ""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    try:
        done = subprocess.run(
            [sys.executable, "-m", _WORKER],
            input=json.dumps(job),
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            encoding="utf-8",
            timeout=_MOST_SECONDS,
        )
        why, detail = f"{name} ended with {done.returncode}", done.stderr
    except subprocess.TimeoutExpired:
        done, code = None, TIMEOUT
        why = detail = f"{name} took longer than {_MOST_SECONDS} s"
    if done is not None and done.returncode == 0:
        return [Finding(**fields) for fields in json.loads(done.stdout)]
    if len(sources) == 1:  # this text alone ends the validator's process
        return [Finding(sources[0].name, 1, 1, "error", why, name, code, detail)]
    half = len(sources) // 2
    return [*apart(checker, sources[:half]), *apart(checker, sources[half:])]
