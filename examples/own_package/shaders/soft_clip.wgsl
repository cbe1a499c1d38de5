// /// kernel
// doc = "v / (1 + |v|) with v = gain * x: elements are f16 in memory, the arithmetic is f32."
// axes.WG = [256]
// pick.WG = "256"
// inputs.x = { dtype = "f16" }
// outputs.dst = { dtype = "f16", like = "x", alias = "x" }
// params.gain = { type = "f32", default = 1.0, doc = "Factor of x." }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// operations = "4 * x.size"
// ///

// An invocation for each element.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  let v = p.gain * x_load(x_index(i));
  dst_store(dst_index(i), v / (1.0f + abs(v)));
}
