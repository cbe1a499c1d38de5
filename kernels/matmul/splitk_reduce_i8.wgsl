// /// kernel
// doc = "Split-K: adds up the splits of mul_mat_i8, and applies its factors and bias."
// part_of = "mul_mat_i8"
// axes.D = { values = ["i32", "f32", "f16"], pick = "dtype(dst)" }
// axes.WG = { values = [256], pick = "256" }
// inputs.partials = { dtype = "i32", index = false, doc = "(splits, elements of dst)" }
// inputs."a_scale b_scale" = { dtype = "f32", optional = true }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D" }
// iterate = "nd"
// params.splits = { type = "u32" }
// params.has_a_scale = { type = "u32", value = "0 if a_scale is None else 1" }
// params.has_b_scale = { type = "u32", value = "0 if b_scale is None else 1" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// uses = ["packed"]
// grid = "cdiv(it.total, WG)"
// ///

// One invocation computes one element of dst. If there are no splits (K = 0), the sum is 0.
//% if D != "i32"
${packed.bias()}
//% endif

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  let first = p.partials_off + i;
  var sum = 0i;
  // Four loads are made at once, because a single load would leave half of the bandwidth unused.
  for (var s = 0u; s < p.splits; s += 4u) {
//% for u in range(4)
    let v${u} = partials_load(first + min(s + ${u}u, p.splits - 1u) * p.total);
//% endfor
//% for u in range(4)
    sum += select(0i, v${u}, s + ${u}u < p.splits);
//% endfor
  }
//% if D == "i32"
  dst_store(dst_index(i), sum);
//% else
  var v = f32(sum);
  if (p.has_a_scale != 0u) { v *= a_scale_load(a_scale_index(i)); }
  if (p.has_b_scale != 0u) { v *= b_scale_load(b_scale_index(i)); }
  if (p.bias_kind != 0u) { v += bias_value(bias_index(i)); }
  dst_store(dst_index(i), v);
//% endif
}
