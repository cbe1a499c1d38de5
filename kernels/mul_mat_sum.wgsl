// /// kernel
// doc = "The sum over the slices of K, and the epilogue of mul_mat."
// part_of = "mul_mat"
// axes.D = ["f32", "f16"]
// axes.WG = [256]
// pick.D = "dtype(dst)"
// pick.WG = "256"
// inputs.parts = { dtype = "f32", index = false, doc = "(slices, elements of dst)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D" }
// iterate = "nd"
// params.slices = { type = "u32" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// params.residual_kind = { type = "u32", value = "0 if residual is None else 1 if residual.dtype.itemsize == 4 else 2" }
// params.act = { type = "u32" }
// params.scale = { type = "f32", arg = true }
// uses = ["product"]
// grid = "cdiv(it.total, WG)"
// ///

// One invocation per element of dst. No slices (K = 0): the sum is 0.
${product.epilogue()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let i = g * WG + li;
  if (i >= p.total) { return; }
  var sum = 0.0f;
  // Four loads on their way at once: one alone leaves half of the bandwidth unused.
  for (var s = 0u; s < p.slices; s += 4u) {
    let last = p.slices - 1u - s;
//% for u in range(4)
    let v${u} = parts_load(p.parts_off + i + (s + min(${u}u, last)) * p.total);
//% endfor
//% for u in range(4)
    sum += select(0.0f, v${u}, ${u}u <= last);
//% endfor
  }
  var v = sum * p.scale;
  if (p.bias_kind != 0u) { v += bias_value(bias_index(i)); }
  if (p.residual_kind != 0u) { v += residual_value(residual_index(i)); }
  if (p.act != 0u) { v = activate(vec4<f32>(v), p.act).x; }
  dst_store(dst_index(i), v);
}
