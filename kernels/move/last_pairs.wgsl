// /// kernel
// doc = "Compares each index with the later indices along an axis: the last of equal indices is kept, the others become -1."
// part_of = "last_index"
// axes.WG = { values = [256], pick = "256" }
// inputs.index = { dtype = "*", bind = "'u32'", readonly = true }
// outputs.kept = { dtype = "i32" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params."limit length inner pitch" = { type = "u32" }
// iterate = "nd"
// faults = true
// uses = ["indices"]
// grid = "cdiv(it.total, WG)"
// ///

// One invocation takes one element. Neighbours along the axis are `inner` elements apart, and the
// axis has `length` elements; in memory neighbours are `pitch` elements apart.
${indices.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let e = g * WG + li;
  if (e >= p.total) { return; }
  let i = index_index(e);
  let value = index_at(i);
  let inside = ${indices.is_inside("value.x", "value.y")};
  var last = inside;
  let behind = p.length - 1u - (e / p.inner) % p.length;
  for (var j = 1u; last & (j <= behind); j += 1u) {
    last = any(index_at(i + j * p.pitch) != value);
  }
  kept_store(kept_index(e), select(-1, i32(value.x), last));
  if (!inside) {
    ${indices.report("e", "value.x", "value.y")}
  }
}
