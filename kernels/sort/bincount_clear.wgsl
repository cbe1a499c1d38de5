// /// kernel
// doc = "Counts of 0."
// part_of = "bincount"
// configs.one = { threads = 256 }
// axes.SHARE = { values = "configs", pick = "'one'" }
// outputs.dst = { dtype = "i32" }
// iterate = "nd"
// grid = "cdiv(it.total, CFG.threads)"
// ///

// One invocation clears one count.
@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * ${CFG.threads}u + li;
  if (i < p.total) { dst_store(dst_index(i), 0i); }
}
