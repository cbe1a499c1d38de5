// IQ1_S. In a file: d as a half; for each 8 numbers, a byte of their entry; for each 32 numbers, 2
// bytes with three more bits of each entry, three bits of the scale s, and the sign of the 1/8 that
// is added to the numbers. The scale is d (2 s + 1).
//% set BLOCK, BYTES, ENTRY = 256, 50, 8

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let e = i >> 1u;
  let more = raw_half(at + 34u + (i >> 3u) * 2u);
  let above = (more >> (3u * (e & 3u))) & 7u;
  let scale = raw_float(at) * f32(2u * ((more >> 12u) & 7u) + 1u);
  let shift = select(0.125f, -0.125f, (more & 0x8000u) != 0u);
  return scale * (entry(raw_byte(at + 2u + e) | (above << 8u), i) + shift);
}
//% endmacro
