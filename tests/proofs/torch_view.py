"""Each function that torch has, beside torch on the CPU.

    python -m tests.proofs.torch_view [NAME ...] [--count 20] [--seed 0] [--pin]

Needs torch; `torch_samples` draws the calls. torch computes in float64 from the same numbers. The
counts of right calls are kept in torch_view.json by --pin, and may only rise.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import pykernels as pk
from tests.conftest import DRIVERS
from tests.proofs.torch_samples import ROWS, Sample, samples

__all__ = ["COUNTS", "compare", "verdicts"]

COUNTS = Path(__file__).with_name("torch_view.json")
# Relative to the largest number of the result: sums of a few hundred terms in float32 and float16.
SHARE = {"float32": 2e-5, "float16": 4e-3}


def compare(got: Any, want: Any, dtype: str) -> str:
    """What differs, "" for nothing."""
    if isinstance(got, list | tuple):
        if len(got) != len(want):
            return f"{len(got)} results, not {len(want)}"
        return next(filter(None, map(lambda g, w: compare(g, w, dtype), got, want)), "")
    a, b = np.asarray(got.numpy()), want.numpy()
    if a.shape != b.shape:
        return f"shape {a.shape}, not {b.shape}"
    if b.dtype.kind in "biu":
        differ = a.astype(np.int64) != b.astype(np.int64)
        return f"{differ.sum()} of {a.size} differ" if differ.any() else ""
    wide = a.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(b) & (np.abs(b) <= float(np.finfo(a.dtype).max))
        top = np.abs(b[finite]).max(initial=0.0)
        share = SHARE[dtype]
        fine = np.where(finite, np.abs(wide - b) <= share * (np.abs(b) + top) + 1e-6, True)
        fine &= np.where(np.isnan(b), np.isnan(wide), True)
    worst = float(np.abs(wide - b)[finite].max(initial=0.0)) if a.size else 0.0
    return "" if fine.all() else f"{(~fine).sum()} of {a.size} differ, by up to {worst:g}"


def _theirs(torch: Any, sample: Sample) -> Any:
    given = [torch.tensor(np.array(a, order="C")) for a in sample.arrays]
    return sample.theirs(torch, *(g.double() if g.is_floating_point() else g for g in given))


def verdicts(
    dev: pk.Device, torch: Any, name: str, count: int, seed: int
) -> Iterator[tuple[Sample, str]]:
    """Each call of a function, and what was wrong with it."""
    for sample in samples(name, count, seed):
        kinds = {a.dtype.name for a in sample.arrays if a.dtype.kind == "f"}
        dtype = "float16" if "float16" in kinds else "float32"
        try:
            want = _theirs(torch, sample)
        except (RuntimeError, IndexError, ValueError, NotImplementedError) as e:
            yield sample, f"torch refuses: {str(e)[:80]}"
            continue
        try:
            got = sample.ours(pk, *(dev.tensor(a) for a in sample.arrays))
            yield sample, compare(got, want, dtype)
        except pk.PyKernelsError as e:
            yield sample, f"pykernels refuses: {str(e)[:120]}"


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--count", default=20)
@click.option("--seed", default=0)
@click.option("--pin", is_flag=True)
def main(names: tuple[str, ...], count: int, seed: int, pin: bool) -> None:
    import torch

    engine, _, driver = os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu").partition("-")
    right: dict[str, int] = {}
    with pk.Device(DRIVERS.get(driver), engine=engine) as dev:
        for name in names or ROWS:
            found = list(verdicts(dev, torch, name, count, seed))
            right[name] = sum(not said for _, said in found)
            wrong = [(sample.said, said) for sample, said in found if said]
            for sample, said in wrong[:3]:
                click.echo(f"{sample}: {said}")
    pinned = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    fallen = [n for n in right if count >= 20 and not seed and right[n] < pinned.get(n, 0)]
    if pin:
        COUNTS.write_text(json.dumps(dict(sorted({**pinned, **right}.items())), indent=0) + "\n")
    click.echo(
        f"{len(right)} functions, {sum(right.values()):,} of {count * len(right):,} calls as "
        f"torch's; fallen: {fallen}"
    )
    sys.exit(bool(fallen))


if __name__ == "__main__":
    main()
