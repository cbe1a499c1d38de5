// /// kernel
// doc = """
// Set the elements of a view where a mask is True to one scalar, converted to the view's dtype as numpy does.
//
// The view may have any strides. Elements where the mask is False are not written, so even the bits of
// a NaN stay."""
// axes.SIZE = { values = [1, 2, 4, 8], pick = "dst.dtype.itemsize" }
// axes.WG = { values = [256], pick = "256" }
// inputs.mask = { dtype = "bool", expand = "dst" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if SIZE < 4 else 'u32' if SIZE == 4 else 'vec2<u32>'" }
// params.value = { type = "bits", of = "dst", arg = true, doc = "A number or bool." }
// moves_bytes = true
// bytes = "touched(mask, dst)"
// iterate = "nd"
// uses = ["words"]
// grid = "cdiv(it.total, 4 * WG)"
// ///

// An invocation takes four elements that lie a workgroup apart.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let first = group_id(wg) * (4u * WG) + li;
//% for k in range(4)
  let e${k} = min(first + ${k}u * WG, p.total - 1u);
  let m${k} = mask_load(mask_index(e${k})) & (first + ${k}u * WG < p.total);
//% endfor
//% for k in range(4)
  if (m${k}) {
    let d = dst_index(e${k});
//% if SIZE == 8
    dst_mem[d] = vec2<u32>(p.value_lo, p.value_hi);
//% elif SIZE == 4
    dst_mem[d] = p.value_lo;
//% elif SIZE == 2
    ${words.store_shared("dst_mem", 2, "d", "p.value_lo & 0xffffu")}
//% else
    ${words.store_shared("dst_mem", 1, "d", "p.value_lo & 0xffu")}
//% endif
  }
//% endfor
  // Only elements of eight bytes use the second half of a pattern.
  _ = p.value_hi;
}
