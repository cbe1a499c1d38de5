// expect: lint:PK002 4 override SCALE: what is checked and translated here has its default value
// expect: lint:PK001 5 HALF sizes a workgroup
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
override SCALE: f32 = 2.0;
override HALF = 32;
override WG = HALF * 2;
// pykernels: ignore-file PK009
// expect: lint:PK001 6 WG sizes a workgroup
@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_id) id: vec3<u32>) { dst[id.x] = SCALE; }
