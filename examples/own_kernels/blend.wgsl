// out = a + share * (b - a). The entry point masked has an optional input: an element's share is
// multiplied by its mask. Both entry points have one struct: an offset that is not used is 0.

struct Params {
  a_offset: u32, b_offset: u32, mask_offset: u32, out_offset: u32,
  n: u32,
  share: f32,
}

@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read> mask: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> p: Params;

fn blend(i: u32, share: f32) {
  let start = a[p.a_offset + i];
  out[p.out_offset + i] = start + share * (b[p.b_offset + i] - start);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < p.n) { blend(id.x, p.share); }
}

@compute @workgroup_size(64)
fn masked(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < p.n) { blend(id.x, p.share * mask[p.mask_offset + id.x]); }
}
