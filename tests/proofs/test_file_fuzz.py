"""Some broken files of each format; `python -m tests.proofs.file_fuzz` makes thousands."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.proofs import file_fuzz
from tests.proofs.file_fuzz import FORMATS, fuzz

COUNT = 60


def test_broken_files_end_in_documented_errors() -> None:
    command = [sys.executable, "-m", "tests.proofs.file_fuzz", "--count", str(COUNT)]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"{COUNT} files") == len(FORMATS)


@pytest.mark.parametrize(("name", "data"), [
    ("npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': ('<f8',"),
    ("spec", b"// /// kernel\n// doc = \"\xe3\"\n// ///\n"),
    ("spec", b"// /// kernel\n// doc = " + b"[" * 20000 + b"\n// ///\n"),
    ("safetensors", b"\x0c\0\0\0\0\0\0\0" + b'{"a": {}}   '),
    ("safetensors", b"\x02\0\0\0\0\0\0\0[]"),
])  # fmt: skip
def test_files_that_once_gave_tracebacks(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / f"file{FORMATS[name].suffix}"
    path.write_bytes(data)
    with pytest.raises(FORMATS[name].errors):
        FORMATS[name].read(path)


def _slow(path: Path) -> None:
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(("read", "said"), [
    (lambda path: json.loads(path.read_bytes())["files"]["x"], "Error"),
    (lambda path: path.with_name("new").write_text(""), "wrote {'new'}"),
    (_slow, " s"),
])  # fmt: skip
def test_a_careless_reader_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: object, said: str
) -> None:
    whole = b'{"files": {"x": 1}}'
    found = replace(FORMATS["manifest"], bases=lambda _: [whole], read=read)
    monkeypatch.setitem(FORMATS, "careless", found)
    monkeypatch.setattr(file_fuzz, "SECONDS", 0.01)
    verdicts = [verdict for _, verdict, _ in fuzz("careless", tmp_path, 20, 0)]
    assert any(said in verdict for verdict in verdicts), verdicts


def test_no_file_is_opened_to_be_written_elsewhere(tmp_path: Path) -> None:
    code = (
        "import tempfile; from tests.proofs.file_fuzz import _limit; "
        f"tempfile.tempdir = {str(tmp_path / 'own')!r}; _limit(); "
        f"open({str(tmp_path / 'x')!r}, 'w')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True)
    assert "is opened to be written" in done.stderr and not (tmp_path / "x").exists()
