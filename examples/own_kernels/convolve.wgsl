// Filters a picture with a window of (2 RADIUS + 1) x (2 RADIUS + 1) weights (a correlation, as in
// neural networks); beyond the edges, the pixels of the edge repeat. A workgroup computes 16 x 16
// pixels: it loads them and a halo of RADIUS around them into its memory first.

struct Params {
  picture_offset: u32, weights_offset: u32, out_offset: u32,
  width: u32,
  height: u32,
}

@group(0) @binding(0) var<storage, read> picture: array<f32>;
@group(0) @binding(1) var<storage, read> weights: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> p: Params;

override RADIUS: u32 = 1u;
const TILE = 16u;
var<workgroup> tile: array<f32, (TILE + 2u * RADIUS) * (TILE + 2u * RADIUS)>;

@compute @workgroup_size(TILE, TILE)
fn main(
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u,
  @builtin(local_invocation_index) t: u32,
) {
  let side = TILE + 2u * RADIUS;
  let first = vec2i(group.xy * TILE) - i32(RADIUS);
  let last = vec2i(i32(p.width), i32(p.height)) - 1;
  for (var i = t; i < side * side; i += TILE * TILE) {
    let at = vec2u(clamp(first + vec2i(vec2u(i % side, i / side)), vec2i(0), last));
    tile[i] = picture[p.picture_offset + at.y * p.width + at.x];
  }
  workgroupBarrier();
  let pixel = group.xy * TILE + local.xy;
  if (pixel.x >= p.width || pixel.y >= p.height) { return; }
  let window = 2u * RADIUS + 1u;
  var sum = 0.0;
  for (var row = 0u; row < window; row++) {
    for (var col = 0u; col < window; col++) {
      let weight = weights[p.weights_offset + row * window + col];
      sum += weight * tile[(local.y + row) * side + local.x + col];
    }
  }
  out[p.out_offset + pixel.y * p.width + pixel.x] = sum;
}
