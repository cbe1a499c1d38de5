// expect: naga:translate-hlsl 1 No bind target was defined for the immediates block
struct Params { scale: f32 }
var<immediate> params: Params;
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    dst[lid.x] *= params.scale;
}
