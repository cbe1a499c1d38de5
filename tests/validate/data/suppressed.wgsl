// pykernels: ignore-file PK009
// expect: lint:PK002 8 override COUNT
@group(0) @binding(0) var<storage, read_write> dst: array<f32>;
override WG = 64;  // pykernels: ignore PK001
// pykernels: ignore
override SCALE = 2.0;
// pykernels: ignore PK001 (not the code of the next line)
override COUNT = 2u;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) { dst[id.x] = SCALE * f32(COUNT); }
