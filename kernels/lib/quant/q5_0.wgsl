// Q5_0: a number is d (q - 16). In a file: d as a half, 4 bytes with the fifth bit of each number,
// then the other bits as in Q4_0.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 22, 32, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 1, 1, 2
//% set BITS, BIAS, WORD_BIAS = 4, 16, 16

//% macro scales()
fn scales_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(half_of(s.word0)); }
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  let below = (raw_byte(at + 6u + (i & 15u)) >> ((i >> 4u) << 2u)) & 15u;
  return below | (((raw_byte(at + 2u + (i >> 3u)) >> (i & 7u)) & 1u) << 4u);
}
fn file_record(at: u32, k: u32) -> u32 { return raw_half(at); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 2u) { return (record(0u) >> (8u * b)) & 0xffu; }
  if (b < 6u) {
    var bits = 0u;
    for (var e = 0u; e < 8u; e++) { bits |= (number((b - 2u) * 8u + e) >> 4u) << e; }
    return bits;
  }
  return (number(b - 6u) & 15u) | ((number(b + 10u) & 15u) << 4u);
}
//% endmacro

// By ggml's rule: the first of the numbers with the largest magnitude becomes -16.
//% macro making()
fn make_block() -> u32 {
  let d = top_of() / -16.0f;
  let inverse = inverse_of(d);
  for (var i = 0u; i < 32u; i++) {
    stored[i] = u32(clamp(numbers[i] * inverse + 16.5f, 0.0f, 31.0f));
  }
  return select(half(d), 0x7e00u, any_nan());
}
//% endmacro
