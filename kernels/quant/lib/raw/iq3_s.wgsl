// IQ3_S. In a file: d as a half; for each 4 numbers, a byte of their entry; one more bit of each
// entry; for each 8 numbers, a byte of signs; for each 32 numbers, four bits with the scale s. The
// scale is d (2 s + 1).
//% set BLOCK, BYTES, ENTRY = 256, 110, 4

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let above = (raw_byte(at + 66u + (i >> 3u)) >> (i & 7u)) & 1u;
  let scale = raw_float(at) * f32(1u + 2u * raw_nibble(at + 106u, i >> 3u));
  let numbers = entry(raw_byte(at + 2u + i) | (above << 8u), i);
  return scale * signed(numbers, raw_byte(at + 74u + (i >> 1u)), i);
}
//% endmacro
