// The 8-bit type of ONNX's MatMulNBits: a number is d (q - z). In our own files: a half d, a byte
// z, a zero byte, then a byte for each number.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 36, 32, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 2, 0, 1, 1
//% set BITS, BIAS, WORD_BIAS = 8, 0, -128
//% set ZERO = "whole"

//% macro scales()
fn scales_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(half_of(s.word0 & 0xffffu)); }
fn zeros_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(f32((s.word0 >> 16u) & 0xffu)); }
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 { return raw_byte(at + 4u + i); }
fn file_record(at: u32, k: u32) -> u32 { return raw_word(at); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 4u) { return (record(0u) >> (8u * b)) & 0xffu; }
  return number(b - 4u);
}
//% endmacro
