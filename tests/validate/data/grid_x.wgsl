// expect: lint:PK009 4 main reads only x of the grid: at most 65535 workgroups of 64 invocations
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= arrayLength(&dst)) { return; }
    dst[id.x] = 1.0;
}
