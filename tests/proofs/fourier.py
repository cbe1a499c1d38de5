"""The functions of pk.fft beside numpy: layouts, dtypes, axes and lengths are drawn.

    python -m tests.proofs.fourier [--count 500] [--seed 0] [--most 16384]

Lengths are drawn so that each power of two has as many between it and the next; tests/kernels/fft
has lengths of each kind by name.
"""

from __future__ import annotations

import os
import sys
import time

import click
import numpy as np

import pykernels as pk
from tests.conftest import DRIVERS
from tests.kernels.fft.test_fft import check_calls

__all__ = ["drawn", "wrong_calls"]


def drawn(seed: int, most: int) -> list[int]:
    """Lengths from 1 to `most`."""
    logs = np.random.default_rng([seed, most]).uniform(0, np.log2(most), 16)
    return [int(2**n) for n in logs]


def wrong_calls(dev: pk.Device, seeds: range, most: int) -> list[str]:
    """What each wrong call says; there is a call a seed."""
    wrong = []
    for seed in seeds:
        try:
            check_calls(dev, seed, drawn(seed, most), count=1)
        except AssertionError as e:
            wrong.append(f"seed {seed}: {str(e).splitlines()[0]}")
    return wrong


@click.command(help=__doc__)
@click.option("--count", default=500)
@click.option("--seed", default=0, help="Of the first call; each call has the next one.")
@click.option("--most", default=16384, help="The greatest length.")
def main(count: int, seed: int, most: int) -> None:
    engine, _, driver = os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu").partition("-")
    started = time.monotonic()
    with pk.Device(DRIVERS.get(driver), engine=engine) as dev:
        wrong = wrong_calls(dev, range(seed, seed + count), most)
    for line in wrong:
        click.echo(line)
    click.echo(f"{count} calls, {len(wrong)} wrong, {time.monotonic() - started:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
