"""Tables that `pykernels tune` measured: where they lie, what they count for, what is ignored."""

from __future__ import annotations

import os
import tomllib
import warnings
from pathlib import Path

import pytest

from pykernels.tuning import (
    Adapter,
    as_data,
    as_file,
    for_adapter,
    named,
    path_of,
    save,
    with_section,
)

OWN = Adapter("Some GPU", "driver 1.2", "wgpu")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of nobody's, and measured tables on."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("APPDATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYKERNELS_TUNING", raising=False)
    return tmp_path


def written(adapter: Adapter = OWN) -> Path:
    """A table of this adapter, with one number of its own."""
    base = named("generic-laptop")
    data = as_data(base.matmul) | {"gemv_rows": 3}
    path = path_of(adapter)
    save(
        path, as_file(with_section(base, "matmul", data), "generic-laptop", adapter, {"date": "x"})
    )
    return path


def table(adapter: Adapter = OWN) -> tuple[str, int]:
    """The name and the number of the table that a device of this adapter takes."""
    found = for_adapter(
        adapter.name, "IntegratedGPU", driver=adapter.driver, engine=adapter.engine
    ).tuning  # fmt: skip
    return found.name, found.matmul.gemv_rows


def test_a_file_has_what_it_changes_and_what_it_is_of(folder: Path) -> None:
    path = written()
    assert path.is_relative_to(folder) and path.parent.parts[-2:] == ("pykernels", "tuning")
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    assert data == {
        "base": "generic-laptop", "measured": {**OWN._asdict(), "date": "x"},
        "matmul": {"gemv_rows": 3},
    }  # fmt: skip
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # nothing half written is left


def test_a_measured_table_is_taken_for_its_device_alone() -> None:
    path = written()
    assert table() == (path.stem, 3)
    assert (
        "measured by pykernels tune"
        in for_adapter(OWN.name, "IntegratedGPU", driver=OWN.driver, engine=OWN.engine).why
    )
    for other in (
        OWN._replace(name="Other GPU"), OWN._replace(driver="driver 1.3"),
        OWN._replace(engine="dawn"),
    ):  # fmt: skip
        assert table(other)[0] == "generic-laptop"
    assert for_adapter(OWN.name, "IntegratedGPU").tuning is named("generic-laptop")


def test_the_variable_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    path = written()
    monkeypatch.setenv("PYKERNELS_TUNING", "off")
    assert table()[0] == "generic-laptop"
    monkeypatch.setenv("PYKERNELS_TUNING", "software")
    assert table()[0] == "software"
    monkeypatch.setenv("PYKERNELS_TUNING", "")
    assert table()[0] == path.stem


BROKEN = {
    "[device": "is not TOML",
    "base = 'generic-large'": r"it has no \[measured\]",
    "[measured]\nname = 'x'": "it was measured on another name, 'x', and this is 'Some GPU'",
    f"base = 'large'\n[measured]\nname = '{OWN.name}'\ndriver = '{OWN.driver}'\nengine = 'wgpu'":
        "base must be one of",
    f"base = 'software'\n[measured]\nname = '{OWN.name}'\ndriver = '{OWN.driver}'\n"
    "engine = 'wgpu'\n[device]\nunits = 0": "device.units must be an integer above 0",
}  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_or_foreign_table_is_told_of_and_ignored(text: str) -> None:
    save(path_of(OWN), text)
    with pytest.warns(UserWarning, match=f"(?s)is ignored: .*{BROKEN[text]}"):
        assert table()[0] == "generic-laptop"


def test_a_file_that_is_no_text() -> None:
    path = path_of(OWN)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.warns(UserWarning, match="is ignored"):
        assert table()[0] == "generic-laptop"


def test_no_table_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table()[0] == "generic-laptop"


def test_an_interrupted_save_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch) -> None:
    path = written()
    before = path.read_text(encoding="utf-8")

    def stopped(a: object, b: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        save(path, "half")
    assert path.read_text(encoding="utf-8") == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("platform", "where"),
    [
        ("linux", ("cfg", "pykernels", "tuning")),
        ("darwin", ("home", "Library", "Application Support", "pykernels", "tuning")),
        ("win32", ("data", "pykernels", "tuning")),
    ],
)
def test_folder_of_a_platform(
    platform: str, where: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "cfg"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "data"))
    assert path_of(OWN).parent == tmp_path.joinpath(*where)
    if platform == "linux":
        monkeypatch.setenv("XDG_CONFIG_HOME", "relative")  # which XDG says to ignore
        assert path_of(OWN).parent == tmp_path / "home" / ".config" / "pykernels" / "tuning"
