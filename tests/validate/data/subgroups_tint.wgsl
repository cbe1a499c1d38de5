// expect: lint:PK010 3 naga 29 has no enable subgroups
// expect: naga:lacks 3 has no `enable subgroups`: checked without it
enable subgroups;
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    dst[lid.x] = subgroupAdd(dst[lid.x]);
}
