"""A head made by the package alone, as texts made at run time need it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import pykernels as pk
from pykernels.errors import LimitError
from pykernels.wgsl.head import features, head, modes, params
from pykernels.wgsl.interface import Axis, Interface, Param, TensorSpec

BODY = """\
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 64u + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), x_load(x_index(i)) * p.factor + f32(p.x_hs) + f32(N));
}
"""
SCALE = Interface(
    name="scale",
    axes=(Axis("N", (3,)),),
    tensors=(
        TensorSpec("x", "in", "f32", ("float32",), axes=("h", "w"), steps=("h",)),
        TensorSpec("dst", "out", "f32", ("float32",), alias="x"),
    ),
    params=(Param("factor", "f32", arg=True),),
    iterate="nd",
)


def test_names_of_a_head() -> None:
    names = [name for name, _ in params(SCALE, {"N": 3})]
    assert names[:3] == ["groups", "total", "levels"]
    assert names[names.index("x_off") :] == [
        "x_off", *(f"x_s{i}" for i in range(6)), "x_hs", "dst_off",
        *(f"dst_s{i}" for i in range(6)), "factor",
    ]  # fmt: skip
    assert modes(SCALE, {"N": 3}) == ["read", "rw", "merged"]
    assert features(SCALE, {"N": 3}) == []


def test_a_param_of_some_texts() -> None:
    """The others lie where they do without it."""
    last = Param("top", "i32", when="N == 4")
    some = replace(
        SCALE, axes=(Axis("N", (3, 4)),), params=(Param("low", "i32"), Param("high", "i32"), last)
    )
    without = [name for name, _ in params(some, {"N": 3})]
    assert without[-2:] == ["low", "high"]
    assert [name for name, _ in params(some, {"N": 4})] == [*without, "top"]


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["read", "rw", "merged"])
def test_a_driver_takes_the_text(dev: pk.Device, mode: str) -> None:
    module = dev.wgpu_device.create_shader_module(code=head(SCALE, {"N": 3}, mode) + BODY)
    dev.wgpu_device.create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": "main"}
    )


def test_a_head_has_64_members_at_most() -> None:
    many = tuple(Param(f"p{i}", "u32") for i in range(64))
    with pytest.raises(LimitError, match="Params has 66 members of 4 bytes"):
        head(Interface(name="many", tensors=SCALE.tensors[1:], params=many), {}, "read")
