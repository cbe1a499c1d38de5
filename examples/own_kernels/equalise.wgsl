// Equalises the histogram of a picture with brightness 0 to 1. `count` counts the pixels of each of
// 256 levels: a workgroup counts in its own memory first, then adds to `counts`. `spread` assigns
// to each level the share of pixels up to this level, without the pixels of the darkest level; each
// workgroup computes the running sum of the 256 counts itself.

struct Params { picture_offset: u32, counts_offset: u32, levels_offset: u32, out_offset: u32, n: u32 }

@group(0) @binding(0) var<storage, read> picture: array<f32>;
@group(0) @binding(1) var<storage, read_write> counts: array<atomic<u32>>;
@group(0) @binding(2) var<storage, read> levels: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<uniform> p: Params;

const LEVELS = 256u;
var<workgroup> own: array<atomic<u32>, LEVELS>;
var<workgroup> below: array<u32, LEVELS>;
var<workgroup> darkest: u32;

fn level(i: u32) -> u32 {
  return u32(clamp(picture[p.picture_offset + i], 0.0, 1.0) * 255.0 + 0.5);
}

@compute @workgroup_size(LEVELS)
fn count(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) t: u32,
) {
  atomicStore(&own[t], 0u);
  workgroupBarrier();
  for (var i = group.x * LEVELS + t; i < p.n; i += groups.x * LEVELS) {
    atomicAdd(&own[level(i)], 1u);
  }
  workgroupBarrier();
  atomicAdd(&counts[p.counts_offset + t], atomicLoad(&own[t]));
}

@compute @workgroup_size(LEVELS)
fn spread(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) t: u32,
) {
  let mine = levels[p.levels_offset + t];
  var sum = mine;  // the sum of the levels up to t
  for (var step = 1u; step < LEVELS; step *= 2u) {
    below[t] = sum;
    workgroupBarrier();
    if (t >= step) { sum += below[t - step]; }
    workgroupBarrier();  // before the others write again
  }
  below[t] = sum;
  if (mine > 0u && sum == mine) { darkest = mine; }  // the first level that has pixels
  workgroupBarrier();
  let rest = max(p.n - darkest, 1u);
  for (var i = group.x * LEVELS + t; i < p.n; i += groups.x * LEVELS) {
    out[p.out_offset + i] = f32(below[level(i)] - darkest) / f32(rest);
  }
}
