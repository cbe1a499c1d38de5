// /// kernel
// doc = "y = x."
// axes.WG = [64]
// pick.WG = "64"
// inputs.x = { dtype = "f32", like = "dst" }
// outputs.dst = { dtype = "f32" }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// ///

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), x_load(x_index(i)));
}
