// /// kernel
// doc = "Converts indices along one axis to rows of sort keys. All indices out of range get the same key, which is the first number out of range."
// part_of = "scatter_add"
// axes.WG = { values = [256], pick = "256" }
// inputs.index = { dtype = "*", bind = "'u32'", readonly = true }
// outputs.keys = { dtype = "u32", index = false, doc = "(rows, padded)" }
// params.index_words = { type = "u32", value = "index.dtype.itemsize // 4" }
// params.index_signed = { type = "u32", value = "1 if index.dtype.kind == 'i' else 0" }
// params."limit inner length padded" = { type = "u32" }
// iterate = "nd"
// faults = true
// uses = ["indices"]
// grid = "cdiv(it.total // length * padded, WG)"
// ///

// One invocation takes one element, in the order of index. Neighbours along the axis are `inner`
// elements apart, and `length` of them form a row. The remaining invocations fill up the rows with
// the largest key.
${indices.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let e = g * WG + li;
  if (e >= p.total) {
    let left = p.padded - p.length;
    let row = (e - p.total) / max(left, 1u);
    if ((left > 0u) & (row < p.total / p.length)) {
      keys_store(p.keys_off + row * p.padded + p.length + (e - p.total - row * left), 0xffffffffu);
    }
    return;
  }
  let value = index_at(index_index(e));
  let inside = ${indices.is_inside("value.x", "value.y")};
  let line = e / p.inner;
  let outer = line / p.length;
  let row = outer * p.inner + (e - line * p.inner);
  keys_store(p.keys_off + row * p.padded + (line - outer * p.length), select(p.limit, value.x, inside));
  if (!inside) {
    // If an index has no second word, the first word has the sign.
    let sign = select(0u, 0xffffffffu, (value.x >= 0x80000000u) & (p.index_signed == 1u));
    fault(e, value.x, select(value.y, sign, p.index_words == 1u));
  }
}
