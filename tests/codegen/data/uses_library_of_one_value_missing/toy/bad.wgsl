// /// kernel
// doc = "y = x * factor."
// axes.UNIT = ["fma", "wide"]
// pick.UNIT = "'wide' if x.size > 999 else 'fma'"
// inputs.x = { dtype = "f32" }
// outputs.dst = { dtype = "f32", like = "x" }
// params.factor = { type = "f32", default = 1.0 }
// iterate = "nd"
// uses = ["mma/${UNIT}"]
// grid = "cdiv(it.total, 64)"
// ///

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 64u + li;
  if (i < p.total) { dst_store(dst_index(i), ${mma.multiply("x_load(x_index(i))", "p.factor")}); }
}
