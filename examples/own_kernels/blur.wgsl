// Blurs a picture of four channels along one axis with 2 radius + 1 weights. It blurs only the
// light above the level `above`: max(pixel - above, 0). Beyond the edges, the pixels of the edge
// repeat. A workgroup computes a segment of 128 pixels of one line: it loads the segment and a halo
// of `radius` pixels on both sides into its memory first.

struct Params {
  picture_offset: u32, weights_offset: u32, out_offset: u32,
  size: u32, // pixels of a line
  step: u32, // pixels from one pixel of a line to the next: 1 along rows, the width along columns
  next: u32, // pixels from one line to the next
  radius: u32, // at most 64
  above: f32,
}

@group(0) @binding(0) var<storage, read> picture: array<f32>;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> p: Params;

const SEGMENT = 128u;
const HALO = 64u;
var<workgroup> line: array<vec4f, SEGMENT + 2u * HALO>;

@compute @workgroup_size(SEGMENT)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) t: u32) {
  let first = i32(group.x * SEGMENT) - i32(p.radius);
  for (var i = t; i < SEGMENT + 2u * p.radius; i += SEGMENT) {
    let at = u32(clamp(first + i32(i), 0, i32(p.size) - 1));
    let source = p.picture_offset + 4u * (group.y * p.next + at * p.step);
    let pixel = vec4f(
      picture[source], picture[source + 1u], picture[source + 2u], picture[source + 3u],
    );
    line[i] = max(pixel - p.above, vec4f(0.0));
  }
  workgroupBarrier();
  let at = group.x * SEGMENT + t;
  if (at >= p.size) { return; }
  var sum = vec4f(0.0);
  for (var k = 0u; k <= 2u * p.radius; k++) {
    sum += weights[p.weights_offset + k] * line[t + k];
  }
  let to = p.out_offset + 4u * (group.y * p.next + at * p.step);
  out[to] = sum.x;
  out[to + 1u] = sum.y;
  out[to + 2u] = sum.z;
  out[to + 3u] = sum.w;
}
