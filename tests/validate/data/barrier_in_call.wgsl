// expect: tint 6 'workgroupBarrier' must only be called from uniform control flow
// expect: lint:PK007 15 total in a branch that only some invocations take (line 15)
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
var<workgroup> tile: array<f32, 64>;

fn total(li: u32) -> f32 { workgroupBarrier(); return tile[63u - li]; }

struct In {
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_id) id: vec3<u32>,
}
@compute @workgroup_size(64)
fn main(in: In) {
    tile[in.id.x] = f32(in.group.x);
    if (in.id.x < 32u) { dst[in.id.x] = total(in.id.x); }
}
