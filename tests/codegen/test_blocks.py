"""Lines that several specs or names have in common: `// include NAME`, keys of several names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from codegen.build import Build
from tests.checkout import ROOT

HEAD = """\
// /// kernel
// doc = "y = 2 x."
// include types
// include shapes
// iterate = "nd"
// grid = "cdiv(it.total, 64)"
// ///
"""
BODY = """
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 64u + li;
  if (i < p.total) { dst_store(dst_index(i), 2.0f * x_load(x_index(i))); }
}
"""
TYPES = 'axes.T = ["f32", "f16"]\npick.T = "dtype(x)"\n'
SHAPES = 'inputs.x = { dtype = "T" }\noutputs.dst = { dtype = "T", like = "x" }\n'


def texts(build: Build) -> list[str]:
    return sorted(v.text for v in build.variants)


def test_a_spec_with_blocks_is_the_one_with_their_lines(
    toy: Callable[[dict[str, str]], Build],
) -> None:
    blocks = {
        "kernels/toy/blocks.toml": f"# Of toys.\n\n[types]\n{TYPES}",
        # What a family has goes before what lib has.
        "kernels/lib/blocks.toml": f'[types]\naxes.T = ["i32"]\n\n[shapes]\n{SHAPES}',
    }
    built = toy({"kernels/toy/toy.wgsl": HEAD + BODY, **blocks})
    lines = "".join(f"// {line}\n" for line in (TYPES + SHAPES).splitlines())
    plain = HEAD.replace("// include types\n// include shapes\n", lines)
    spelled = toy({"kernels/toy/toy.wgsl": plain + BODY})
    assert len(built.variants) > 1
    assert texts(built) == texts(spelled)
    assert built.files["bodies/toy.py"] == spelled.files["bodies/toy.py"]


def test_a_key_of_several_names_says_the_same_of_each(
    toy: Callable[[dict[str, str]], Build],
) -> None:
    rest = '// params.b = { type = "f32", default = 3.0 }\n// iterate = "nd"\n'
    rest = HEAD.partition('// iterate = "nd"\n')[2].join(
        [rest, BODY.replace("2.0f", "(p.a + p.b)")]
    )
    types = '// axes.T = {}\n// inputs.x = {{ dtype = "T" }}\n'
    top = '// /// kernel\n// doc = "y = (a + b) x."\n'
    outputs = '// outputs.dst = { dtype = "T", like = "x" }\n'
    apart = types.format('["f32", "f16"]\n// pick.T = "dtype(x)"') + outputs
    apart += '// params.a = { type = "f32", default = 3.0 }\n'
    joint = types.format('{ values = ["f32", "f16"], pick = "dtype(x)" }') + outputs
    spelled = toy({"kernels/toy/toy.wgsl": top + apart + rest})
    built = toy({"kernels/toy/toy.wgsl": top + joint + rest.replace("params.b", 'params."a b"')})
    assert len(built.variants) > 1
    assert texts(built) == texts(spelled)
    assert built.files["bodies/toy.py"] == spelled.files["bodies/toy.py"]


def test_a_block_has_several_users() -> None:
    used: Counter[tuple[str, str]] = Counter()
    for path in (ROOT / "kernels").glob("*/*.wgsl"):
        for name in re.findall(r"^// include (\w+)$", path.read_text(encoding="utf-8"), re.M):
            used[path.parent.name, name] += 1
    files = sorted((ROOT / "kernels").glob("*/blocks.toml"))
    assert files
    for path in files:
        for name in re.findall(r"^\[(\w+)\]$", path.read_text(encoding="utf-8"), re.M):
            everyone = path.parent.name == "lib"
            found = sum(
                n for (f, b), n in used.items() if b == name and everyone | (f == path.parent.name)
            )
            assert found > 1, f"{path}: [{name}]"
