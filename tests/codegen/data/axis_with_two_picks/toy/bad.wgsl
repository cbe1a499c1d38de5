// /// kernel
// doc = "y = x * factor."
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// pick.T = "dtype(x)"
// inputs.x = { dtype = "T" }
// outputs.dst = { dtype = "T", like = "x" }
// params.factor = { type = "f32", default = 1.0 }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// ///

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), x_load(x_index(i)) * p.factor);
}
