// Q6_K: a number is d s (q - 32); 16 numbers share s. In a file: 64 bytes for each 128 numbers
// (byte i has the lower bits of numbers i and i + 64), then 32 bytes for each 128 numbers (a byte
// has the upper bits of numbers 32 apart), then the 16 scales s, then d as a half.
//% set BLOCK, BYTES, STEP, OFFSET = 256, 210, 16, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 2, 5, 1
//% set BITS, BIAS, WORD_BIAS = 4, 32, 32

//% macro scales()
// The scales of both halves of group j, 16 numbers each: bytes 2 j and 2 j + 1 of the 16 signed
// bytes.
fn scales_of(s: Scales, j: u32) -> vec2<f32> {
  let low = select(s.word0, s.word1, (j & 2u) != 0u);
  let both = select(low, select(s.word2, s.word3, (j & 2u) != 0u), j >= 4u) >> (16u * (j & 1u));
  let values = vec2<i32>(vec2<u32>(both << 24u, (both & 0xff00u) << 16u)) >> vec2<u32>(24u);
  return half_of(s.word4) * vec2<f32>(values);
}
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  let half = i >> 7u;
  let below = (raw_byte(at + half * 64u + (i & 63u)) >> ((i & 64u) >> 4u)) & 15u;
  let above = (raw_byte(at + 128u + half * 32u + (i & 31u)) >> ((i & 96u) >> 4u)) & 3u;
  return below | (above << 4u);
}
fn file_record(at: u32, k: u32) -> u32 {
  if (k == 4u) { return raw_half(at + 208u); }
  return raw_word(at + 192u + 4u * k);
}
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 128u) {
    let i = (b >> 6u) * 128u + (b & 63u);
    return (number(i) & 15u) | ((number(i + 64u) & 15u) << 4u);
  }
  if (b < 192u) {
    let i = ((b - 128u) >> 5u) * 128u + (b & 31u);
    return (number(i) >> 4u) | ((number(i + 32u) >> 4u) << 2u) | ((number(i + 64u) >> 4u) << 4u)
      | ((number(i + 96u) >> 4u) << 6u);
  }
  return (record((b - 192u) >> 2u) >> (8u * (b & 3u))) & 0xffu;
}
//% endmacro
