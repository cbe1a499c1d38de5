// Moves particles along the flow of vortices, in place: a step of the midpoint method. A vortex is
// x, y, its strength (positive: counterclockwise) and the radius of its core.

struct Params { positions_offset: u32, vortices_offset: u32, n: u32, count: u32, step: f32 }

@group(0) @binding(0) var<storage, read_write> positions: array<f32>; // x, y, z of each particle
@group(0) @binding(1) var<storage, read> vortices: array<f32>;
@group(0) @binding(2) var<uniform> p: Params;

fn velocity(at: vec2f) -> vec2f {
  var sum = vec2f(0.0);
  for (var k = 0u; k < p.count; k++) {
    let v = p.vortices_offset + 4u * k;
    let d = at - vec2f(vortices[v], vortices[v + 1u]);
    let core = vortices[v + 3u];
    sum += vortices[v + 2u] / (dot(d, d) + core * core) * vec2f(-d.y, d.x);
  }
  return sum;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.n) { return; }
  let i = p.positions_offset + 3u * id.x;
  let at = vec2f(positions[i], positions[i + 1u]);
  let middle = at + 0.5 * p.step * velocity(at);
  let moved = at + p.step * velocity(middle);
  positions[i] = moved.x;
  positions[i + 1u] = moved.y;
}
