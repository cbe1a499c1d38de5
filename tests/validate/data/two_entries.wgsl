// limits: max_workgroup_storage=1024 max_storage_buffers=1
@group(0) @binding(0) var<storage, read_write> one: array<f32, 256>;
@group(0) @binding(1) var<storage, read_write> two: array<f32, 256>;
var<workgroup> first: array<f32, 256>;
var<workgroup> second: array<f32, 256>;

@compute @workgroup_size(64)
fn a(@builtin(local_invocation_index) li: u32) { first[li] = 1.0; one[li] = first[li]; }
@compute @workgroup_size(64)
fn b(@builtin(local_invocation_index) li: u32) { second[li] = 1.0; two[li] = second[li]; }
