// expect: lint:PK007 11 workgroupBarrier after a return of some invocations (line 9)
// expect: tint 11 'workgroupBarrier' must only be called from uniform control flow
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
var<workgroup> tile: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    tile[lid.x] = dst[lid.x];
    if (lid.x > 3u) { return; }
    // naga lets this barrier pass
    workgroupBarrier();
    dst[lid.x] = tile[63u - lid.x];
}
