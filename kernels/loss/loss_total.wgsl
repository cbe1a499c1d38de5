// /// kernel
// doc = "The sum or the mean of losses, or the sums of pieces of the losses."
// part_of = "cross_entropy"
// configs.terms = { threads = 256 }
// axes.SIZE = { values = "configs", pick = "'terms'" }
// inputs.losses = { dtype = "f32", doc = "(count, 2), contiguous: a loss, and its weight in a mean" }
// outputs.total = { dtype = "f32", optional = true, doc = "(): the divisor of the mean" }
// outputs.dst = { dtype = "f32", doc = "(): the result; or for pieces (pieces, 2)" }
// params.count = { type = "u32", value = "losses.shape[0]" }
// params."depth is_partial is_mean" = { type = "u32" }
// params.has_total = { type = "u32", value = "1 if total else 0" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// grid = "max(cdiv(losses.shape[0], depth), 1)"
// ///

//% set WG = CFG.threads
// One workgroup takes `depth` losses; if there are no losses, there is one workgroup.
var<workgroup> sums: array<vec2<f32>, ${WG}>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let end = min((g + 1u) * p.depth, p.count);
  var sum = vec2<f32>();
  for (var i = g * p.depth + li; i < end; i += ${WG}u) {
    let at = p.losses_off + i * 2u;
    sum += vec2<f32>(losses_load(at), losses_load(at + 1u));
  }
  sums[li] = sum;
  workgroupBarrier();
  for (var half = ${WG // 2}u; half > 0u; half >>= 1u) {
    if (li < half) {
      sum += sums[li + half];
      sums[li] = sum;
    }
    workgroupBarrier();
  }
  if (li > 0u) { return; }
  if (p.is_partial == 1u) {
    dst_store(p.dst_off + g * 2u, sum.x);
    dst_store(p.dst_off + g * 2u + 1u, sum.y);
    return;
  }
  if (p.has_total == 1u) { total_store(p.total_off, sum.y); }
  // The mean of no losses is NaN. It is set explicitly, because 0 / 0 is not NaN on every driver.
  let nothing = (sum.y == 0.0f) & (sum.x == 0.0f);
  let mean = select(sum.x / sum.y, bitcast<f32>(p.nan), nothing);
  dst_store(p.dst_off, select(sum.x, mean, p.is_mean == 1u));
}
