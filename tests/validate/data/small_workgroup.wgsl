// limits: max_size_x=64 max_bind_groups=1
// expect: lint:PK013 5 other has group 1, but they end at 0
// expect: lint:PK012 7 128 invocations along x, but the declared limit is 64
@group(0) @binding(0) var<storage, read_write> dst: array<f32, 256>;
@group(1) @binding(0) var<uniform> other: vec4<f32>;

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) li: u32) { dst[li] = other.x; }
