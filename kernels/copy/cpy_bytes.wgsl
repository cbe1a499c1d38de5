// /// kernel
// doc = "Copy contiguous bytes, which may begin at any byte of a word in the source and in the destination."
// part_of = "cpy"
// axes.VEC = { values = [1, 4], pick = "4 if dst.padded and src.padded else 1" }
// axes.SHIFT = { values = [false, true], pick = "VEC == 1 or (src.offset - dst.offset) % 16 != 0" }
// when = ["VEC == 4 or SHIFT"]
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'u32' if SHIFT else 'vec4<u32>'" }
// outputs.dst = { dtype = "*", bind = "'vec4<u32>' if VEC == 4 else 'u32'" }
// params.bytes = { type = "u32", value = "dst.nbytes" }
// uses = ["words"]
// grid = "cdiv(dst.offset % (4 * VEC) + dst.nbytes, 4 * VEC * WG)"
// ///

// One invocation writes one vector of the destination; no other invocation writes this vector. Both
// views count bytes. With SHIFT each destination word is cut out of two neighbouring source words.
${words.functions()}

//% if SHIFT
// The word that starts at source byte s - 4; bytes outside the source are arbitrary.
fn source_word(s: u32) -> u32 {
  let last = (p.src_off + p.bytes - 1u) >> 2u;
  let lo = src_mem[min((s >> 2u) - 1u, last)];
  let hi = src_mem[min(s >> 2u, last)];
  let shift = (s & 3u) << 3u;
  return select((lo >> shift) | (hi << ((32u - shift) & 31u)), lo, shift == 0u);
}
//% endif

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let first = p.dst_off;
  let end = first + p.bytes;
  let i = first / (4u * VEC) + group_id(wg) * WG + li;
  let at = i * 4u * VEC;
  if (at >= end) { return; }
//% if SHIFT
  // The position is four bytes larger, so that the word before the first source byte has no
  // negative position.
  let s = at + p.src_off - first + 4u;
//% if VEC == 4
  let value = vec4<u32>(source_word(s), source_word(s + 4u), source_word(s + 8u), source_word(s + 12u));
//% else
  let value = source_word(s);
//% endif
//% else
  let value = src_mem[i + p.src_off / 16u - first / 16u];
//% endif
//% if VEC == 4
  if ((at >= first) & (at + 16u <= end)) {
    dst_mem[i] = value;
    return;
  }
  let mask = vec4<u32>(word_mask(at, first, end), word_mask(at + 4u, first, end),
                       word_mask(at + 8u, first, end), word_mask(at + 12u, first, end));
//% else
  let mask = word_mask(at, first, end);
//% endif
  dst_mem[i] = (dst_mem[i] & ~mask) | (value & mask);
}
