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
// grid = "cdiv(it.total, WG)"
// ///

// One element per invocation.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let e = g * WG + li;
  if (e >= p.total) { return; }
  let i = index_index(e) * p.index_words;
  let lo = index_mem[i];
  let hi = index_mem[i + p.index_words - 1u];
  // int32 has no second word: the first stands for it, and says the same of the sign.
  let inside = (lo < p.limit) & ((p.index_words == 1u) | (hi == 0u));
  keys_store(keys_index(e), select(i32(p.limit), i32(lo), inside));
  if (!inside) {
    let sign = select(0u, 0xffffffffu, lo >= 0x80000000u);
    fault(e, lo, select(hi, sign, p.index_words == 1u));
  }
}
