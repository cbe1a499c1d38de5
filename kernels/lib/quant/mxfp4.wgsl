// MXFP4: a number is 2^(e - 128) times an entry of a table of doubled e2m1 numbers. In a file: the
// byte e, then the numbers as in Q4_0.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 17, 32, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 0, 1, 4
//% set BITS, BIAS, WORD_BIAS = 4, 128, 0
//% set FACTORS = true

//% macro scales()
// The number for four bits, plus 128, for both numbers of a couple; the magnitudes are 0 1 2 3 4 6
// 8 12.
fn table_byte(q: u32) -> u32 {
  let size = (0xc8643210u >> (4u * (q & 7u))) & 15u;
  return select(128u + size, 128u - size, q >= 8u);
}
fn table_of(c: u32) -> u32 { return table_byte(c & 15u) | (table_byte(c >> 16u) << 16u); }
fn scales_of(s: Scales, j: u32) -> vec2<f32> {
  let bits = select((s.word0 - 1u) << 23u, 0x200000u << s.word0, s.word0 < 2u);
  return vec2<f32>(bitcast<f32>(bits));
}
// The scale as two normal factors, because devices may flush a subnormal scale to 0.
fn factors_of(s: Scales) -> vec2<f32> {
  let small = s.word0 < 64u;
  let first = select(s.word0 - 1u, s.word0 + 63u, small);
  return vec2<f32>(bitcast<f32>(first << 23u), select(1.0f, 0x1p-64f, small));
}
//% endmacro

//% macro decoded(c)
table_of(${c})
//%- endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 {
  return (raw_byte(at + 1u + (i & 15u)) >> ((i >> 4u) << 2u)) & 15u;
}
fn file_record(at: u32, k: u32) -> u32 { return raw_byte(at); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 1u) { return record(0u); }
  return number(b - 1u) | (number(b + 15u) << 4u);
}
//% endmacro

// By ggml's rule: e is chosen so that the largest magnitude is at least 8 times and less than 16
// times 2^(e - 128); if two entries of the table are equally near, the smaller is taken. A NaN
// cannot be stored.
//% macro making()
fn make_block() -> u32 {
  let e = max(bitcast<u32>(abs(top_of())) >> 23u, 2u) - 2u;
  // The factor is split in two, because 2^(128 - e) may be too large for f32.
  let first = bitcast<f32>((191u - (e >> 1u)) << 23u);
  let second = bitcast<f32>((191u - (e - (e >> 1u))) << 23u);
  for (var i = 0u; i < 32u; i++) {
    let y = abs(numbers[i]) * first * second;
    let low = select(0u, 1u, y > 0.5f) + select(0u, 1u, y > 1.5f) + select(0u, 1u, y > 2.5f);
    let high = select(0u, 1u, y > 3.5f) + select(0u, 1u, y > 5.0f) + select(0u, 1u, y > 7.0f);
    let q = low + high + select(0u, 1u, y > 10.0f);
    stored[i] = q | select(0u, 8u, (numbers[i] < 0.0f) & (q > 0u));
  }
  return e;
}
//% endmacro
