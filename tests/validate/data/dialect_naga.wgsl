// expect: tint 5 cannot be represented
// expect: lint:PK011 5 it is not finite
@group(0) @binding(0) var<storage, read_write> dst: array<f32, 4>;
@compute @workgroup_size(1)
fn main() { dst[0] = bitcast<f32>(0x7f800000u); dst[2] = bitcast<f32>(0x7f7fffffu); }
