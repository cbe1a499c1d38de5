// Q8_0: a number is d q. In a file: d as a half, then a signed byte for each number.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 34, 32, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 2, 0, 1, 2
//% set BITS, BIAS, WORD_BIAS = 8, 128, 0

//% macro scales()
fn scales_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(half_of(s.word0)); }
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 { return raw_byte(at + 2u + i) ^ 0x80u; }
fn file_record(at: u32, k: u32) -> u32 { return raw_half(at); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 2u) { return (record(0u) >> (8u * b)) & 0xffu; }
  return number(b - 2u) ^ 0x80u;
}
//% endmacro

// By ggml's rule: the number with the largest magnitude becomes 127 or -127; x.5 is rounded away
// from 0.
//% macro making()
fn make_block() -> u32 {
  let d = by(abs(top_of()), 127.0f);
  let inverse = inverse_of(d);
  for (var i = 0u; i < 32u; i++) {
    let x = numbers[i] * inverse;
    let whole = floor(abs(x));
    let size = i32(clamp(whole + floor(2.0f * (abs(x) - whole)), 0.0f, 127.0f));
    stored[i] = u32(128 + select(size, -size, x < 0.0f));
  }
  return select(half(d), 0x7e00u, any_nan());
}
//% endmacro
