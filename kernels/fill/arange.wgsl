// /// kernel
// doc = """
// Numbers at equal steps: element i in C order is start + i * step.
//
// Integers wrap. For float32, i and step are rounded, then their product, then the sum. i is exact
// up to 2^24."""
// source = "numpy.arange"
// axes.T = ["f32", "u32"]
// axes.V = [1, 4]
// outputs.dst = { dtype = "*", dtypes = ["float32", "int32", "uint32"], bind = "'vec4<u32>' if V == 4 else 'u32'" }
// params.first = { type = "u32" }
// params.zero = { type = "u32", value = "0" }
// params.start = { type = "bits", of = "dst", arg = true, doc = "The first number." }
// params.step = { type = "bits", of = "dst", arg = true, doc = "Difference of two neighbouring numbers; for uint32 modulo 2^32." }
// moves_bytes = true
// iterate = "nd"
// uses = ["words"]
// grid = "cdiv(it.total, 256) if V == 4 else cdiv(it.total, 1024)"
// ///

// One invocation computes four neighbouring elements. Bytes: each element is written once.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let q = group_id(wg) * 256u + li;
  if (q >= ${"p.total" if V == 4 else "(p.total + 3u) / 4u"}) { return; }
  let i = 4u * (p.first + q) + vec4<u32>(0u, 1u, 2u, 3u);
//% if T == "f32"
  // Compilers do not know that p.zero is 0, so this exclusive or keeps them from fusing the product
  // and the sum.
  let product = bitcast<vec4<u32>>(vec4<f32>(i) * bitcast<f32>(p.step_lo)) ^ vec4<u32>(p.zero);
  let bits = bitcast<vec4<u32>>(bitcast<vec4<f32>>(product) + bitcast<f32>(p.start_lo));
//% else
  let bits = p.start_lo + i * p.step_lo;
  _ = p.zero;
//% endif
  // The upper four bytes of an element of eight bytes.
  _ = p.start_hi ^ p.step_hi;
  ${words.store_four(4, V, "q", "bits")}
}
