@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@group(0) @binding(1) var<storage, read_write> one: array<f32, 64>;

fn group_id(w: vec3<u32>) -> u32 { return w.x + (w.y << 15u); }

@compute @workgroup_size(64)
fn folded(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
    dst[group_id(wg) * 64u + li] = 1.0;
}
@compute @workgroup_size(64)
fn strided(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {
    for (var i = id.x; i < arrayLength(&dst); i += n.x * 64u) { dst[i] = 2.0; }
}
@compute @workgroup_size(8, 8)
fn plane(@builtin(global_invocation_id) id: vec3<u32>) { dst[id.y * 8u + id.x] = 3.0; }

@compute @workgroup_size(64)
fn alone(@builtin(local_invocation_index) li: u32) { one[li] = 1.0; }
