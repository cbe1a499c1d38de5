// expect: tint 5 cannot be represented
// expect: lint:PK011 5 write 0x1.fffffep+127f
@group(0) @binding(0) var<storage, read_write> dst: array<f32, 4>;
@compute @workgroup_size(1)
fn main() { dst[1] = -3.4028235e38f; }
