// /// kernel
// doc = "The maximum, and the sum of the weights, of one piece of a row of logits."
// part_of = "categorical"
// configs.piece256 = { threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(logits)" }
// axes.SIZE = { values = "configs", pick = "'piece256'" }
// inputs.logits = { dtype = "T" }
// outputs.stats = { dtype = "f32", index = false, doc = "(rows, pieces, 2): maximum and sum; the sum is below 0 if there is a NaN or +inf" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols" }
// params."pieces each" = { type = "u32" }
// params.temperature = { type = "f32", arg = true }
// uses = ["logits", "reduce"]
// grid = "it.rows * pieces"
// ///

// One workgroup takes a piece of `each` elements, which is a multiple of the number of invocations.
// Neighbouring invocations take neighbouring elements.
${logits.functions(1)}
${reduce.memory(CFG.threads, CFG.threads)}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g / p.pieces;
  let first = (g - row * p.pieces) * p.each + lane;
  let slot = lane;
  let base = logits_row(row);
  var m = LOWEST;
  var bad = 0.0f;
  for (var c = first; c < first + p.each; c += ${CFG.threads}u) {
    let x = logits_load(logits_at(base, min(c, p.cols - 1u)));
    m = max(m, x);
    bad = select(bad, 1.0f, is_bad(x));
  }
  ${reduce.lanes("m", "max", CFG.threads)}
  var sum = 0.0f;
  for (var c = first; c < first + p.each; c += ${CFG.threads}u) {
    let x = logits_load(logits_at(base, min(c, p.cols - 1u)));
    sum += select(0.0f, exp_shifted((x - m) / p.temperature), c < p.cols);
  }
  ${reduce.lanes("sum", "+", CFG.threads, again=true)}
  ${reduce.lanes("bad", "max", CFG.threads, again=true)}
  if (lane == 0u) {
    stats_store(p.stats_off + g * 2u, m);
    stats_store(p.stats_off + g * 2u + 1u, select(sum, -1.0f, bad > 0.0f));
  }
}
