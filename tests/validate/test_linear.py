"""The lints take time in proportion to the text, whatever it says: shaders may be hostile."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from pykernels.validate import Limits, Lints, Source

ENTRY = "@compute @workgroup_size(1) fn main(@builtin(local_invocation_id) lid: vec3u) { f0(); }\n"
TEXTS: dict[str, Callable[[int], str]] = {
    "chain": lambda n: (
        "var<workgroup> w: array<u32, 4>;\n"
        + "".join(f"fn f{i}() {{ f{i + 1}(); }}\n" for i in range(n))
        + f"fn f{n}() {{ w[0] = w[1]; workgroupBarrier(); }}\n{ENTRY}"
    ),
    "chain backwards": lambda n: (
        f"var<workgroup> w: array<u32, 4>;\n{ENTRY}fn f{n}() {{ w[0] = 1u; workgroupBarrier(); }}\n"
        + "".join(f"fn f{i}() {{ f{i + 1}(); }}\n" for i in reversed(range(n)))
    ),
    "many barriers": lambda n: "".join(
        f"fn f{i}(x: u32) {{ if (x > {i}u) {{ return; }} workgroupBarrier(); }}\n" for i in range(n)
    ),
    "one calls all": lambda n: (
        "".join(f"fn f{i}() {{ workgroupBarrier(); }}\n" for i in range(n))
        + "fn all(@builtin(local_invocation_id) lid: vec3u) { if (lid.x > 1) { "
        + " ".join(f"f{i}();" for i in range(n))
        + " } }"
    ),
    "many variables": lambda n: (
        "".join(f"var<workgroup> w{i}: array<u32, 4>;\n" for i in range(n))
        + "@compute @workgroup_size(1) fn main() {\n"
        + "".join(f"w{i}[0] = w{i}[1] + 1u;\n" for i in range(n))
        + "}"
    ),
    "many bindings": lambda n: (
        "".join(f"@group(0) @binding({i}) var<storage> b{i}: array<f32>;\n" for i in range(n))
        + "@compute @workgroup_size(1) fn main() {\n"
        + "".join(f"b{i}[0] = 1.0;\n" for i in range(n))
        + "}"
    ),
    "many entry points": lambda n: (
        "var<workgroup> w: array<u32, 4>;\n"
        + "".join(f"fn f{i}() {{ w[{i}] = 1u; f{i + 1}(); }}\n" for i in range(n // 2))
        + "".join(f"@compute @workgroup_size(1) fn e{i}() {{ f0(); }}\n" for i in range(n // 2))
    ),
    "entry points with variables": lambda n: (
        "".join(f"var<workgroup> w{i}: array<u32, 400>;\n" for i in range(n // 4))
        + "fn all() {\n" + "".join(f"w{i}[0] += 1u;\n" for i in range(n // 8)) + "}\n"
        + "".join(
            f"@compute @workgroup_size(1) fn e{i}() {{ all(); w{i}[0] += 1u; }}\n"
            for i in range(n // 8, n // 4)
        )
    ),
    "branches": lambda n: (
        "@compute @workgroup_size(1) fn main(@builtin(local_invocation_id) lid: vec3u) {\n"
        + "".join(f"var x{i} = lid.x; if (x{i} > {i}u) {{ x{i} = 1u; }}\n" for i in range(n))
        + "workgroupBarrier(); }"
    ),
    "loops": lambda n: (
        "@compute @workgroup_size(1) fn main(@builtin(local_invocation_id) lid: vec3u) {\n"
        + "".join(f"for (var i = 0u; i < {i}u; i++) {{ var x{i} = lid.x; }}\n" for i in range(n))
        + "workgroupBarrier(); }"
    ),
    "overrides": lambda n: (
        "override o0 = 1;\n"
        + "".join(f"override o{i + 1} = o{i};\n" for i in range(n))
        + f"@compute @workgroup_size(o{n}) fn main() {{ }}"
    ),
    "consts": lambda n: (
        "const c0 = 1;\n"
        + "".join(f"const c{i + 1} = c{i} + 1 - 1;\n" for i in range(n))
        + "".join(f"var<workgroup> w{i}: array<f32, c{i}>;\n" for i in range(n))
        + "@compute @workgroup_size(1) fn main() {"
        + "".join(f"w{i}[0] = 1.0;\n" for i in range(n))
        + "}"
    ),
    "structs": lambda n: (
        "struct S {" + ", ".join(f"m{i}: f32" for i in range(n)) + "}\n"
        "var<workgroup> w: S; @compute @workgroup_size(1) fn main() { w.m0 = 1.0; }"
    ),
    "silenced": lambda n: "".join(f"const a{i} = 1; // pykernels: ignore\n" for i in range(n)),
    "nested comments": lambda n: "/* " * n + "*/ " * n + ENTRY,
    "indices": lambda n: (
        "var<workgroup> w: array<u32, 4>;\n"
        f"@compute @workgroup_size(1) fn main() {{ let x = {'w[' * n}0{']' * n}; }}"
    ),
}  # fmt: skip
# What is no WGSL, or ends too soon: each makes a pattern look for something that is not there.
BROKEN = {
    what: (lambda n, what=what: what * n)
    for what in (
        "/* ", "// ", "const a: ", "const a = ", "alias a = ", "override a: ", "var<workgroup> a: ",
        "var<storage ", "var<storage, a", "var a: ", "fn a( ", "fn a() ", "fn a() { ", "fn a() {} ",
        "@a ", "@a( ", "@group( ", "@compute @workgroup_size( ", "struct a { ", "enable a ",
        "requires a ", "bitcast< ", "{ ", "} ", "if ", "if (a) { ", "for ", "switch { ", "loop { ",
        "[ ", "a[ ", "(", "array<", "a.", "a & ", "  ", "\n", "// pykernels: ignore\n", "{{", "${",
    )
}  # fmt: skip


def seconds(text: str) -> float:
    limits = Limits(max_workgroup_storage=64)
    start = time.process_time()
    Lints().check([Source("t", text, limits)])
    return time.process_time() - start


def test_nested_loops_do_not_double_the_work() -> None:
    body = (
        "x = lid.x; "
        + "for (;;) { var x = 0u; " * 60
        + "x = lid.x; workgroupBarrier(); "
        + "}" * 60
    )
    assert seconds(f"{ENTRY[:-8]} {body} }}") < 10  # milliseconds; doubled, it would not end


@pytest.mark.parametrize("doubled", [
    "const c{0} = c{1} + c{1};\n", "const c{0} = c{1} * c{1};\n",
    "struct c{0} {{ a: c{1}, b: c{1} }}\n",
])  # fmt: skip
def test_constants_do_not_explode(doubled: str) -> None:
    text = "const c0 = 2;" if "const" in doubled else "struct c0 { a: f32 }"
    text += "".join(doubled.format(i + 1, i) for i in range(200))
    size = "array<f32, c200>" if "const" in doubled else "c200"
    text += f"var<workgroup> w: {size}; @compute @workgroup_size(1) fn main() {{ w = w; }}"
    assert seconds(text) < 10  # milliseconds; doubled, it would not end


@pytest.mark.parametrize("kind", [*TEXTS, *BROKEN])
def test_time_grows_with_the_text(kind: str) -> None:
    """Four times the text takes about four times as long, not sixteen."""
    make = TEXTS.get(kind) or BROKEN[kind]
    size = 1000 if kind in TEXTS else 20_000
    seconds(make(10))
    once = more = float("inf")
    for _ in range(9):  # a busy machine makes single readings two or three times as long
        once, more = min(once, seconds(make(size))), min(more, seconds(make(4 * size)))
        if more < 9 * max(once, 0.02):
            break
    assert more < 9 * max(once, 0.02)
