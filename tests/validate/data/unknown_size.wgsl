// limits:
// expect: lint:PK003 5 cannot tell what pairs adds to the bytes of workgroup memory
struct Pair { @size(8) key: u32, value: f32 }
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
var<workgroup> pairs: array<Pair, 64>;
@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    pairs[lid.x] = Pair(lid.x, 1.0);
    dst[lid.x] = pairs[lid.x].value;
}
