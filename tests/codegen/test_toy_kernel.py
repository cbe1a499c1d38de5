"""A family is new files only: a kernel of one dispatch, one with a plan, and all beside them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen import BuildError
from codegen.build import Build
from tests.checkout import run_python, small_checkout

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

PLANNED = """\
// /// kernel
// doc = "Multiply by the square of a scalar: dst = x * factor * factor, rounded twice."
// bodies = ["toy_scale"]
// inputs.x = { dtype = "*", dtypes = ["float32"], bind = "'u32'" }
// outputs.dst = { dtype = "*", dtypes = ["float32"], bind = "'u32'", like = "x" }
// params.factor = { type = "f32", arg = true, doc = "Factor of x." }
// ///
"""

PLAN = '''\
"""toy_square: multiply twice."""

from __future__ import annotations

from pykernels._generated.bodies import toy_scale
from pykernels.tensors.layout import View
from pykernels.steps import Caps, Scratch, Step

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, x: View, dst: View) -> list[Step]:
    """Two dispatches with a tensor between them."""
    between = scratch.empty(x.shape, "float32")
    return [toy_scale.step(caps, x, between), toy_scale.step(caps, between, dst)]
'''

REFERENCE = '''\
"""Multiplication by a scalar."""

import numpy as np


def toy_scale(x, factor):
    """x * factor in float64."""
    return x.astype(np.float64) * float(np.float32(factor))


def toy_square(x, factor):
    """x * factor * factor in float64."""
    return toy_scale(toy_scale(x, factor), factor)
'''

FUNCTIONAL = '''\
"""What toys do beside their kernels."""

from __future__ import annotations

from pykernels._generated.kernels.toy_square import KERNEL
from pykernels.call.arrays import Array, Call
from pykernels.kernels import toy_square

__all__ = ["toy_fourth"]


def toy_fourth(x: Array, factor: float) -> Array:
    """x times the fourth power of a factor."""
    call = Call(KERNEL, x)
    src = call.tensor("x", x)
    result = call.out(src.shape, src.dtype)
    toy_square(src, result, factor)
    toy_square(result, result, factor)
    return call.leave(result)
'''

TEST = """\
import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.toy import toy_scale, toy_square

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_toy_scale_matches_reference(dtype):
    x = np.random.default_rng(0).integers(-99, 99, (7, 33)).astype(dtype)
    y = pk.toy_scale(x, 0.5)
    assert isinstance(y, np.ndarray)
    assert y.dtype == dtype
    assert (y == toy_scale(x, 0.5)).all()


def test_toy_square_matches_reference():
    x = np.random.default_rng(0).integers(-99, 99, (7, 33)).astype("f4")
    assert (pk.toy_square(x, 0.5) == toy_square(x, 0.5)).all()


def test_toy_fourth_is_a_function_of_the_package():
    assert {"toy_fourth", "toy_scale", "toy_square"} <= {*pk.functional.__all__} & {*pk.__all__}
    assert (pk.toy_fourth(np.ones(3, "f4"), 2) == 16).all()


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
    with pytest.raises(pk.DTypeError, match=r"\\[toy_scale\\] x must be float32, float16"):
        pk.toy_scale(np.ones(3, "i4"), 2)
"""

BENCH = '''\
"""toy_scale on a square; toy_square has the case that every kernel gets."""

from collections.abc import Iterator

from pykernels.bench.case import Case
from pykernels.bench.cases import problem
from pykernels.bench.shapes import cut


def cases(edge: int = 0) -> Iterator[Case]:
    n = cut(1024, edge)
    yield problem("toy_scale", (n, n), "float32", factor=3)
'''

FILES = {
    "kernels/toy/toy_scale.wgsl": KERNEL,
    "kernels/toy/toy_square.wgsl": PLANNED,
    "pykernels/plans/toy/__init__.py": '"""Plans of the toy family."""\n',
    "pykernels/plans/toy/toy_square.py": PLAN,
    "pykernels/reference/toy.py": REFERENCE,
    "pykernels/functional/toy.py": FUNCTIONAL,
    "pykernels/bench/cases/toy.py": BENCH,
    "pykernels/export/cases/toy/toy_scale.toml": 'test = ["x=f32[3,17] factor=0.5"]\n',
    "tests/kernels/toy/test_toy.py": TEST,
    "docs/design/toy.md": "# The toy family\n\nIt multiplies by scalars.\n",
}


def hashes(root: Path) -> dict[str, str]:
    skip = {"_generated", "__pycache__", ".pytest_cache"}
    return {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in root.rglob("*")
        if p.is_file() and not skip & set(p.parts)
    }


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")  # skips, or fails in CI, without a driver
def test_a_family_is_new_files(tmp_path: Path) -> None:
    checkout = small_checkout(tmp_path / "checkout")
    before = hashes(checkout)
    for name, text in FILES.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text, encoding="utf-8")

    def run(*args: str) -> str:
        done = run_python(checkout, *args)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-m", "codegen", "--no-validate")
    shown = run("-m", "codegen", "--show", "toy_scale", "T=f16")
    assert "alias T = f16;" in shown
    cli = ("-c", "from pykernels.cli import main; main()")
    assert "toy_scale" in run(*cli, "list")
    listed = run(*cli, "bench", "--list", "toy_scale", "toy_square")
    assert listed.split("\n")[:2] == ["toy_scale f32-1024x1024", "toy_square f32-4096x4096"]
    assert "fn main" in run(*cli, "show", "toy_square", "--dtype", "float32")
    said = run(*cli, "export", "site", "toy_scale", "toy_square")
    assert "no layout was recorded" not in said  # the plan runs in a browser, too
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/kernels/toy/test_toy.py")
    assert "7 passed" in out
    after = hashes(checkout)
    assert {n for n in after if n not in before and not n.startswith("site/")} == set(FILES)
    assert {n: after[n] for n in before} == before


def test_functions_by_hand_are_those_that_a_file_lists(toy: Callable[..., Build]) -> None:
    files = {
        "kernels/toy/toy_scale.wgsl": KERNEL,
        "pykernels/functional/toy.py": '"""A toy."""\n\n__all__ = ["zoom", "zap"]\n',
    }
    lines = toy(files).files["functions.py"].splitlines()
    assert "    from pykernels.functional.toy import zap as zap" in lines
    assert lines[-1] == "__all__ = ['toy_scale', 'zap', 'zoom']"
    for text, error in {
        "def zap(): ...\n": "zoo.py:1: __all__ must list the file's functions",
        "\n__all__ = sorted(names)\n": "zoo.py:2: __all__ must list the file's functions",
        '__all__ = ["zap"]\n': "zoo.py:1: zap is in pykernels.functional.toy already",
    }.items():
        with pytest.raises(BuildError, match=re.escape(f"pykernels/functional/{error}")):
            toy({**files, "pykernels/functional/zoo.py": text})
