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

MARK = "measured"  # the section of a file that names its adapter
OFF = ".off"  # files with this suffix are ignored


class Adapter(NamedTuple):
    """The adapter, driver and engine for which a table was measured and is valid. `engine`: "wgpu",
    "dawn", or "dawn-matrix" with matrix units."""

    name: str
    driver: str
    engine: str


def folder() -> Path:
    """The folder of the user's tables; it depends on the platform."""
    # gives "~" if the user is unknown; a folder of that name does not exist
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        given = os.environ.get("XDG_CONFIG_HOME", "")
        base = Path(given) if os.path.isabs(given) else home / ".config"
    return base / "pykernels" / "tuning"


def table_name(adapter: Adapter) -> str:
    """The name of a table's file: words of the adapter's name, and a hash that differs between
    drivers."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{adapter.name} {adapter.engine}".lower()).strip("-")
    digits = hashlib.sha256("\n".join(adapter).encode()).hexdigest()[:8]
    return f"{words[:60]}-{digits}"


def path_of(adapter: Adapter) -> Path:
    return folder() / f"{table_name(adapter)}.toml"


def is_of(data: Mapping[str, Any], adapter: Adapter) -> str:
    """The reason why a table is not for this adapter; "" if the table is for it."""
    mark = data.get(MARK)
    if not isinstance(mark, dict):
        return f"it has no [{MARK}], which says what it was measured on"
    for key, own in adapter._asdict().items():
        if mark.get(key) != own:
            return f"it was measured on another {key}, {mark.get(key)!r}, and this is {own!r}"
    return ""


def save(path: Path, text: str) -> None:
    """Write the file in one step, so that after an interrupt either the old file or the new file is
    complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
