"""Tests how often `pykernels bench --against` decides correctly, for pairs of the same code, or for
pairs in which a body of the new version does 30 % more work.

    python -m bench.pairs                    20 pairs of the same code: at least 18 end with 0, none
                                             with 1 or 3
    python -m bench.pairs --busy             the same while another process eats a core: none with 1
    python -m bench.pairs --slower           the new version does 30 % more: at least 18 end with 1,
                                             none with 0

Run it on a quiet machine. A pair ends with the exit code of its comparison; the script's own exit
code is 1 if the condition of its line above is not met. Options of `pykernels bench --against` may
follow (--processes, --rounds, --device). It prints the exit code and the load of each pair. On a
virtual machine whose cores are shared, LP_NUM_THREADS=1 keeps lavapipe on one core.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SUITE = '''
import os
from pykernels import bench

TEXT = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3<u32>) {
  var sum = 0.0;
  for (var n = 0u; n < ROUNDS; n++) { sum = fma(sum, 0.5, x[i.x]); }
  dst[i.x] = sum;
}"""
ROUNDS = {"old": 1000, "new": NEW}[os.environ.get("PAIRS_SIDE", "new")]

suite = bench.Suite("pairs")

@suite.case(check=lambda x: 2 * x)
def sums(dev):
    shader = bench.Shader(TEXT.replace("ROUNDS", f"{ROUNDS}u"), 64)
    return shader, dev.rand(4096), dev.empty(4096)
'''


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--slower", action="store_true")
    chosen, options = parser.parse_known_args()
    codes: collections.Counter[int] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder, _eater() if chosen.busy else _nobody():
        module, old = Path(folder) / "suite.py", Path(folder) / "old-python"
        rounds = "1300" if chosen.slower else "1000"
        module.write_text(SUITE.replace("NEW", rounds), encoding="utf-8")
        old.write_text(f'#!/bin/sh\nPAIRS_SIDE=old exec "{sys.executable}" "$@"\n')
        old.chmod(0o755)
        for seed in range(chosen.pairs):
            command = [
                sys.executable, "-m", "pykernels", "bench", "--module", str(module), "--against",
                str(old), "--seed", str(seed), *options,
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            codes[done.returncode] += 1
            said = [line for line in done.stdout.splitlines() if "pairs sums" in line]
            said = said or done.stderr.strip().splitlines()[-1:]
            load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
            print(f"pair {seed + 1}: {done.returncode}", load, *said[:1], sep="  ", flush=True)
    print(", ".join(f"{n} ended with {code}" for code, n in sorted(codes.items())))
    most = -(-9 * chosen.pairs // 10)
    if chosen.slower:
        return int(codes[1] < most or codes[0] > 0)
    if chosen.busy:
        return int(codes[1] > 0)
    return int(codes[0] < most or codes[1] > 0 or codes[3] > 0)


@contextlib.contextmanager
def _eater() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _nobody() -> Iterator[None]:
    yield


if __name__ == "__main__":
    sys.exit(main())
