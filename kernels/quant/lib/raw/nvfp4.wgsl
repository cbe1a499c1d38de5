// NVFP4: numbers of 4 bits (e2m1); each 16 numbers have a scale of 8 bits (e4m3 without its sign).
// In a file: four scales, then 8 bytes for each 16 numbers, with the first 8 numbers in the lower
// halves of the bytes. As in ggml, the numbers are doubled and the scales halved, and a scale that
// is a NaN counts as 0.
//% set BLOCK, BYTES, ENTRY = 64, 36, 0

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let bits = raw_byte(at + (i >> 2u)) & 0x7fu;
  let small = f32(bits) * 0x1p-10f;
  let normal = bitcast<f32>((bits << 20u) + (119u << 23u));
  let whole = raw_byte(at + (i >> 2u)) == 0x7fu;
  let scale = select(select(normal, small, bits < 8u), 0.0f, whole);
  let bytes = bytes_of(raw_word(at + 4u + (i >> 2u) * 8u + (i & 1u) * 4u)) >> vec4<u32>((i & 2u) << 1u);
  let e = (bytes >> vec4<u32>(1u)) & vec4<u32>(3u);
  let m = bytes & vec4<u32>(1u);
  let size = select((m + 2u) << (max(e, vec4<u32>(1u)) - 1u), m, e == vec4<u32>(0u));
  let q = select(vec4<i32>(size), -vec4<i32>(size), (bytes & vec4<u32>(8u)) != vec4<u32>(0u));
  return scale * vec4<f32>(q);
}
//% endmacro
