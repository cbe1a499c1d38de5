// expect: naga 7 automatic conversions cannot convert elements of `u32` to `f32`
// expect: tint 7 cannot assign 'u32' to 'f32'
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    // Grüße: bytes before the error that are not characters
    dst[lid.x] = 1u;
}
