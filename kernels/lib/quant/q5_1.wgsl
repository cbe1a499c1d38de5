// Q5_1: a number is d q + m. In a file: d and m as halves, 4 bytes with the fifth bit of each
// number, then the other bits as in Q4_0.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 24, 32, true
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 1, 1, 1
//% set BITS, BIAS, WORD_BIAS = 4, 0, 0

//% macro scales()
fn scales_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(halves_of(s.word0).x); }
fn offsets_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(halves_of(s.word0).y); }
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  let below = (raw_byte(at + 8u + (i & 15u)) >> ((i >> 4u) << 2u)) & 15u;
  return below | (((raw_byte(at + 4u + (i >> 3u)) >> (i & 7u)) & 1u) << 4u);
}
fn file_record(at: u32, k: u32) -> u32 { return raw_word(at); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 4u) { return (record(0u) >> (8u * b)) & 0xffu; }
  if (b < 8u) {
    var bits = 0u;
    for (var e = 0u; e < 8u; e++) { bits |= (number((b - 4u) * 8u + e) >> 4u) << e; }
    return bits;
  }
  return (number(b - 8u) & 15u) | ((number(b + 8u) & 15u) << 4u);
}
//% endmacro

// By ggml's rule: the smallest number becomes 0, the largest becomes 31.
//% macro making()
fn make_block() -> u32 {
  var least = numbers[0];
  var most = numbers[0];
  for (var i = 1u; i < 32u; i++) {
    least = min(least, numbers[i]);
    most = max(most, numbers[i]);
  }
  let d = by(most - least, 31.0f);
  let inverse = inverse_of(d);
  for (var i = 0u; i < 32u; i++) {
    stored[i] = u32(clamp((numbers[i] - least) * inverse + 0.5f, 0.0f, 31.0f));
  }
  return select(half(d) | (half(least) << 16u), 0x7e007e00u, any_nan());
}
//% endmacro
