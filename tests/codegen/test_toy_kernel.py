"""Adding a kernel adds three files and edits none."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import pykernels as pk

KERNEL = """\
// /// kernel
// doc = "Multiply by a scalar: dst = x * factor."
// axes.T = ["f32", "f16"]
// axes.WG = [256]
// pick.T = "dtype(x)"
// pick.WG = "256"
// inputs.x = { dtype = "T" }
// outputs.dst = { dtype = "T", like = "x", alias = "x" }
// params.factor = { type = "f32", arg = true, doc = "Factor of x." }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// ///

// One invocation per element.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), x_load(x_index(i)) * p.factor);
}
"""

REFERENCE = '''\
"""toy_scale: multiply by a scalar."""

import numpy as np


def toy_scale(x, factor):
    """x * factor in float64."""
    return x.astype(np.float64) * float(np.float32(factor))
'''

TEST = """\
import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.toy import toy_scale

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_toy_scale_matches_reference(dtype):
    x = np.random.default_rng(0).integers(-99, 99, (7, 33)).astype(dtype)
    y = pk.toy_scale(x, 0.5)
    assert isinstance(y, np.ndarray)
    assert y.dtype == dtype
    assert (y == toy_scale(x, 0.5)).all()


def test_toy_scale_takes_views(dev):
    x = np.arange(60, dtype="f4").reshape(4, 15)
    t = dev.tensor(x)
    dst = dev.zeros((20, 5))[::-2, 1:]
    pk.kernels.toy_scale(t.T[::-1][5:], dst, 2)
    assert (dst.numpy() == x.T[::-1][5:] * 2).all()
    pk.toy_scale(t, 3, out=t)
    assert (t.numpy() == x * 3).all()


def test_toy_scale_is_measured(dev):
    from pykernels.bench.case import load
    from pykernels.bench.cases import problem

    assert load(dev, problem("toy_scale", (7, 33), "float32", factor=3)).check().size == 7 * 33


def test_toy_scale_rejects_what():
    with pytest.raises(pk.DTypeError, match=r"\\[toy_scale\\] x must be float32 or float16"):
        pk.toy_scale(np.ones(3, "i4"), 2)
"""


def hashes(root: Path) -> dict[str, str]:
    skip = {"_generated", "__pycache__", ".pytest_cache"}
    return {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in root.rglob("*")
        if p.is_file() and not skip & set(p.parts)
    }


@pytest.mark.gpu
def test_a_kernel_is_three_files(
    checkout: Path, python: Callable[..., subprocess.CompletedProcess[str]], dev: pk.Device
) -> None:
    before = hashes(checkout)
    added = {
        "kernels/toy/toy_scale.wgsl": KERNEL,
        "pykernels/reference/toy.py": REFERENCE,
        "tests/kernels/toy/test_toy_scale.py": TEST,
    }
    for name, text in added.items():
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text(text, encoding="utf-8")

    def run(*args: str) -> str:
        done = python(checkout, *args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-m", "codegen", "--no-validate")
    shown = run("-m", "codegen", "--show", "toy_scale", "T=f16")
    assert "alias T = f16;" in shown
    cli = ("-c", "from pykernels.cli import main; main()")
    assert "Multiply by a scalar" in run(*cli, "list")
    assert run(*cli, "bench", "--list", "toy_scale") == "toy_scale f32-4096x4096\n"
    assert "fn main" in run(*cli, "show", "toy_scale", "--dtype", "float16")
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/kernels/toy/test_toy_scale.py")
    assert "5 passed" in out
    after = hashes(checkout)
    assert {n for n in after if n not in before} == set(added)
    assert {n: after[n] for n in before} == before
