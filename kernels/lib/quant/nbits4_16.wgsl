// The 4-bit type of ONNX's MatMulNBits with groups of 16: a number is d (q - z), and each 16
// numbers have a float32 d and a z. In our own files: both d, both z, then the numbers; byte i has
// number 2 i in its lower bits and number 2 i + 1 in its upper bits.
//% set BLOCK, BYTES, STEP, OFFSET = 32, 32, 16, false
//% set VEC, PARTS, HIGH, WORDS, SHARE = 4, 1, 0, 4, 1
//% set BITS, BIAS, WORD_BIAS = 4, 0, 0
//% set ZERO = "any"

//% macro scales()
fn scales_of(s: Scales, j: u32) -> vec2<f32> { return bitcast<vec2<f32>>(vec2<u32>(s.word0, s.word1)); }
fn zeros_of(s: Scales, j: u32) -> vec2<f32> { return bitcast<vec2<f32>>(vec2<u32>(s.word2, s.word3)); }
//% endmacro

//% macro reading()
fn file_number(at: u32, i: u32) -> u32 { return (raw_byte(at + 16u + (i >> 1u)) >> ((i & 1u) << 2u)) & 15u; }
fn file_record(at: u32, k: u32) -> u32 { return raw_word(at + 4u * k); }
//% endmacro

//% macro writing()
fn file_byte(b: u32) -> u32 {
  if (b < 16u) { return (record(b >> 2u) >> (8u * (b & 3u))) & 0xffu; }
  return number(2u * b - 32u) | (number(2u * b - 31u) << 4u);
}
//% endmacro
