// Q2_K: a number is d s q - dmin m; 16 numbers share s and m. In a file: 16 bytes with s in the
// lower and m in the upper bits, then 32 bytes for each 128 numbers (a byte holds numbers 32
// apart), d and dmin as halves.
//% set BLOCK, BYTES, STEP, OFFSET = 256, 84, 16, true
//% set VEC, PARTS, HIGH, WORDS, SHARE = 2, 1, 0, 5, 1
//% set BITS, BIAS, WORD_BIAS = 2, 0, 0

//% macro scales()
// Bytes 2 j and 2 j + 1 of the 16 bytes, for both halves of group j: each byte has four bits of the
// scale of 16 numbers, then four bits of their minimum.
fn bytes_of(s: Scales, j: u32) -> vec2<u32> {
  let low = select(s.word0, s.word1, (j & 2u) != 0u);
  let both = select(low, select(s.word2, s.word3, (j & 2u) != 0u), j >= 4u) >> (16u * (j & 1u));
  return vec2<u32>(both & 0xffu, (both >> 8u) & 0xffu);
}
fn scales_of(s: Scales, j: u32) -> vec2<f32> {
  return halves_of(s.word4).x * vec2<f32>(bytes_of(s, j) & vec2<u32>(15u));
}
fn offsets_of(s: Scales, j: u32) -> vec2<f32> {
  return -(halves_of(s.word4).y * vec2<f32>(bytes_of(s, j) >> vec2<u32>(4u)));
}
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  return (raw_byte(at + 16u + (i >> 7u) * 32u + (i & 31u)) >> ((i & 96u) >> 4u)) & 3u;
}
fn file_record(at: u32, k: u32) -> u32 {
  return raw_word(at + select(4u * k, 80u, k == 4u));
}
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 16u) { return (record(b >> 2u) >> (8u * (b & 3u))) & 0xffu; }
  if (b < 80u) {
    let i = ((b - 16u) >> 5u) * 128u + ((b - 16u) & 31u);
    return number(i) | (number(i + 32u) << 2u) | (number(i + 64u) << 4u) | (number(i + 96u) << 6u);
  }
  return (record(4u) >> (8u * (b & 3u))) & 0xffu;
}
//% endmacro
