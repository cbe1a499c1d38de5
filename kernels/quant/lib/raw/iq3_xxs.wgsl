// IQ3_XXS. In a file: d as a half; for each 4 numbers, a byte with their entry; for each 32
// numbers, a word with 7 bits of signs for each 8 numbers and the scale s in the upper four bits.
// The scale is d (s + 1/2) / 2.
//% set BLOCK, BYTES, ENTRY = 256, 98, 4

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let more = raw_word(at + 66u + (i >> 3u) * 4u);
  let scale = raw_float(at) * (0.5f + f32(more >> 28u)) * 0.5f;
  return scale * signed(entry(raw_byte(at + 2u + i), i), all_signs(more >> (7u * ((i >> 1u) & 3u))), i);
}
//% endmacro
