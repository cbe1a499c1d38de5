// expect: tint 8 code is unreachable
// limits:
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    dst[lid.x] = 1.0;
    return;
    dst[lid.x] = 2.0;
}
