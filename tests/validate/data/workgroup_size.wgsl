// limits: max_invocations=128
// expect: lint:PK004 7 512 invocations in a workgroup of main, but the declared limit is 128
// expect: tint 7 512
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
const WG: u32 = 0x20u;

@compute @workgroup_size(WG * 2u, 8)
fn main(@builtin(local_invocation_index) i: u32) {
    dst[i] = 1.0;
}
