"""Tables that `pykernels tune` measured: one file for each adapter, driver and engine, in the
configuration folder of the user."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Adapter", "folder", "is_of", "path_of", "save", "table_name"]

MARK = "measured"  # the part of a file that says of what it is
OFF = ".off"  # behind the name of a file that is ignored


class Adapter(NamedTuple):
    """What a table is measured on, and what it counts for alone. `engine`: "wgpu", "dawn", or
    "dawn-matrix" with matrix units."""

    name: str
    driver: str
    engine: str


def folder() -> Path:
    """Where the user's tables lie, as the platform has it."""
    home = Path(os.path.expanduser("~"))  # of an unknown user "~", where nothing lies
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        given = os.environ.get("XDG_CONFIG_HOME", "")
        base = Path(given) if os.path.isabs(given) else home / ".config"
    return base / "pykernels" / "tuning"


def table_name(adapter: Adapter) -> str:
    """A file's name: words of the adapter, and digits that tell drivers apart."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{adapter.name} {adapter.engine}".lower()).strip("-")
    digits = hashlib.sha256("\n".join(adapter).encode()).hexdigest()[:8]
    return f"{words[:60]}-{digits}"


def path_of(adapter: Adapter) -> Path:
    return folder() / f"{table_name(adapter)}.toml"


def is_of(data: Mapping[str, Any], adapter: Adapter) -> str:
    """Why a table is of something else than this adapter; "" where it is of it."""
    mark = data.get(MARK)
    if not isinstance(mark, dict):
        return f"it has no [{MARK}], which says what it was measured on"
    for key, own in adapter._asdict().items():
        if mark.get(key) != own:
            return f"it was measured on another {key}, {mark.get(key)!r}, and this is {own!r}"
    return ""


def save(path: Path, text: str) -> None:
    """The whole file or nothing of it, whenever this is interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
