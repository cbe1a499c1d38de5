// limits:
// expect: lint:PK003 9 16640 bytes of workgroup memory, but the declared limit is 16384
// expect: tint 11 storage (16640 bytes) is larger than the maximum allowed (16384 bytes)
enable f16;
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
const SIDE = 128u / 2u;
var<workgroup> unused: array<f32, 9999>;
var<workgroup> square: array<array<f32, SIDE>, SIDE>;
var<workgroup> line: array<vec2<f16>, SIDE>;

@compute
@workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    square[lid.x][0] = dst[lid.x];
    line[lid.x] = vec2h(1.0);
    workgroupBarrier();
    dst[lid.x] = square[0][lid.x] + f32(line[3].x);
}
