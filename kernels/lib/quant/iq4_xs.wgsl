// IQ4_XS: a number is d (s - 32) times an entry of IQ4_NL's table; 32 numbers share an s. In a
// file: d as a half, 2 bytes with the two upper bits of each s, 4 bytes with the four lower bits of
// each s, then the bytes of each 32 numbers as in Q4_0.
//% set BLOCK, BYTES, STEP, OFFSET = 256, 136, 32, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 0, 2, 1
//% set BITS, BIAS, WORD_BIAS = 4, 128, 0

//% macro scales()
// The table entry for four bits, plus 128, for both numbers of a couple.
fn table_byte(q: u32) -> u32 {
  let low = select(0x3f2d1801u, 0x766a5d4fu, (q & 4u) != 0u);
  let high = select(0xa6998d81u, 0xf1d9c5b5u, (q & 4u) != 0u);
  return (select(low, high, q >= 8u) >> (8u * (q & 3u))) & 0xffu;
}
fn table_of(c: u32) -> u32 { return table_byte(c & 15u) | (table_byte(c >> 16u) << 16u); }
fn scales_of(s: Scales, j: u32) -> vec2<f32> {
  let below = (s.word1 >> (4u * j)) & 15u;
  let above = (s.word0 >> (16u + 2u * j)) & 3u;
  return vec2<f32>(half_of(s.word0 & 0xffffu) * (f32(below | (above << 4u)) - 32.0f));
}
//% endmacro

//% macro decoded(c)
table_of(${c})
//%- endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  return (raw_byte(at + 8u + (i >> 5u) * 16u + (i & 15u)) >> ((i & 16u) >> 2u)) & 15u;
}
fn file_record(at: u32, k: u32) -> u32 { return raw_word(at + 4u * k); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 8u) { return (record(b >> 2u) >> (8u * (b & 3u))) & 0xffu; }
  let i = ((b - 8u) >> 4u) * 32u + ((b - 8u) & 15u);
  return number(i) | (number(i + 16u) << 4u);
}
//% endmacro
