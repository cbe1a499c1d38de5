// /// kernel
// doc = "Split-K: the sum over the splits of partial sums, times a factor."
// part_of = "conv2d_backward_weight"
// axes.D = ["f32", "f16"]
// axes.WG = [256]
// pick.D = "dtype(dst)"
// pick.WG = "256"
// inputs.partials = { dtype = "f32", index = false, doc = "(splits, elements of dst)" }
// outputs.dst = { dtype = "D" }
// iterate = "nd"
// params.splits = { type = "u32" }
// params.scale = { type = "f32", arg = true }
// grid = "cdiv(it.total, 32)"
// ///

// 32 elements of dst a workgroup, eight invocations for each: every eighth split, four at a time,
// then a tree. No splits: the sum is 0.
//% set UNROLL = 4
var<workgroup> shared_sums: array<array<f32, 32>, 8>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lane = li & 31u;
  let part = li >> 5u;
  let i = g * 32u + lane;
  let start = p.partials_off + min(i, p.total - 1u);
  var sum = 0.0f;
  for (var s = part; s < p.splits; s += ${8 * UNROLL}u) {
//% for u in range(UNROLL)
    let v${u} = partials_load(start + min(s + ${8 * u}u, p.splits - 1u) * p.total);
//% endfor
    sum += (v0 + select(0.0f, v1, s + 8u < p.splits)) + (select(0.0f, v2, s + 16u < p.splits) + select(0.0f, v3, s + 24u < p.splits));
  }
  shared_sums[part][lane] = sum;
  workgroupBarrier();
//% for half in (4, 2, 1)
  if (part < ${half}u) { shared_sums[part][lane] += shared_sums[part + ${half}u][lane]; }
  workgroupBarrier();
//% endfor
  if ((part == 0u) & (i < p.total)) { dst_store(dst_index(i), shared_sums[0][lane] * p.scale); }
}
