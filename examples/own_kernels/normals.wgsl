// Brings vectors of three numbers to length 1, in place. A vector of zeros stays.

struct Params { normals_offset: u32, n: u32 }

@group(0) @binding(0) var<storage, read_write> normals: array<f32>;
@group(0) @binding(1) var<uniform> p: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.n) { return; }
  let at = p.normals_offset + 3u * id.x;
  let v = vec3f(normals[at], normals[at + 1u], normals[at + 2u]);
  let size = length(v);
  if (size > 0.0) {
    normals[at] = v.x / size;
    normals[at + 1u] = v.y / size;
    normals[at + 2u] = v.z / size;
  }
}
