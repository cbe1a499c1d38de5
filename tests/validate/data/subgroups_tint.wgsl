// expect: lint:PK010 3 naga refuses enable subgroups
// expect: naga 3 the `subgroups` enable-extension is not yet supported
enable subgroups;
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    dst[lid.x] = subgroupAdd(dst[lid.x]);
}
