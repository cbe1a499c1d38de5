"""The validators, on the texts in ``data/``, each of which lists its findings on top:

    // limits: max_invocations=128               declared limits, where the text has this line
    // expect: lint:PK004 7 512 invocations      validator[:code], line, part of the message

A text gets exactly the findings that it lists. Every text is translated, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

import pykernels.validate
from pykernels.errors import ArgumentError
from pykernels.validate import (
    TARGETS,
    Finding,
    Limits,
    Lints,
    Naga,
    Source,
    Target,
    Tint,
    TranslationError,
    Validator,
    find_naga,
    find_tint,
    validate,
)

DATA = Path(__file__).parent / "data"
Tool = TypeVar("Tool")
CASES = sorted(path.stem for path in DATA.glob("*.wgsl"))


def source(name: str) -> Source:
    text = (DATA / f"{name}.wgsl").read_text(encoding="utf-8")
    line = re.search(r"^// limits:(.*)$", text, re.MULTILINE)
    pairs = [pair.split("=") for pair in line[1].split()] if line else []
    return Source(name, text, Limits(**{k: int(v) for k, v in pairs}) if line else None)


def expected(text: str, validator: str) -> list[tuple[str, int, str]]:
    found = re.findall(r"^// expect: (\w+):?(\S*) (\d+) (.*)$", text, re.MULTILINE)
    return [(code, int(line), part) for name, code, line, part in found if name == validator]


def needed(tool: Tool | None, name: str) -> Tool:
    if tool is None and "CI" not in os.environ:
        pytest.skip(f"no {name} here")
    assert tool is not None, f"{name} is required in CI"
    return tool


@pytest.fixture(scope="module")
def naga() -> Naga:
    return needed(find_naga(), "naga")


@pytest.fixture(scope="module")
def tint() -> Tint:
    return needed(find_tint(), "tint")


@pytest.fixture(params=["naga", "tint", "lint"])
def validator(request: pytest.FixtureRequest) -> Validator:
    return Lints() if request.param == "lint" else request.getfixturevalue(request.param)


class Translating:
    """naga with all targets, as a plain validator."""

    def __init__(self, naga: Naga) -> None:
        self.naga, self.name, self.version = naga, naga.name, naga.version

    def check(self, sources: Sequence[Source]) -> list[Finding]:
        return self.naga.check(sources, targets=TARGETS)


@pytest.mark.parametrize("name", CASES)
def test_text_gets_the_findings_that_it_lists(name: str, validator: Validator) -> None:
    given = source(name)
    if isinstance(validator, Naga):
        validator = Translating(validator)
    found = validate([given], [validator])
    wanted = expected(given.text, validator.name)
    assert [(f.code, f.line) for f in found] == [(code, line) for code, line, _ in wanted], found
    for finding, (_, _, part) in zip(found, wanted, strict=True):
        assert part in finding.message
        assert finding.source == name and finding.validator == validator.name
        assert finding.column >= 1 and "\n" not in finding.message
        assert finding.detail


def test_findings_follow_the_order_of_the_sources(naga: Naga, tint: Tint) -> None:
    names = ["type_error", "clean", "syntax_error", "workgroup_memory", "override"]
    found = validate([source(n) for n in names], [Lints(), tint, naga])
    keys = [(names.index(f.source), f.line) for f in found]
    assert keys == sorted(keys)
    assert {f.source for f in found} == set(names) - {"clean"}
    assert str(found[0]) == "type_error:7:16: error: cannot assign 'u32' to 'f32' [naga, tint]"


def test_an_error_of_naga_is_one_of_tints(naga: Naga, tint: Tint) -> None:
    """Tint goes on behind a missing semicolon, and stumbles again; naga stops."""
    text = "@compute @workgroup_size(1)\nfn main() {\n  let i = 1\n  if (i > 0) { let j = 2; }\n}\n"
    found = [f.validator for f in validate([Source("t", text)], [naga, tint])]
    assert found == ["naga, tint", "tint"]


def test_a_warning_is_no_error(tint: Tint) -> None:
    found = validate([source("unreachable"), source("unknown_size")], [tint, Lints()])
    assert [f.severity for f in found] == ["warning", "warning"]


def test_tint_reports_the_notes_of_an_error(tint: Tint) -> None:
    [finding] = tint.check([source("nonuniform_barrier")])
    assert "9:5 info: control flow depends on possibly non-uniform value" in finding.detail


@pytest.mark.parametrize(
    "declared",
    ["f32", "f16", "bool", "atomic<u32>", "vec3<f32>", "array<vec3h, 3>", "array<array<T, 3>, N>",
     "array<S, 3>", "array<R, N>"],
)  # fmt: skip
def test_lint_and_tint_count_the_same_bytes(declared: str, tint: Tint) -> None:
    text = (
        "enable f16; alias T = vec2f; const N = 2u * (7u - 2u);\n"
        "struct S { a: f32, b: vec3<f32>, c: array<vec2<f16>, 3>, } struct R { s: S, h: f16 }\n"
        f"var<workgroup> fill: array<u32, 4096>; var<workgroup> one: {declared};\n"
        "@compute @workgroup_size(1) fn main() { fill[0] = 1u; let p = &one; }"
    )
    [said] = tint.check([Source("t", text, Limits())])
    [counted] = Lints().check([Source("t", text, Limits())])
    assert counted.message.split()[0] == re.findall(r"\((\d+) bytes", said.message)[0]


@pytest.mark.parametrize("size", ["N", "array<f32, N>", "array<f32, 4", "array<f32, 1 / 0>", "N<"])
def test_lints_survive_what_they_cannot_count(size: str) -> None:
    text = (
        f"const N = N + 1; var<workgroup> a: {size}; "
        "@compute @workgroup_size(N,) fn main() { a = 1; }"
    )
    found = Lints().check([Source("t", text, Limits())])
    assert [(f.code, f.severity) for f in found] == [("PK003", "warning"), ("PK004", "warning")]


@pytest.mark.parametrize(
    "text",
    [
        "fn f() { tile[0] = g(); } fn g() -> u32 { f(); return tile[1]; }",  # recursion
        "fn f() { " + "if (a) { " * 5000,
        "fn f() { for (;;) { switch { case 0: } } }",
        "fn f( { else if } ; loop { continuing",
        "/* no end",
        "override = ;",
    ],
)
def test_lints_survive_what_is_no_wgsl(text: str) -> None:
    entry = "@compute @workgroup_size(1) fn main() { workgroupBarrier(); f(); tile[0] = 1u; }"
    Lints().check([Source("t", f"var<workgroup> tile: array<u32, 4>;\n{entry}\n{text}", Limits())])


def test_a_text_for_tint_alone_may_bitcast_to_f16() -> None:
    text = "fn f(u: vec2u) -> vec4h { return bitcast<vec4h>(u); }"
    assert [f.code for f in Lints().check([Source("t", text)])] == ["PK006"]
    text = "enable f16, chromium_experimental_subgroup_matrix; " + text
    assert [f.code for f in Lints().check([Source("t", text)])] == ["PK010"]


@pytest.mark.parametrize("to", TARGETS)
def test_translate(to: Target, naga: Naga) -> None:
    start = {"spv": b"\x03\x02#\x07", "msl": b"// language: metal", "glsl": b"#version 310 es"}
    assert naga.translate(source("subgroups_naga"), to).startswith(start.get(to, b"RWByteAddress"))


def test_translate_rejects(naga: Naga) -> None:
    with pytest.raises(TranslationError, match=r"\[naga\] immediate .* hlsl: naga panicked: No bi"):
        naga.translate(source("immediate"), "hlsl")
    with pytest.raises(TranslationError, match=r"syntax_error .* expected expression"):
        naga.translate(source("syntax_error"), "msl")
    with pytest.raises(TranslationError, match="unsupported width"):
        naga.translate(source("clean"), "glsl")


def test_naga_survives_a_text_that_kills_it(naga: Naga) -> None:
    depth = 200_000
    killer = "const a = " + "(" * depth + "1" + ")" * depth + ";"
    sources = [Source(f"{i}", source("clean").text) for i in range(300)]
    sources[100] = Source("killer", killer)
    sources[200] = Source("wrong", source("syntax_error").text)
    found = validate(sources, [naga])
    assert [(f.source, f.line) for f in found] == [("killer", 1), ("wrong", 6)]
    assert found[0].message == "naga overflowed its stack"


def test_nothing_to_check(validator: Validator) -> None:
    assert validate([], [validator]) == []
    assert validator.check([Source("empty", "")]) == []
    assert validator.version


def test_find_naga_takes_the_named_binary(naga: Naga, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKERNELS_NAGA", naga.path)
    again = find_naga()
    assert again is not None and again.path == naga.path
    for wrong in ("/no/such/naga", __file__):
        monkeypatch.setenv("PYKERNELS_NAGA", wrong)
        with pytest.raises(ArgumentError, match="PYKERNELS_NAGA must name"):
            find_naga()


def test_tint_beside_wgpu_leaves_the_environment_alone(tint: Tint) -> None:
    """In a fresh process: the null device is made once."""
    code = (
        "import os, wgpu\n"
        "from pykernels.validate import Source, find_tint\n"
        "os.environ['WGPU_BACKEND_TYPE'] = 'Vulkan'\n"
        "tint = find_tint()\n"
        "assert os.environ['WGPU_BACKEND_TYPE'] == 'Vulkan'\n"
        "assert len(tint.check([Source('t', 'const a = ;')])) == 1\n"
    )
    run_python(code)


def test_the_package_imports_no_engine() -> None:
    run_python(
        "import sys, pykernels.validate\n"
        "assert not {'wgpu', 'wgpudawn', 'numpy', 'pykernels._generated'} & set(sys.modules)\n"
    )


def run_python(code: str) -> None:
    root = Path(pykernels.validate.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=root, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
