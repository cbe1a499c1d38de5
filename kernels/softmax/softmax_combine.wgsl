// /// kernel
// doc = "Computes the maximum and sum of a long row from the maxima and sums of its pieces, and from the sinks."
// part_of = "softmax"
// axes.WG = { values = [256], pick = "256" }
// inputs.pieces_stats = { dtype = "f32", doc = "(rows, pieces, 2): maximum, sum" }
// inputs.sinks = { dtype = "f32", optional = true }
// outputs.stats = { dtype = "f32", doc = "(rows, 3): maximum over the keys, maximum that is subtracted, sum" }
// params."pieces head_rows heads first_head" = { type = "u32" }
// params.sink_step = { type = "u32", value = "(sinks.strides[0] // 4 if sinks else 0) & 0xffffffff" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.plus_inf = { type = "u32", value = "0x7f800000" }
// uses = ["logits", "reduce"]
// grid = "stats.shape[0]"
// ///

// One workgroup takes one row.
${logits.functions(1)}
${reduce.memory(WG, WG)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_id(wg);
  if (row >= p.groups) { return; }
  let slot = lane;
  let base = p.pieces_stats_off + row * p.pieces * 2u;
  var row_max = pieces_stats_load(base);
  for (var i = lane; i < p.pieces; i += WG) { row_max = max(row_max, pieces_stats_load(base + i * 2u)); }
  ${reduce.lanes("row_max", "max", WG)}
  var m = finite(row_max);
  var sink = 0.0f;
  if (p.has_sinks == 1u) {
    sink = sinks_load(p.sinks_off + (p.first_head + (row / p.head_rows) % p.heads) * p.sink_step);
    m = max(m, sink);
  }
  var row_sum = 0.0f;
  for (var i = lane; i < p.pieces; i += WG) {
    row_sum += pieces_stats_load(base + i * 2u + 1u) * exp_shifted(finite(pieces_stats_load(base + i * 2u)) - m);
  }
  ${reduce.lanes("row_sum", "+", WG, again=true)}
  if (p.has_sinks == 1u) { row_sum += exp_shifted(sink - m); }
  if (lane == 0u) {
    let at = p.stats_off + row * 3u;
    let bad_sink = (p.has_sinks == 1u) & is_bad(sink);
    stats_store(at, select(row_max, bitcast<f32>(p.plus_inf), bad_sink));
    stats_store(at + 1u, m);
    stats_store(at + 2u, row_sum);
  }
}
