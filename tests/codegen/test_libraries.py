"""Libraries in folders, one of them chosen by an axis, and libraries that use others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from codegen.build import Build

BODY = """\
// /// kernel
// doc = "y = 2 x."
// axes.UNIT = ["fma", "plain"]
// pick.UNIT = "'fma' if x.size > 999 else 'plain'"
// inputs.x = { dtype = "f32" }
// outputs.dst = { dtype = "f32", like = "x" }
// iterate = "nd"
// uses = ["mma/${UNIT}", "tile/doubled"]
// grid = "cdiv(it.total, 64)"
// ///

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 64u + li;
  if (i < p.total) {
    ${doubled.store("x_load(x_index(i))")}
  }
}
"""
DOUBLED = """\
//% macro store(value)
dst_store(dst_index(i), ${mma.multiply(value, "2.0f")});
//% endmacro
"""


def multiply(text: str) -> str:
    return "//% macro multiply(a, b)\n" + text + "\n//%- endmacro\n"


def stores(built: Build) -> dict[str, str]:
    """By the library that is chosen, the line that stores."""
    return {
        v.axes["UNIT"]: line.strip()
        for v in built.variants
        for line in v.text.splitlines()
        if line.strip().startswith("dst_store")
    }


@pytest.mark.parametrize("room", ["lib", "toy/lib"])
def test_an_axis_chooses_a_library_and_libraries_see_those_before_them(
    toy: Callable[[dict[str, str]], Build], room: str
) -> None:
    built = toy(
        {
            "kernels/toy/toy.wgsl": BODY,
            f"kernels/{room}/mma/fma.wgsl": multiply("fma(${a}, ${b}, 0.0f)"),
            "kernels/lib/mma/plain.wgsl": multiply("${a} * ${b}"),
            f"kernels/{room}/tile/doubled.wgsl": DOUBLED,
        }
    )
    assert stores(built) == {
        "fma": "dst_store(dst_index(i), fma(x_load(x_index(i)), 2.0f, 0.0f));",
        "plain": "dst_store(dst_index(i), x_load(x_index(i)) * 2.0f);",
    }


def test_a_library_of_the_family_goes_before_a_shared_one_and_is_no_kernel(
    toy: Callable[[dict[str, str]], Build],
) -> None:
    built = toy(
        {
            "kernels/toy/toy.wgsl": BODY,
            "kernels/lib/mma/fma.wgsl": multiply("fma(${a}, ${b}, 0.0f)"),
            "kernels/lib/mma/plain.wgsl": multiply("${a} * ${b}"),
            "kernels/toy/lib/mma/plain.wgsl": multiply("(${a} + ${a})"),
            "kernels/other/lib/mma/fma.wgsl": multiply("0.0f"),
            "kernels/lib/tile/doubled.wgsl": DOUBLED,
        }
    )
    assert stores(built) == {
        "fma": "dst_store(dst_index(i), fma(x_load(x_index(i)), 2.0f, 0.0f));",
        "plain": "dst_store(dst_index(i), (x_load(x_index(i)) + x_load(x_index(i))));",
    }
    assert {v.spec.name for v in built.variants} == {"toy"}
