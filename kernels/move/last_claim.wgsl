// /// kernel
// doc = "Fills a hash table of the places that an index names; a slot has the number of its place's last element, plus one."
// part_of = "last_index"
// axes.WG = { values = [256], pick = "256" }
// inputs.index = { dtype = "*", bind = "'u32'", readonly = true }
// outputs.table = { dtype = "*", bind = "'atomic<u32>'", over = "table.with_layout(index.shape, (0,) * index.ndim)" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params."limit length inner slots" = { type = "u32" }
// iterate = "nd"
// faults = true
// uses = ["indices", "places"]
// grid = "cdiv(it.total, WG)"
// ///

// One invocation takes one element of the index. The table is filled with zeros first and has more
// slots than there are elements.
${places.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let e = g * WG + li;
  if (e >= p.total) { return; }
  let value = index_at(index_index(e));
  if (!(${indices.is_inside("value.x", "value.y")})) {
    ${indices.report("e", "value.x", "value.y")}
    return;
  }
  var slot = first_slot(e);
  loop {
    let found = atomicCompareExchangeWeak(&table_mem[slot], 0u, e + 1u);
    if (found.exchanged) { break; }
    if (found.old_value == 0u) { continue; } // the weak exchange may fail spuriously
    // An element that finds its own place in a slot shares the slot, so a slot always belongs to
    // one place.
    if (one_place(found.old_value - 1u, e)) {
      atomicMax(&table_mem[slot], e + 1u);
      break;
    }
    slot = select(slot + 1u, 0u, slot + 1u == p.slots);
  }
}
