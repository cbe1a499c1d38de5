// IQ2_XS. In a file: d as a half; for each 8 numbers, 2 bytes with 9 bits of their entry and 7 bits
// of signs; for each 16 numbers, four bits with the scale s. The scale is d (s + 1/2) / 4.
//% set BLOCK, BYTES, ENTRY = 256, 74, 8

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let both = raw_half(at + 2u + (i >> 1u) * 2u);
  let scale = raw_float(at) * (0.5f + f32(raw_nibble(at + 66u, i >> 2u))) * 0.25f;
  return scale * signed(entry(both & 511u, i), all_signs(both >> 9u), i);
}
//% endmacro
