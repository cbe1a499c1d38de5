"""debug(...) in the texts of raw kernels, and PYKERNELS_DEBUG=2, which checks their indices."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.validate import Lints, Source, find_naga, find_tint, validate
from pykernels.validate._instrument import checked, debugging, without_debug

TEXT = """\
// Sums of pairs. debug("in a comment", 1)
struct Params { n: u32, scale: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<uniform> p: Params;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;
fn pair(i: u32) -> f32 {
  let both = x[i] + x[i + 1u];
  debug("pair (of i)", i, both,
        i32(i) - 2, both > 3.0, -0.25);
  return both;
}
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < p.n) {
    debug("begin");
    y[id.x] = p.scale * pair(id.x);
  }
}
"""


def texts() -> list[str]:
    """The text; without an id of its own; with one in a struct; with indices in indices; and with a
    variable that hides x."""
    given = "@builtin(global_invocation_id) id: vec3u"
    inside = "struct In { @builtin(global_invocation_id) at: vec3u }"
    return [
        TEXT,
        TEXT.replace(given, "@builtin(workgroup_id) id: vec3u"),
        TEXT.replace("fn pair", f"{inside}\nfn pair")
        .replace(given, "given: In")
        .replace("id.x", "given.at.x"),
        TEXT.replace("x[i + 1u]", "x[u32(x[u32(x[i])])]"),
        TEXT.replace("let both = x[i]", "var x = array<f32, 4>(1, 2, 3, 4);\n  let both = x[i]"),
    ]


def test_instrumented_texts_are_valid_and_keep_their_lines() -> None:
    found = [v for v in (find_naga(), find_tint(), Lints()) if v is not None]
    if len(found) == 1:
        pytest.skip("needs naga or Tint")
    sources = []
    for n, text in enumerate(texts()):
        plain = without_debug("k", text)
        for how, made in (("plain", plain), ("debug", debugging("k", text).text),
                          ("check", checked(plain).text)):  # fmt: skip
            sources.append(Source(f"{how} {n}", made))
            assert [at for at, line in enumerate(made.split("\n")) if "fn main" in line] == [
                at for at, line in enumerate(text.split("\n")) if "fn main" in line
            ]
        assert "pk_debug" not in plain and 'debug("' not in plain.partition("\n")[2]
    errors = [f for f in validate(sources, found) if f.severity == "error"]
    assert not errors, errors
    assert [s.line for s in debugging("k", TEXT).sites] == [8, 15]
    assert [(s.name, s.label) for s in checked(without_debug("k", TEXT)).sites] == [
        ("x", "i"), ("x", "i + 1u"), ("y", "id.x"),
    ]  # fmt: skip
    hidden = checked(without_debug("k", texts()[-1]))
    assert [s.name for s in hidden.sites] == ["y"]


@pytest.mark.parametrize(("old", "new", "said"), [
    ('debug("begin");', 'if (debug("begin")) {}', "line 15: debug(...); is a statement by itself"),
    ('debug("begin");', "debug(id.x);", 'line 15: debug needs a label: debug("x", x)'),
    ('debug("begin");', f'debug("b"{", 1" * 17});', "line 15: debug takes 16 values, not 17"),
])  # fmt: skip
def test_wrong_calls_of_debug(old: str, new: str, said: str) -> None:
    with pytest.raises(pk.ArgumentError) as caught:
        debugging("k", TEXT.replace(old, new))
    assert said in str(caught.value)


@pytest.mark.gpu
def test_records(dev: pk.Device) -> None:
    kernel = pk.raw_kernel(TEXT, name="pairs")
    x, y = dev.tensor(np.arange(101, dtype=np.float32) / 4), dev.zeros(100)
    with dev.debug() as d:
        assert kernel(x, y, n=100, scale=2.0) is y
    want = (x.numpy()[:-1] + x.numpy()[1:]) * 2
    assert (y.numpy() == want).all()
    assert len(d.records) == 200 and not d.lost
    by_label = {
        label: [r for r in d.records if r.label == label] for label in ("begin", "pair (of i)")
    }
    assert sorted(r.invocation[0] for r in by_label["begin"]) == [*range(100)]
    for r in by_label["pair (of i)"]:
        i = r.invocation[0]
        both = float(want[i] / 2)
        assert r.values == (i, both, i - 2, both > 3, -0.25)
        assert (r.kernel, r.line) == ("pairs", 8)
    with dev.debug(invocation=(range(7, 9), 0)) as d:
        kernel(x, y, n=100, scale=2.0)
    assert sorted(str(d).splitlines()) == [
        "pairs:15 (7, 0, 0) begin", "pairs:15 (8, 0, 0) begin",
        "pairs:8 (7, 0, 0) pair (of i): 7, 3.75, 5, 1, -0.25",
        "pairs:8 (8, 0, 0) pair (of i): 8, 4.25, 6, 1, -0.25",
    ]  # fmt: skip
    with dev.debug(limit=3) as d:
        kernel(x, y, n=100, scale=2.0)
    assert d.lost and 3 <= len(d.records) <= 14 and "no room" in str(d)
    with dev.debug() as d:
        pk.raw_kernel(without_debug("k", TEXT))(x, y, n=100, scale=1.0)
    assert d.records == () and str(d) == ""


@pytest.mark.gpu
def test_numbers_of_any_type(dev: pk.Device) -> None:
    text = """
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@compute @workgroup_size(1) fn main() {
  let z = out[0];
  debug("u", 0xfffffffeu + z, 1u << 31u, z);
  debug("i", -2147483647 - 1 + i32(z), i32(z) - 7);
  debug("f", 1e10 * f32(z + 1u), 0.1f + f32(z), bitcast<f32>(0x7fc00000u + z), 1.0 / f32(z), -2.5f);
  debug("b", z == 0u, z != 0u);
}"""
    with dev.debug() as d:
        pk.raw_kernel(text)(dev.zeros(1, "uint32"), grid=1)
    u, i, f, b = (r.values for r in d.records)
    assert u == (0xFFFFFFFE, 1 << 31, 0) and i == (-(2**31), -7) and b == (1, 0)
    assert f[:2] == (np.float32(1e10), np.float32(0.1)) and f[4] == -2.5
    assert np.isnan(f[2])  # 1.0 / 0.0 may be any number in WGSL
    assert dev._context.debugging is None


@pytest.mark.gpu
def test_wrong_blocks(dev: pk.Device) -> None:
    for wrong in ({"limit": 0}, {"limit": 2.5}, {"invocation": "x"}, {"invocation": (0,) * 4},
                  {"invocation": range(0)}, {"invocation": -1}):  # fmt: skip
        with pytest.raises(pk.ArgumentError, match=r"\[debug\]"), dev.debug(**wrong):
            pass
    with dev.capture(), pytest.raises(pk.BufferStateError, match="debug"), dev.debug():
        pass
    with pytest.raises(KeyError), dev.debug():
        raise KeyError
    assert dev._context.debugging is None


@pytest.mark.gpu
def test_indices_are_checked(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = pk.raw_kernel(TEXT, name="pairs")
    x, y = dev.ones(101), dev.zeros(100)
    kernel(x[:100], y, n=100, scale=1.0)  # nobody looks, and nothing is read outside
    monkeypatch.setattr(dev._context, "checks_indices", True)
    kernel(x, y, n=100, scale=1.0)
    assert (y.numpy() == 2).all()
    said = r"\[pairs\] line 7 of the text: x\[i \+ 1u\] has the index 100, but x has 100 elem.*; "
    with pytest.raises(pk.IndexRangeError, match=said + r"invocation \(99, 0, 0\)$"):
        kernel(x[:100], y, n=100, scale=1.0)
    with pytest.raises(pk.IndexRangeError, match=r"line 16 .*y\[id\.x\] has .* 27 more$"):
        kernel(dev.ones(129), y, n=128, scale=1.0)
    below = pk.raw_kernel(TEXT.replace("x[i + 1u]", "x[i32(i) - 1]"), name="below")
    with pytest.raises(pk.IndexRangeError, match=r"x\[i32\(i\) - 1\] has the index -1, but x has"):
        below(x, y, n=100, scale=1.0)
    with dev.capture(x=x) as program:  # which nobody can wait for
        kernel(x, y, n=100, scale=3.0)
    program()
    assert (y.numpy() == 6).all()
