// /// kernel
// doc = "Keeps the index of each element that is the last of its place in the hash table; other indices become -1."
// part_of = "last_index"
// axes.WG = { values = [256], pick = "256" }
// inputs.index = { dtype = "*", bind = "'u32'", readonly = true }
// inputs.table = { dtype = "*", bind = "'u32'", over = "table.with_layout(index.shape, (0,) * index.ndim)" }
// outputs.kept = { dtype = "i32" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params."limit length inner slots" = { type = "u32" }
// iterate = "nd"
// uses = ["indices", "places"]
// grid = "cdiv(it.total, WG)"
// ///

// One invocation takes one element, and searches for its place in the same way as last_claim.
${places.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let e = group_id(wg) * WG + li;
  if (e >= p.total) { return; }
  let value = index_at(index_index(e));
  var last = -1;
  if (${indices.is_inside("value.x", "value.y")}) {
    var slot = first_slot(e);
    var held = table_mem[slot];
    while (!one_place(held - 1u, e)) {
      slot = select(slot + 1u, 0u, slot + 1u == p.slots);
      held = table_mem[slot];
    }
    last = select(-1, i32(value.x), held == e + 1u);
  }
  kept_store(kept_index(e), last);
}
