// The 4-bit type of ONNX's MatMulNBits: a number is d (q - z). In our own files: a half d, a byte
// z, a zero byte, then the numbers; byte i has number 2 i in its lower bits and number 2 i + 1 in
// its upper bits.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 20, 32, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 0, 1, 1
//% set BITS, BIAS, WORD_BIAS = 4, 0, 0
//% set ZERO = "whole"

//% macro scales()
fn scales_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(half_of(s.word0 & 0xffffu)); }
fn zeros_of(s: Scales, j: u32) -> vec2<f32> { return vec2<f32>(f32((s.word0 >> 16u) & 0xffu)); }
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 { return (raw_byte(at + 4u + (i >> 1u)) >> ((i & 1u) << 2u)) & 15u; }
fn file_record(at: u32, k: u32) -> u32 { return raw_word(at); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 4u) { return (record(0u) >> (8u * b)) & 0xffu; }
  return number(2u * b - 8u) | (number(2u * b - 7u) << 4u);
}
//% endmacro
