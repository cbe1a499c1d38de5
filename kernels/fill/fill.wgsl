// /// kernel
// doc = """
// Set every element of a view to one scalar, converted to the view's dtype as numpy does.
//
// The view may have any strides; memory between its elements does not change."""
// axes.SIZE = { values = [1, 2, 4, 8], pick = "dst.dtype.itemsize" }
// axes.WG = { values = [256], pick = "256" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if SIZE < 4 else 'u32' if SIZE == 4 else 'vec2<u32>'" }
// params.value = { type = "bits", of = "dst", arg = true, doc = "A number or bool." }
// moves_bytes = true
// iterate = "nd"
// uses = ["words"]
// grid = "cdiv(it.total, WG)"
// ///

// One invocation sets one element. This body never gets a contiguous view, which memset's body
// fills.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  let d = dst_index(i);
//% if SIZE == 8
  dst_mem[d] = vec2<u32>(p.value_lo, p.value_hi);
//% elif SIZE == 4
  dst_mem[d] = p.value_lo;
//% elif SIZE == 2
  ${words.store_shared("dst_mem", 2, "d", "p.value_lo & 0xffffu")}
//% else
  ${words.store_shared("dst_mem", 1, "d", "p.value_lo & 0xffu")}
//% endif
  // Only elements of eight bytes use the second half of a pattern.
  _ = p.value_hi;
}
