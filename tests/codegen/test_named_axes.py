"""Named axes of a tensor: their steps reach Params without a param of the spec."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import pykernels as pk
from codegen.build import Build
from pykernels.dtypes import DTYPES
from pykernels.errors import ShapeError
from pykernels.export._record import CAPS
from pykernels.runtime.checks import check_arguments
from pykernels.steps import Arg, Kernel
from pykernels.tensors.layout import View

BODY = """\
// /// kernel
// doc = "dst = a + bias, channels first to last."
// axes.T = ["f32", "f16"]
// axes.V = [4]
// axes.BIAS = [false, true]
// pick.T = "dtype(a)"
// pick.V = "4"
// pick.BIAS = "bias is not None"
// inputs.a = { dtype = "T", vec = "V", axes = "n c w" }
// inputs.bias = { dtype = "f32", optional = true, axes = "c" }
// outputs.dst = { dtype = "f32", axes = "n w c" }
// params.channels = { type = "u32", value = "a.shape[1]" }
// grid = "a.shape[0]"
// ///

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups || li >= p.channels) { return; }
  // p.a_ws is no member: what a comment says is not read.
  var v = a_load(p.a_off + g * p.a_ns + li * p.a_cs);
//% if BIAS
  v += bias_load(p.bias_off + li * p.bias_cs);
//% endif
//% for i in range(4)
  dst_store(p.dst_off + g * p.dst_ns + ${i}u * p.dst_ws + li * p.dst_cs, v[${i}]);
//% endfor
}
"""


@pytest.fixture
def built(toy: Callable[[dict[str, str]], Build]) -> Build:
    return toy({"kernels/toy/toy.wgsl": BODY})


def view(slot: int, name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> View:
    return View(slot, DTYPES[name], shape, strides, 0)  # type: ignore[index]


A = view(0, "float16", (2, 5, 4), (400, -64, 2))
BIAS = view(1, "float32", (5,), (12,))
DST = view(2, "float32", (2, 4, 5), (4, 800, 40))


def test_params_has_the_steps_that_the_body_reads(built: Build) -> None:
    v = built.variants[0]
    text = v.text[v.text.index("struct Params") : v.text.index("@group")]
    members = [line.split(":")[0].strip() for line in text.splitlines() if ":" in line]
    assert members == [
        "groups", "a_off", "a_ns", "a_cs", "bias_off", "bias_cs",
        "dst_off", "dst_ns", "dst_ws", "dst_cs", "channels",
    ]  # fmt: skip


def test_the_step_fills_them_in_the_units_of_the_index(built: Build) -> None:
    names: dict[str, object] = {}
    exec(compile(built.files["bodies/toy.py"], "toy.py", "exec"), names)
    step = names["step"](CAPS, A, BIAS, DST)  # type: ignore[operator]
    assert [b.strides for b in step.bound] == [(50, -8), (3,), (1, 200, 10)]
    absent = names["step"](CAPS, A, None, DST)  # type: ignore[operator]
    assert absent.bound[1].strides == (0,)
    with pytest.raises(ShapeError, match=r"\[toy\] a must have 3 axes \(n c w\) but has shape"):
        names["step"](CAPS, BIAS, None, DST)  # type: ignore[operator]


def test_a_kernel_without_a_plan_knows_the_axes_of_its_arguments(
    toy: Callable[[dict[str, str]], Build],
) -> None:
    """A plan makes views of its own, whose axes are not those of the caller's tensors."""
    own = toy({"kernels/toy/toy.wgsl": BODY}).files["kernels/toy.py"]
    assert re.findall(r"axes='(\w+)'", own) == ["ncw", "c", "nwc"]
    plan = "def plan(caps, scratch, a, bias, dst):\n    return []\n"
    files = {"kernels/toy/toy.wgsl": BODY, "pykernels/plans/toy/toy.py": plan}
    assert "axes='" not in toy(files).files["kernels/toy.py"]


KERNEL = Kernel(
    "toy", "toy", (
        Arg("a", "in", ("float32",), axes="ncw"),
        Arg("bias", "in", ("float32",), optional=True, axes="c"),
        Arg("dst", "out", ("float32",), axes="nwc"),
    ), (), lambda *views: [], lambda *views: 0, lambda *views: 0,
)  # fmt: skip


@pytest.mark.gpu
def test_axes_of_one_letter_have_one_size(dev: pk.Device) -> None:
    def call(a: tuple[int, ...], bias: tuple[int, ...] | None, dst: tuple[int, ...]) -> None:
        given = [None if s is None else dev.zeros(s) for s in (a, bias, dst)]
        check_arguments(KERNEL, given)

    call((2, 5, 4), (5,), (2, 4, 5))
    call((2, 5, 4), None, (2, 4, 5))
    for shapes, told in (
        (((2, 5, 4), (4,), (2, 4, 5)), r"\[toy\] axis c must have one size but is 5 in a and 4 in"),
        (((2, 5, 4), None, (2, 5, 4)), r"axis w must have one size but is 4 in a and 5 in dst"),
        (((2, 5, 4), None, (1, 4, 5)), r"axis n must have one size but is 2 in a and 1 in dst"),
        (((2, 5), None, (2, 4, 5)), r"a must have 3 axes \(n c w\) but has shape \(2, 5\)"),
    ):
        with pytest.raises(pk.ShapeError, match=told):
            call(*shapes)
