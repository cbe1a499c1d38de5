// expect: naga 6 expected expression, found ";"
// expect: tint 6 unable to parse right side of + expression
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    dst[lid.x] = 1.0 +;
}
