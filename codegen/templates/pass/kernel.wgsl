// /// kernel
// doc = "x times a factor plus y, in f32."
// axes.T = ["f32", "f16"]
// axes.WG = [256]
// pick.T = "dtype(x)"
// pick.WG = "256"
// inputs.x = { dtype = "T" }
// inputs.y = { dtype = "T", like = "x" }
// outputs.dst = { dtype = "T", like = "x", alias = "x" }
// params.factor = { type = "f32", default = 1.0, doc = "Factor of x." }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// operations = "2 * x.size"
// ///

// An invocation for each element.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  let product = x_load(x_index(i)) * p.factor;
  dst_store(dst_index(i), product + y_load(y_index(i)));
}
