// y = v / (1 + |v|) with v = gain * x. Elements are f16 in memory, the arithmetic is f32.
enable f16;

struct Params { x_offset: u32, y_offset: u32, n: u32, gain: f32 }

@group(0) @binding(0) var<storage, read> x: array<f16>;
@group(0) @binding(1) var<storage, read_write> y: array<f16>;
@group(0) @binding(2) var<uniform> p: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.n) { return; }
  let v = p.gain * f32(x[p.x_offset + id.x]);
  y[p.y_offset + id.x] = f16(v / (1.0 + abs(v)));
}
