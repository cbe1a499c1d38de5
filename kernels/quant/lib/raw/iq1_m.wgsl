// IQ1_M. In a file: for each 8 numbers, a byte of their entry; for each 8 numbers, four bits (three
// more bits of the entry, and the sign of the 1/8 that is added to the numbers); four words of 16
// bits, each with four scales s of three bits, one for each 16 numbers, and with four bits of d.
// The scale is d (2 s + 1).
//% set BLOCK, BYTES, ENTRY = 256, 56, 8

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let e = i >> 1u;
  let more = raw_nibble(at + 32u, e);
  let d = (raw_half(at + 48u) >> 12u) | ((raw_half(at + 50u) >> 8u) & 0xf0u)
    | ((raw_half(at + 52u) >> 4u) & 0xf00u) | (raw_half(at + 54u) & 0xf000u);
  let s = (raw_half(at + 48u + (i >> 4u) * 2u) >> (3u * ((i >> 2u) & 3u))) & 7u;
  let scale = bitcast<f32>(f32_bits_of_f16(d)) * f32(2u * s + 1u);
  let shift = select(0.125f, -0.125f, (more & 8u) != 0u);
  return scale * (entry(raw_byte(at + e) | ((more & 7u) << 8u), i) + shift);
}
//% endmacro
