// /// kernel
// doc = "Split-K: adds up the partial sums of all splits, and multiplies by a factor."
// part_of = "conv2d_backward_weight"
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.WG = { values = [256], pick = "256" }
// inputs.partials = { dtype = "f32", index = false, doc = "(splits, rows, taps, channels)" }
// outputs.dst = { dtype = "D", doc = "(rows, channels, taps)" }
// iterate = "nd"
// params."splits lane_bits taps channels" = { type = "u32" }
// params.scale = { type = "f32", arg = true }
// uses = ["tile/split_k"]
// grid = "cdiv(it.total << lane_bits, WG)"
// ///

// Each element of dst has 2^lane_bits invocations, which share its splits. Elements are taken in
// the order of dst. So the reads are strided, but later reads find the same sectors in the cache;
// strided stores of single halves would be slow. If there are no splits, the sum is 0.
var<workgroup> partial: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let across = WG >> p.lane_bits;
  let lanes = 1u << p.lane_bits;
  let lane = li / across;
  let i = g * across + li - lane * across;
  let near = min(i, p.total - 1u);
  let row = near / (p.channels * p.taps);
  let in_row = near - row * p.channels * p.taps;
  let c = in_row / p.taps;
  let start = p.partials_off + row * p.channels * p.taps + (in_row - c * p.taps) * p.channels + c;
  var sum = 0.0f;
  for (var s = lane; s < p.splits; s += 4u * lanes) {
//% for u in range(4)
    let v${u} = partials_load(start + min(s + ${u}u * lanes, p.splits - 1u) * p.total);
//% endfor
    sum += (v0 + select(0.0f, v1, s + lanes < p.splits)) + (select(0.0f, v2, s + 2u * lanes < p.splits) + select(0.0f, v3, s + 3u * lanes < p.splits));
  }
  if (p.lane_bits > 0u) {
    partial[li] = sum;
    workgroupBarrier();
    ${split_k.tree("across")}
    sum = partial[li];
  }
  if ((lane == 0u) & (i < p.total)) { dst_store(dst_index(i), sum * p.scale); }
}
