// /// kernel
// doc = "A mistake: what counts work, as taps, is not for step, in no language."
// axes.WG = [64]
// pick.WG = "64"
// outputs.dst = { dtype = "f32" }
// params.count = { type = "u32", value = "taps(dst.shape)" }
// grid = "cdiv(dst.size, WG)"
// ///
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < p.count) { dst_store(p.dst_off + id.x, 1.0f); }
}
