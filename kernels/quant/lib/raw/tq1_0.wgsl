// TQ1_0: d times -1, 0 or 1. In a file: 32 bytes with five numbers each, 16 bytes with five numbers
// each, 4 bytes with four numbers each, then d as a half. A byte divided by 256 is a fraction whose
// digits in base 3 are the numbers plus 1.
//% set BLOCK, BYTES, ENTRY = 256, 54, 0

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  var first = 4u * (i & 7u);
  var digit = i >> 3u;
  if (i >= 60u) {
    first = 48u;
    digit = i - 60u;
  } else if (i >= 40u) {
    first = 32u + 4u * (i & 3u);
    digit = (i - 40u) >> 2u;
  }
  let bytes = bytes_of(raw_word(at + first));
  var power = 1u;
  for (var k = 0u; k < digit; k++) { power *= 3u; }
  let q = (((bytes * power) & vec4<u32>(0xffu)) * 3u) >> vec4<u32>(8u);
  return raw_float(at + 52u) * (vec4<f32>(q) - 1.0f);
}
//% endmacro
