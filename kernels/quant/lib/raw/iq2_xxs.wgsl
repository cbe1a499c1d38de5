// IQ2_XXS. In a file: d as a half; for each 32 numbers, four bytes, each with the entry of 8
// numbers, and a word with 7 bits of signs for each entry and the scale s in the upper four bits.
// The scale is d (s + 1/2) / 4.
//% set BLOCK, BYTES, ENTRY = 256, 66, 8

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let group = at + 2u + (i >> 3u) * 8u;
  let e = (i >> 1u) & 3u;
  let more = raw_word(group + 4u);
  let scale = raw_float(at) * (0.5f + f32(more >> 28u)) * 0.25f;
  return scale * signed(entry(raw_byte(group + e), i), all_signs(more >> (7u * e)), i);
}
//% endmacro
