// /// kernel
// doc = "y = x * factor."
// axes.T = ["f32", "f16"]
// axes.WG = [64]
// pick.T = "dtype(x)"
// pick.WG = "64"
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
  var y = x_load(x_index(i));
//% for k in range(3)
  // one of three
  y = y * p.factor + 1.0;
  dst_store(dst_index(i), y);
}
