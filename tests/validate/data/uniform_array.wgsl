// expect: naga 4 is not a multiple of the required alignment
// naga 29 keeps WGSL's first rule for arrays in uniform memory, Tint the relaxed one.
struct Pair { a: array<f32, 2> }
@group(0) @binding(0) var<uniform> pair: Pair;
@group(0) @binding(1) var<storage, read_write> dst: array<f32>;
@compute @workgroup_size(1)
fn main() { dst[0] = pair.a[1]; }
