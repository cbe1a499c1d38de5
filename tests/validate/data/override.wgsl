// expect: lint:PK001 3 const text
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
override WG = 64;
@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    dst[lid.x] = 1.0;
}
