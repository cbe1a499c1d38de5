// /// kernel
// doc = "The root of all sums."
// part_of = "norm"
// axes.WG = [256]
// pick.WG = "256"
// inputs.sums = { dtype = "f32", axes = "g", readonly = true }
// outputs.dst = { dtype = "f32" }
// params.count = { type = "u32", value = "sums.shape[0]" }
// uses = ["sums"]
// grid = "1"
// ///

${sums.memory("WG")}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  if (group_id(wg) >= p.groups) { return; }
  var sum = 0.0f;
  for (var i = li; i < p.count; i += WG) { sum += sums_load(p.sums_off + i * p.sums_gs); }
  ${sums.added("sum", "WG")}
  if (li == 0u) { dst_store(p.dst_off, sqrt(sum)); }
}
