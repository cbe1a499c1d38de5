"""ci/speed.sh: what it would run is there."""

from __future__ import annotations

import shlex
import subprocess
import sys

from pykernels.forcing import parse
from tests.checkout import ROOT


def test_every_command_is_there() -> None:
    listed = subprocess.run(
        ["bash", "ci/speed.sh", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = [line.partition(":")[0] for line in listed]
    assert len({*names}) == len(names) > 5
    for line in listed:
        option, module, *words = shlex.split(line.partition(":")[2])
        assert option == "-m"
        command = words[:1] if module == "pykernels" else []
        shown = subprocess.run(
            [sys.executable, "-m", module, *command, "--help"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        options = [w for w in words if w.startswith("--")]
        assert all(o in shown for o in options), (line, shown)
        for config in (words[i + 1] for i, w in enumerate(words) if w == "--config"):
            assert parse(words[1], config).body
