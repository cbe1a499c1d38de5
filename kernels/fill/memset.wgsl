// /// kernel
// doc = """
// Set bytes to one value (0..255), as C's memset does.
//
// Sets every byte of the view, or `size` bytes from its byte `offset` on. Neighbouring bytes in the
// same word do not change. A byte range needs a contiguous view."""
// axes.VEC = { values = [1, 4], pick = "4 if dst.padded else 1" }
// axes.WG = { values = [256], pick = "256" }
// outputs.dst = { dtype = "*", bind = "'vec4<u32>' if VEC == 4 else 'u32'" }
// params.bytes = { type = "u32", value = "dst.nbytes" }
// params.value = { type = "bits", of = "uint8", arg = true, doc = "The byte, 0 to 255." }
// options.offset = { type = "int", default = 0, doc = "First byte, counted from the start of the view." }
// options.size = { type = "int | None", doc = "Number of bytes; None is up to the end." }
// moves_bytes = true
// bytes = "size if size is not None else dst.nbytes - offset"
// uses = ["words"]
// grid = "cdiv(dst.offset % (4 * VEC) + dst.nbytes, 4 * VEC * WG)"
// ///

// One invocation writes one vector of the destination. A full vector is stored at once; of the two
// vectors at the ends, only the bytes of the view are stored. The view arrives as bytes; its window
// begins at a multiple of 16.
${words.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let first = p.dst_off;
  let end = first + p.bytes;
  let i = first / (4u * VEC) + group_id(wg) * WG + li;
  let at = i * 4u * VEC;
  if (at >= end) { return; }
//% if VEC == 4
  let pattern = vec4<u32>(p.value_lo, p.value_hi, p.value_lo, p.value_hi);
  if ((at >= first) & (at + 16u <= end)) {
    dst_mem[i] = pattern;
    return;
  }
  let mask = vec4<u32>(word_mask(at, first, end), word_mask(at + 4u, first, end),
                       word_mask(at + 8u, first, end), word_mask(at + 12u, first, end));
  dst_mem[i] = (dst_mem[i] & ~mask) | (pattern & mask);
//% else
  let pattern = select(p.value_hi, p.value_lo, (i & 1u) == 0u);
  let mask = word_mask(at, first, end);
  dst_mem[i] = (dst_mem[i] & ~mask) | (pattern & mask);
//% endif
}
