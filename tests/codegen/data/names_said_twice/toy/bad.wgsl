// /// kernel
// doc = "y = x * factor."
// inputs.x = { dtype = "T" }
// outputs.dst = { dtype = "T", like = "x" }
// params."factor offset" = { type = "f32", default = 1.0 }
// params.offset = { type = "u32" }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// ///

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), x_load(x_index(i)) * p.factor);
}
