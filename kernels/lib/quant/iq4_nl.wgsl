// IQ4_NL: a number is d times an entry of a table. A block in a file looks like that of Q4_0.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 18, 32, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 0, 1, 2
//% set BITS, BIAS, WORD_BIAS = 4, 128, 0

// The table entry for four bits, plus 128, for both numbers of a couple.
//% macro table()
fn table_byte(q: u32) -> u32 {
  let low = select(0x3f2d1801u, 0x766a5d4fu, (q & 4u) != 0u);
  let high = select(0xa6998d81u, 0xf1d9c5b5u, (q & 4u) != 0u);
  return (select(low, high, q >= 8u) >> (8u * (q & 3u))) & 0xffu;
}
fn table_of(c: u32) -> u32 { return table_byte(c & 15u) | (table_byte(c >> 16u) << 16u); }
//% endmacro

//% macro scales()
${table()}
fn scales_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(half_of(s.word0)); }
//% endmacro

//% macro decoded(c)
table_of(${c})
//%- endmacro

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

// By ggml's rule: the first of the numbers with the largest magnitude becomes -127; then d
// minimises the errors, weighted with the squares of the numbers.
//% macro making()
${table()}
fn nearest(x: f32) -> u32 {
  var found = 0u;
  for (var i = 1u; i < 16u; i++) {
    let below = f32(table_byte(i - 1u)) - 128.0f;
    let above = f32(table_byte(i)) - 128.0f;
    found = select(found, i, (x >= below) & !(x - below < above - x));
  }
  return found;
}
fn make_block() -> u32 {
  let top = top_of();
  let inverse = select(1.0f / -by(top, 127.0f), 0.0f, abs(top) < 1e-15f);
  var products = 0.0f;
  var squares = 0.0f;
  for (var i = 0u; i < 32u; i++) {
    stored[i] = nearest(numbers[i] * inverse);
    let q = f32(table_byte(stored[i])) - 128.0f;
    let weight = numbers[i] * numbers[i];
    products += weight * q * numbers[i];
    squares += weight * q * q;
  }
  let d = select(products / squares, 0.0f, abs(top) < 1e-15f);
  return select(half(d), 0x7e00u, any_nan());
}
//% endmacro
