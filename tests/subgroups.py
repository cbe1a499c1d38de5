"""Subgroups of any width on a driver whose own have another: operations between lanes go through
workgroup memory, in texts that are edited for that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pykernels.wgsl.texts import Text, add_texts, of_body

__all__ = ["BODIES", "subgroups_of"]

# The bodies that use subgroups other than for matrix units.
BODIES = ("attention_decode", "attention_decode_quant", "softmax")
NAMES = {
    "subgroup_id": "em_index / em_width", "subgroup_size": "em_width",
    "subgroup_invocation_id": "em_index % em_width", "num_subgroups": "em_all / em_width",
}  # fmt: skip
MEMORY = """
const em_width = {width}u;
const em_all = {all}u;
var<private> em_index: u32;
var<workgroup> em_memory: array<vec4<f32>, {all}>;
fn em_first() -> u32 {{ return em_index / em_width * em_width; }}
fn em_put(v: vec4<f32>) {{ em_memory[em_index] = v; workgroupBarrier(); }}
fn em_get(i: u32) -> vec4<f32> {{ let v = em_memory[i]; workgroupBarrier(); return v; }}
fn em_shuffle4(v: vec4<f32>, lane: u32) -> vec4<f32> {{
  em_put(v);
  return em_get(em_first() + lane % em_width);
}}
fn em_shuffle(v: f32, lane: u32) -> f32 {{ return em_shuffle4(vec4<f32>(v), lane).x; }}
fn em_xor(v: f32, bits: u32) -> f32 {{ return em_shuffle(v, (em_index % em_width) ^ bits); }}
fn em_xor4(v: vec4<f32>, bits: u32) -> vec4<f32> {{
  return em_shuffle4(v, (em_index % em_width) ^ bits);
}}
fn em_add(v: f32) -> f32 {{
  em_put(vec4<f32>(v));
  var total = 0.0f;
  for (var i = 0u; i < em_width; i += 1u) {{ total += em_memory[em_first() + i].x; }}
  workgroupBarrier();
  return total;
}}
fn em_max(v: f32) -> f32 {{
  em_put(vec4<f32>(v));
  var most = em_memory[em_first()].x;
  for (var i = 1u; i < em_width; i += 1u) {{ most = max(most, em_memory[em_first() + i].x); }}
  workgroupBarrier();
  return most;
}}
fn em_ballot(v: bool) -> vec4<u32> {{
  em_put(vec4<f32>(select(0.0f, 1.0f, v)));
  var found = vec4<u32>();
  for (var i = 0u; i < em_width; i += 1u) {{
    if (em_memory[em_first() + i].x != 0.0f) {{ found[i >> 5u] |= 1u << (i & 31u); }}
  }}
  workgroupBarrier();
  return found;
}}
fn em_any(v: bool) -> bool {{ return any(em_ballot(v) != vec4<u32>()); }}
"""


class Edited:
    """The texts of a body for subgroups of a width."""

    def __init__(self, body: str, width: int) -> None:
        self._body, self._width = body, width
        self.used = 0  # texts with subgroups that were asked for

    def get(self, key: str) -> Text | None:
        found = of_body(self._body).get(key)
        if found is None or "@builtin(subgroup_size)" not in found.wgsl:
            return found
        self.used += 1
        return found._replace(wgsl=edited(found.wgsl, self._width))


def edited(text: str, width: int) -> str:
    """The text with subgroups of this width."""
    size = re.search(r"@workgroup_size\((\w+)", text)
    assert size is not None
    threads = size[1]
    if not threads.isdecimal():
        value = re.search(rf"const {threads} = (\d+)u;", text)
        assert value is not None
        threads = value[1]
    known = re.search(r"@builtin\(local_invocation_index\) (\w+): u32", text)
    lines = [f"  em_index = {known[1] if known else 'em_li'};"]
    for builtin, value_of in NAMES.items():
        found = re.search(rf"@builtin\({builtin}\) (\w+): u32,?\s*", text)
        if found is not None:
            text = text.replace(found[0], "", 1)
            lines.append(f"  let {found[1]} = {value_of};")
    if not known:
        text = text.replace("fn main(", "fn main(@builtin(local_invocation_index) em_li: u32, ", 1)
    body = re.search(r"fn main\([^{]*\{\n", text)
    assert body is not None
    text = text.replace(body[0], body[0] + "\n".join(lines) + "\n", 1)
    for name in ("Add", "Max", "Ballot", "Any", "Shuffle"):
        text = re.sub(rf"\bsubgroup{name}\(", f"em_{name.lower()}(", text)
    # Of vectors: what lanes hold of the output.
    text = re.sub(r"\bsubgroupShuffleXor\((select\(o\d)", r"em_xor4(\1", text)
    text = re.sub(r"\bsubgroupShuffleXor\(", "em_xor(", text)
    assert "subgroupS" not in text and "@builtin(subgroup" not in text, text
    return text + MEMORY.format(width=width, all=int(threads))


@contextmanager
def subgroups_of(width: int) -> Iterator[list[Edited]]:
    """Devices that are opened inside compile texts for subgroups of this width."""
    texts = [Edited(body, width) for body in BODIES]
    held = [add_texts(t._body, t) for t in texts]
    yield texts
    del held
