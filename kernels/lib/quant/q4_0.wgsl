// Q4_0: a number is d (q - 8). In a file: d as a half, then 16 bytes; byte i has number i in its
// lower bits and number i + 16 in its upper bits.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 18, 32, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 0, 1, 2
//% set BITS, BIAS, WORD_BIAS = 4, 8, 8

//% macro scales()
fn scales_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(half_of(s.word0)); }
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  return (raw_byte(at + 2u + (i & 15u)) >> ((i >> 4u) << 2u)) & 15u;
}
fn file_record(at: u32, k: u32) -> u32 { return raw_half(at); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 2u) { return (record(0u) >> (8u * b)) & 0xffu; }
  return number(b - 2u) | (number(b + 14u) << 4u);
}
//% endmacro

// By ggml's rule: the first of the numbers with the largest magnitude becomes -8.
//% macro making()
fn make_block() -> u32 {
  let d = top_of() / -8.0f;
  let inverse = inverse_of(d);
  for (var i = 0u; i < 32u; i++) {
    stored[i] = u32(clamp(numbers[i] * inverse + 8.5f, 0.0f, 15.0f));
  }
  return select(half(d), 0x7e00u, any_nan());
}
//% endmacro
