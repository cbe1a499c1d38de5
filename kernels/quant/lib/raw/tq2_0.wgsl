// TQ2_0: d (q - 1). In a file: 64 bytes, then d as a half. Every 32 bytes hold 128 numbers q of two
// bits, and number i of these is in byte i % 32.
//% set BLOCK, BYTES, ENTRY = 256, 66, 0

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let bytes = bytes_of(raw_word(at + (i >> 5u) * 32u + 4u * (i & 7u)));
  let q = (bytes >> vec4<u32>(2u * ((i >> 3u) & 3u))) & vec4<u32>(3u);
  return raw_float(at + 64u) * (vec4<f32>(q) - 1.0f);
}
//% endmacro
