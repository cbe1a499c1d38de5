// /// kernel
// doc = """
// `value` where the float32 number of `rand` with the same seed or state is below p, else 0.
//
// For a mask of dropout, p is the probability of keeping an element, and value is 1 / p. `value` is
// converted to the dtype of dst as by `cpy`, to bool as value != 0; p is rounded to float32."""
// source = "Salmon, Moraes, Dror and Shaw 2011"
// axes.S = [1, 2, 4]
// axes.V = [1, 4]
// inputs.state = { dtype = "u32", optional = true, index = false, axes = "w", doc = "(6,): two words of the key, four of the counter." }
// outputs.dst = { dtype = "*", dtypes = ["bool", "float32", "float16", "bfloat16", "uint8"], bind = "'vec4<u32>' if S * V == 16 else 'vec2<u32>' if S * V == 8 else 'u32' if S * V == 4 else 'atomic<u32>'" }
// params.has_state = { type = "u32", value = "1 if state else 0" }
// params."first kind" = { type = "u32" }
// params.p = { type = "f32", arg = true, doc = "The probability of `value`: 1 or more means always; 0 or less, or NaN, means never." }
// params.value = { type = "f32", default = 1.0, doc = "The value of elements that are not 0." }
// params.seed = { type = "bits", of = "int64", default = 0, doc = "The key, if there is no state." }
// moves_bytes = true
// iterate = "nd"
// uses = ["convert", "words", "philox"]
// grid = "cdiv(it.total, 256) if V == 4 else cdiv(it.total, 1024)"
// ///

// One invocation draws one block, which gives four neighbouring elements.
${convert.functions()}
${philox.functions()}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let q = group_id(wg) * 256u + li;
  if (q >= ${"p.total" if V == 4 else "(p.total + 3u) / 4u"}) { return; }
  let u = vec4<f32>(draw(p.first + q) >> vec4<u32>(8u)) * 0x1p-24f;
  let value = convert(bitcast<u32>(p.value), 0u, p.kind);
  let bits = select(vec4<u32>(), vec4<u32>(value), u < vec4<f32>(p.p));
  ${words.store_four(S, V, "q", "bits")}
}
