// The render passes of ../neon.py: `scene` draws tubes of neon on a wall of bricks, with light above
// 1, and `compose` adds the glow of this light and makes colours of the sum.

struct Tube { from_: vec2f, to: vec2f, light: vec4f } // ends in pixels

@group(0) @binding(0) var<storage, read> tubes: array<Tube>;
@group(0) @binding(0) var drawn: texture_2d<f32>;
@group(0) @binding(1) var glow: texture_2d<f32>;

@vertex
fn corner(@builtin(vertex_index) i: u32) -> @builtin(position) vec4f {
  // One triangle that covers the target.
  return vec4f(f32(i & 1u) * 4.0 - 1.0, f32(i >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}

fn brick(x: u32, y: u32) -> f32 {
  let row = y / 15u;
  let joint = y % 15u < 2u || (x + 20u * (row % 2u)) % 40u < 2u;
  return select(0.12, 0.05, joint);
}

@fragment
fn scene(@builtin(position) at: vec4f) -> @location(0) vec4f {
  var light = brick(u32(at.x), u32(at.y)) * vec4f(1.0, 0.7, 0.6, 0.0);
  for (var k = 0u; k < arrayLength(&tubes); k++) {
    let tube = tubes[k];
    let along = tube.to - tube.from_;
    let d = at.xy - tube.from_;
    let share = clamp(dot(d, along) / dot(along, along), 0.0, 1.0);
    let covered = clamp(4.0 - length(d - share * along), 0.0, 1.0); // 3.5 pixels around a line
    light = mix(light, tube.light, covered);
  }
  return light;
}

@fragment
fn compose(@builtin(position) at: vec4f) -> @location(0) vec4f {
  let pixel = vec2u(at.xy);
  let light = textureLoad(drawn, pixel, 0) + textureLoad(glow, pixel, 0);
  return vec4f(1.0 - exp(-light.rgb), 1.0);
}
