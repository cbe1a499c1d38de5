// Q5_K: a number is d s q - dmin m, as in Q4_K. In a file: d and dmin as halves, 12 bytes of s and
// m, 32 bytes of fifth bits, then 32 bytes for each 64 numbers.
//% set BLOCK, BYTES, STEP, OFFSET = 256, 176, 32, true
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 1, 4, 1
//% set BITS, BIAS, WORD_BIAS = 4, 0, 0

//% macro scales()
// Scale and minimum of group j of 32 numbers, six bits each. For j below 4, each of them has a byte
// of its own. For j from 4 on, four bits of each are in word 3, and the other two bits are the
// upper bits of the bytes of group j - 4.
fn six(low: u32, above: u32, j: u32, shift: u32) -> f32 {
  let at = 8u * (j & 3u);
  let far = ((above >> (at + shift)) & 15u) | (((low >> (at + 6u)) & 3u) << 4u);
  return f32(select(far, (low >> at) & 63u, j < 4u));
}
fn scales_of(s: Scales, j: u32) -> vec2<f32> {
  return vec2<f32>(halves_of(s.word0).x * six(s.word1, s.word3, j, 0u));
}
fn offsets_of(s: Scales, j: u32) -> vec2<f32> {
  return vec2<f32>(-(halves_of(s.word0).y * six(s.word2, s.word3, j, 4u)));
}
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  let below = (raw_byte(at + 48u + (i >> 6u) * 32u + (i & 31u)) >> ((i & 32u) >> 3u)) & 15u;
  return below | (((raw_byte(at + 16u + (i & 31u)) >> (i >> 5u)) & 1u) << 4u);
}
fn file_record(at: u32, k: u32) -> u32 { return raw_word(at + 4u * k); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 16u) { return (record(b >> 2u) >> (8u * (b & 3u))) & 0xffu; }
  if (b < 48u) {
    var bits = 0u;
    for (var e = 0u; e < 8u; e++) { bits |= (number(e * 32u + b - 16u) >> 4u) << e; }
    return bits;
  }
  let i = ((b - 48u) >> 5u) * 64u + ((b - 48u) & 31u);
  return (number(i) & 15u) | ((number(i + 32u) & 15u) << 4u);
}
//% endmacro
