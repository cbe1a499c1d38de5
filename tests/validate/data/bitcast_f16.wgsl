// expect: lint:PK006 10 naga types bitcast<Half2> as f32
// expect: lint:PK006 11 naga types bitcast<vec4<f16>> as f32
enable f16;
alias Half2 = vec2<f16>;
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
@group(0) @binding(1) var<storage, read> src: array<vec2<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    let pair = bitcast<Half2>(src[lid.x].x);
    let quad = bitcast< vec4<f16> >(src[lid.x]);
    dst[lid.x] = f32(quad.y);
    _ = pair;
}
