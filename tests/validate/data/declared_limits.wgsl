// limits: max_workgroup_storage=32768 max_invocations=1024
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
var<workgroup> tile: array<vec4f, 2048>;

@compute @workgroup_size(32, 32)
fn main(@builtin(local_invocation_index) i: u32) {
    tile[i] = vec4f(dst[i]);
    workgroupBarrier();
    dst[i] = tile[1023u - i].x;
}
