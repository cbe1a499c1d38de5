// expect: lint:PK011 6 Tint refuses subgroup built-ins without enable subgroups
// expect: tint:lacks 6 no subgroup built-ins without `enable subgroups;`
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    dst[lid.x] = subgroupAdd(dst[lid.x]);
}
