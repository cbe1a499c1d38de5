// Float8 e4m3 with scales of 128 x 128 numbers. A block is a float32 scale, followed by 128 bytes
// with the numbers of a row that it scales. `QTensor.from_float8` makes such blocks.
//% set BLOCK, BYTES, ENTRY = 128, 132, 0

//% macro functions()
fn four(at: u32, i: u32) -> vec4<f32> {
  let bytes = bytes_of(raw_word(at + 4u + 4u * i));
  let bits = bytes & vec4<u32>(0x7fu);
  let small = bitcast<vec4<u32>>(vec4<f32>(bits) * 0x1p-9f);
  let normal = (bits << vec4<u32>(20u)) + (120u << 23u);
  let size = select(
    select(normal, small, bits < vec4<u32>(8u)), vec4<u32>(0x7fc00000u), bits == vec4<u32>(0x7fu));
  let q = bitcast<vec4<f32>>(size | ((bytes & vec4<u32>(0x80u)) << vec4<u32>(24u)));
  return bitcast<f32>(raw_word(at)) * q;
}
//% endmacro
