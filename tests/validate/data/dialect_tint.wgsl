// expect: naga 5 invalid left-hand side of assignment
// expect: lint:PK010 5 naga refuses an assignment to .xy
@group(0) @binding(0) var<storage, read_write> dst: vec4<f32>;
@compute @workgroup_size(1)
fn main() { var v = vec4<f32>(); v.xy = vec2<f32>(1.0); dst = v; if (v.xy.x == 1.0) { dst.x = 2.0; } }
