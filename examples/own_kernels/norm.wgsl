// The Euclidean norm of x: a reduction over workgroups. Each workgroup of `partial` writes a sum of
// squares, and one workgroup of `finish` adds these sums and takes the root.

struct Params { x_offset: u32, out_offset: u32, n: u32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> p: Params;

const T = 256u;
var<workgroup> sums: array<f32, T>;

// Adds the values of all invocations of a workgroup; only invocation 0 gets the sum.
fn added(t: u32, value: f32) -> f32 {
  sums[t] = value;
  for (var half = T / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (t < half) { sums[t] += sums[t + half]; }
  }
  return sums[t];
}

@compute @workgroup_size(T)
fn partial(
  @builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) t: u32,
) {
  var sum = 0.0;
  for (var i = group.x * T + t; i < p.n; i += groups.x * T) {
    let value = x[p.x_offset + i];
    sum += value * value;
  }
  let whole = added(t, sum);
  if (t == 0u) { out[p.out_offset + group.x] = whole; }
}

@compute @workgroup_size(T)
fn finish(@builtin(local_invocation_index) t: u32) {
  var sum = 0.0;
  for (var i = t; i < p.n; i += T) { sum += x[p.x_offset + i]; }
  let whole = added(t, sum);
  if (t == 0u) { out[p.out_offset] = sqrt(whole); }
}
