// IQ2_S. In a file: d as a half; for each 8 numbers, a byte of their entry; for each 8 numbers, a
// byte of signs; two more bits of each entry; for each 16 numbers, four bits with the scale s. The
// scale is d (s + 1/2) / 4.
//% set BLOCK, BYTES, ENTRY = 256, 82, 8

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let e = i >> 1u;
  let above = (raw_byte(at + 66u + (e >> 2u)) >> (2u * (e & 3u))) & 3u;
  let scale = raw_float(at) * (0.5f + f32(raw_nibble(at + 74u, i >> 2u))) * 0.25f;
  let numbers = entry(raw_byte(at + 2u + e) | (above << 8u), i);
  return scale * signed(numbers, raw_byte(at + 34u + e), i);
}
//% endmacro
