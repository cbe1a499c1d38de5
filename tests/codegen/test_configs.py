"""Configurations: one table that the template, the spec's expressions and plans read."""

from __future__ import annotations

import json
import subprocess
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.build import Build
from pykernels.dtypes import DTYPES
from pykernels.export._javascript import plan_module
from pykernels.export._record import CAPS
from pykernels.export._translate import Module, translate
from pykernels.export._write import runtime, static
from pykernels.tensors.layout import View, contiguous_strides

BODY = """\
// /// kernel
// doc = "y = 2 x, a tile at a time."
// configs.small = { BM = 2, threads = 64, FAST = false }
// configs.large = { BM = 8, threads = 128, FAST = true }
// configs.other = { BM = 9, threads = 128, FAST = false }
// axes.TILE = "configs"
// axes.T = ["f32", "f16"]
// axes.VEC = [1, 4]
// pick.T = "dtype(x)"
// pick.VEC = "4 if CFG.FAST else 1"
// when = ["TILE != 'other'", "(VEC == 4) == CFG.FAST"]
// inputs.x = { dtype = "T", vec = "VEC" }
// outputs.dst = { dtype = "T", vec = "VEC", like = "x" }
// iterate = "nd"
// params.most = { type = "u32", value = "CFG.BM * CFG.threads" }
// workgroup_bytes = "16384 + CFG.BM"
// grid = "cdiv(it.total, CFG.BM * CFG.threads)"
// ///

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let first = group_id(wg) * p.most + li;
//% for u in range(CFG.BM)
  let i${u} = first + ${u * CFG.threads}u;
  if (i${u} < p.total) { dst_store(dst_index(i${u}), 2 * x_load(x_index(i${u}))); }
//% endfor
}
"""

PLAN = '''\
"""toy: the largest tile that x fills."""

from pykernels._generated.bodies import toy as body
from pykernels._generated.bodies.toy import CONFIGS, Config

AREA = {name: c.BM * c.threads for name, c in CONFIGS.items()}


def rows(c: Config) -> int:
    return c.BM


def plan(caps, scratch, x, dst):
    fits = [n for n in CONFIGS if n != "other" and AREA[n] <= x.shape[0]]
    best = max(fits, key=lambda n: rows(body.CONFIGS[n]), default="small")
    return [body.step(caps, x, dst, TILE=best)]
'''

Toy = Callable[[dict[str, str]], Build]


@pytest.fixture
def built(toy: Toy) -> Build:
    return toy({"kernels/toy/toy.wgsl": BODY, "pykernels/plans/toy/toy.py": PLAN})


def python_module(built: Build, name: str) -> types.ModuleType:
    module = types.ModuleType("toy_body")
    exec(compile(built.files[name], name, "exec"), module.__dict__)
    return module


def view(slot: int, n: int) -> View:
    return View(slot, DTYPES["float32"], (n,), contiguous_strides((n,), 4), 0)


def test_each_row_that_when_allows_has_texts(built: Build) -> None:
    names = {v.key.split(" T=")[0] for v in built.variants}
    assert names == {"TILE=small", "TILE=large"}
    large = next(v for v in built.variants if v.axes["TILE"] == "large")
    assert "@workgroup_size(128)" in large.text
    assert large.text.count("{ dst_store(dst_index(i") == 8
    assert large.limits.max_workgroup_storage == 16392


def test_the_body_module_has_the_rows_as_typed_data(built: Build) -> None:
    body = python_module(built, "bodies/toy.py")
    assert list(body.CONFIGS) == ["small", "large", "other"]
    assert body.CONFIGS["large"] == body.Config(BM=8, threads=128, FAST=True)
    step = body.step(CAPS, view(0, 5000), view(1, 5000), TILE="large")
    assert step.axes == ("large", "f32", 4)
    assert step.values == (1024,)
    assert step.groups == 5


def test_plans_in_javascript_read_the_same_rows(
    built: Build, tmp_path: Path, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: dict[str, Module] = {}
    translate("toy.toy", tmp_path / "pykernels" / "plans", done)
    source = json.loads(built.files["javascript.json"])
    made = [
        source["bodies"]["toy"]["js"],
        static("module/5_python.js"),
        *map(plan_module, done.values()),
    ]
    script = """
for (const n of [10, 500, 1500]) {
  const views = [0, 1].map((slot) => new View(slot, dtypes.float32, [n], [4], 0, true));
  const [step] = plans.toy$toy.plan(null, null, ...views);
  console.log(JSON.stringify([step.axes, step.values, step.groups]));
}
"""
    path = tmp_path / "toy.mjs"
    path.write_text("\n".join([*runtime(made), *made, script]), encoding="utf-8")
    run = subprocess.run([node, str(path)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    body = python_module(built, "bodies/toy.py")
    wanted = []
    for n, tile in ((10, "small"), (500, "small"), (1500, "large")):
        step = body.step(replace(CAPS), view(0, n), view(1, n), TILE=tile)
        wanted.append([list(step.axes), list(step.values), step.groups])
    assert [json.loads(line) for line in run.stdout.splitlines()] == wanted
