"""Lines that several specs have in common: `// include NAME`."""

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
