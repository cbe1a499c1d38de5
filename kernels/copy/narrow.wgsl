// /// kernel
// doc = """
// Converts int64 to int32.
//
// A number that does not fit into 32 bits raises IndexRangeError once, at the next synchronisation; dst
// gets its lowest 32 bits."""
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", dtypes = ["int64"], bind = "'vec2<u32>'", expand = "dst" }
// outputs.dst = { dtype = "i32" }
// iterate = "nd"
// faults = true
// bytes = "touched(src, dst)"
// operations = "src.size"
// grid = "cdiv(it.total, WG)"
// ///

// One invocation converts one element.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
  let e = g * WG + li;
  if (e >= p.total) { return; }
  let bits = src_mem[src_index(e)];
  dst_store(dst_index(e), i32(bits.x));
  let sign = select(0u, 0xffffffffu, bits.x >= 0x80000000u);
  if (bits.y != sign) { fault(e, bits.x, bits.y); }
}
