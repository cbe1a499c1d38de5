// /// kernel
// doc = "y = x * scale."
// axes.T = ["f32", "f16"]
// pick.T = "dtype(x)"
// inputs.x = { dtype = "T" }
// outputs.dst = { dtype = "T", like = "x" }
// params.factor = { type = "f32", value = "2.0", when = "T == 'f32'" }
// iterate = "nd"
// grid = "cdiv(it.total, 64)"
// ///

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 64u + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), x_load(x_index(i)) * p.factor);
}
