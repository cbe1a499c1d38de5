"""Operations as rows: one row is all that an operation needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from codegen import BuildError
from codegen.build import Build
from pykernels.wgsl.elementwise import Op

KERNELS = Path(__file__).parents[2] / "kernels"
FILES = {
    f"kernels/{name}": (KERNELS / name).read_text(encoding="utf-8")
    for name in ("elementwise/unary.wgsl", "elementwise/ops.toml", "lib/exponentials.wgsl")
}
# Two rows are enough.
FILES["kernels/elementwise/ops.toml"] = "".join(
    f"\n{row}"
    for row in re.split(r"\n(?=\[)", FILES["kernels/elementwise/ops.toml"])
    if row.startswith(("[neg]", "[exp]"))
)
SQUARE = '''
[square]
doc = "x times x."
body = "unary"
inputs = "x"
output = "same"
wgsl.float = "x * x"
wgsl.int = """
let twice = x;
return x * twice;
"""
numpy = "x * x"
grad.x = "2 * dy * x"
domain.x = [-1e15, 1e15]
ulp = 0.5
operations = 1
'''
KERNEL = """\
// /// kernel
// doc = "x times x."
// inputs.x = { dtype = "f32" }
// outputs.dst = { dtype = "f32", like = "x" }
// iterate = "nd"
// grid = "it.total"
// ///

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) wg: vec3<u32>) {
  let i = group_id(wg);
  if (i < p.total) { dst_store(dst_index(i), x_load(x_index(i)) * x_load(x_index(i))); }
}
"""
Toy = Callable[[dict[str, str]], Build]


def with_row(text: str) -> dict[str, str]:
    ops = "kernels/elementwise/ops.toml"
    return {**FILES, ops: FILES[ops] + text}


def test_a_row_makes_wrapper_function_texts_and_reference(toy: Toy) -> None:
    before, after = toy(FILES), toy(with_row(SQUARE))
    new = {"kernels/square.py", "wrappers/square.py"}
    assert set(after.files) - set(before.files) == new
    wrapper = "def square(\n    x: Tensor,\n    dst: Tensor,\n) -> None:"
    assert wrapper in after.files["wrappers/square.py"]
    assert "return 1 * dst.size" in after.files["kernels/square.py"]
    assert (
        "def square(x: NDArray | float, *, out: None = None) -> NDArray: ..."
        in (after.files["functional.py"])
    )
    assert (
        "from pykernels._generated.wrappers.square import square as square"
        in after.files["index.py"]
    )
    texts = {v.key: v.text for v in after.variants if v.axes["OP"] == "square"}
    assert {k.split(" mode=")[0] for k in texts} == {
        f"OP=square T={t} OUT={t} VEC={v}" for t in ("f32", "f16", "i32") for v in (1, 4)
    }
    assert "let twice = x;\n" in texts["OP=square T=i32 OUT=i32 VEC=4 mode=read"]
    assert "return x * x;\n" in texts["OP=square T=f16 OUT=f16 VEC=4 mode=read"]
    names: dict[str, object] = {}
    exec(compile(after.files["ops/elementwise.py"], "elementwise.py", "exec"), names)
    op: Op = names["OPS"]["square"]  # type: ignore[index]
    assert op.dtypes == ("float32", "float16", "int32")
    assert op.reference(np.float32([1.5])) == [2.25]
    assert op.reference(np.int32([1 << 20])).dtype == np.int32
    assert op.gradient is not None
    assert op.gradient(np.float64([2.0]), np.float64([3.0])) == (np.float64([12.0]),)


def test_a_row_has_the_name_of_no_other_kernel(toy: Toy) -> None:
    with pytest.raises(BuildError, match=r"^kernels/\S+: kernels/\S+ has this name already"):
        toy({**with_row(SQUARE), "kernels/toy/square.wgsl": KERNEL})


def test_two_families_do_not_have_one_operation(toy: Toy) -> None:
    files = with_row(SQUARE)
    files["kernels/toy/ops.toml"] = SQUARE.replace('body = "unary"\n', "")
    with pytest.raises(BuildError, match=r"toy/ops\.toml:2: kernels/elementwise/ops\.toml has a"):
        toy(files)


def test_all_families_together_stay_in_their_budget(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codegen.checks.MAX_TEXTS", 29)
    with pytest.raises(BuildError, match="kernels: 30 texts are more than 29: make an axis"):
        toy(FILES)
