// Q3_K: a number is d s (q - 4); 16 numbers share s. In a file: 32 bytes of third bits, 32 bytes
// for each 128 numbers (a byte holds numbers 32 apart), 12 bytes of s, d as a half.
//% set BLOCK, BYTES, STEP, OFFSET = 256, 110, 16, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 2, 1, 1, 4, 1
//% set BITS, BIAS, WORD_BIAS = 2, 4, 4

//% macro scales()
// Scale i of the 16 scales, plus 32, has six bits: four bits in a byte of words 0 and 1, and two
// bits in a byte of word 2.
fn six(s: Scales, i: u32) -> f32 {
  let at = 8u * (i & 3u);
  let below = (select(s.word0, s.word1, (i & 4u) != 0u) >> (at + 4u * (i >> 3u))) & 15u;
  let above = (s.word2 >> (at + 2u * (i >> 2u))) & 3u;
  return f32(below | (above << 4u)) - 32.0f;
}
fn scales_of(s: Scales, j: u32) -> vec2<f32> {
  return half_of(s.word3) * vec2<f32>(six(s, 2u * j), six(s, 2u * j + 1u));
}
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  let below = (raw_byte(at + 32u + (i >> 7u) * 32u + (i & 31u)) >> ((i & 96u) >> 4u)) & 3u;
  return below | (((raw_byte(at + (i & 31u)) >> (i >> 5u)) & 1u) << 2u);
}
fn file_record(at: u32, k: u32) -> u32 {
  if (k == 3u) { return raw_half(at + 108u); }
  return raw_word(at + 96u + 4u * k);
}
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 32u) {
    var bits = 0u;
    for (var e = 0u; e < 8u; e++) { bits |= (number(e * 32u + b) >> 2u) << e; }
    return bits;
  }
  if (b < 96u) {
    let i = ((b - 32u) >> 5u) * 128u + (b & 31u);
    return (number(i) & 3u) | ((number(i + 32u) & 3u) << 2u) | ((number(i + 64u) & 3u) << 4u)
      | ((number(i + 96u) & 3u) << 6u);
  }
  return (record((b - 96u) >> 2u) >> (8u * (b & 3u))) & 0xffu;
}
//% endmacro
