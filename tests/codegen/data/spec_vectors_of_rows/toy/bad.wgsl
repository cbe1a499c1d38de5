// /// kernel
// doc = "y = x."
// axes.VEC = [1, 4]
// pick.VEC = "4 if it.vec(4) else 1"
// inputs.x = { dtype = "f32", vec = "VEC", expand = "dst" }
// outputs.dst = { dtype = "f32", vec = "VEC" }
// iterate = "rows"
// vectors = "VEC"
// grid = "cdiv(it.total, 64)"
// ///

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 64u + li;
  if (i < p.total) { dst_store(dst_index(i), x_load(x_index(i))); }
}
