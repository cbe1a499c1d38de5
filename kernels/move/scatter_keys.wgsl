// /// kernel
// doc = "Indices as int32, those out of range as the first number that is."
// part_of = "scatter_add"
// axes.WG = [256]
// pick.WG = "256"
// inputs.index = { dtype = "*", bind = "'u32'", readonly = true }
// outputs.keys = { dtype = "i32" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params.limit = { type = "u32" }
// iterate = "nd"
// faults = true
// uses = ["indices"]
// grid = "cdiv(it.total, WG)"
// ///

// One element per invocation.
${indices.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let e = g * WG + li;
  if (e >= p.total) { return; }
  let value = index_at(index_index(e));
  let inside = ${indices.is_inside("value.x", "value.y")};
  keys_store(keys_index(e), select(i32(p.limit), i32(value.x), inside));
  if (!inside) {
    ${indices.report("e", "value.x", "value.y")}
  }
}
