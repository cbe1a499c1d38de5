// /// kernel
// doc = """
// Uniform random numbers in [0, 1). A number is made of the highest bits of a word: 24 bits for
// float32, 11 for float16, 8 for bfloat16.
//
// Element i in C order takes word i % 4 of block i // 4 of Philox4x32-10, so the numbers are the
// same on every device and in every layout. Either `seed` is the key and the counter begins at 0,
// or `state` has both. The kernel does not change `state` (`random_advance` does)."""
// source = "Salmon, Moraes, Dror and Shaw 2011: Parallel random numbers, as easy as 1, 2, 3"
// axes.S = [2, 4]
// axes.V = [1, 4]
// inputs.state = { dtype = "u32", optional = true, index = false, axes = "w", doc = "(6,): two words of the key, four of the counter." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16", "bfloat16"], bind = "'vec4<u32>' if S * V == 16 else 'vec2<u32>' if S * V == 8 else 'u32' if S == 4 else 'atomic<u32>'" }
// params.has_state = { type = "u32", value = "1 if state else 0" }
// params."first kind shift" = { type = "u32" }
// params.unit = { type = "f32" }
// params.seed = { type = "bits", of = "int64", default = 0, doc = "The key, if there is no state." }
// moves_bytes = true
// iterate = "nd"
// uses = ["convert", "words", "philox"]
// grid = "cdiv(it.total, 256) if V == 4 else cdiv(it.total, 1024)"
// ///

// One invocation draws one block, which gives four neighbouring elements. Bytes: each element is
// written once. Arithmetic bounds the time: a block takes 20 products of 32 by 32 bits, and each of
// these takes five products in WGSL.
${convert.functions()}
${philox.functions()}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let q = group_id(wg) * 256u + li;
  if (q >= ${"p.total" if V == 4 else "(p.total + 3u) / 4u"}) { return; }
  let w = draw(p.first + q) >> vec4<u32>(p.shift);
//% if S == 4
  let bits = bitcast<vec4<u32>>(vec4<f32>(w) * p.unit);
  _ = p.kind;
//% else
  let x = bitcast<vec4<u32>>(vec4<f32>(w) * p.unit);
  let bits = vec4<u32>(
    float_target(x.x, p.kind), float_target(x.y, p.kind), float_target(x.z, p.kind), float_target(x.w, p.kind),
  );
//% endif
  ${words.store_four(S, V, "q", "bits")}
}
