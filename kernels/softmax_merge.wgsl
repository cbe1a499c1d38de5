// /// kernel
// doc = "Maximum and sum of a long row from those of its pieces, sinks included."
// part_of = "softmax"
// axes.WG = [256]
// pick.WG = "256"
// inputs.pieces_stats = { dtype = "f32", doc = "(rows, pieces, 3)" }
// inputs.sinks = { dtype = "f32", optional = true }
// outputs.stats = { dtype = "f32", doc = "(rows, 3): maximum, sum, flags" }
// params.pieces = { type = "u32" }
// params.head_rows = { type = "u32" }
// params.heads = { type = "u32" }
// params.sink_step = { type = "u32", value = "sinks.strides[0] // 4 if sinks else 0" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// uses = ["logits", "reduce"]
// grid = "stats.shape[0]"
// ///

// One workgroup per row.
${logits.weights(1)}
${reduce.memory("red_a", "f32", WG)}
${reduce.memory("red_b", "f32", WG)}
${reduce.memory("flag_a", "u32", WG)}
${reduce.memory("flag_b", "u32", WG)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_id(wg);
  if (row >= p.groups) { return; }
  let slot = lane;
  let base = p.pieces_stats_off + row * p.pieces * 3u;
  var m = LOWEST;
  var flags = 0u;
  for (var i = lane; i < p.pieces; i += WG) {
    m = max(m, pieces_stats_load(base + i * 3u));
    flags |= u32(pieces_stats_load(base + i * 3u + 2u));
  }
  var sink = LOWEST;
  if (p.has_sinks == 1u) {
    sink = sinks_load(p.sinks_off + ((row / p.head_rows) % p.heads) * p.sink_step);
    flags |= flags_of(sink) & 2u;
    m = max(m, sink);
  }
  ${reduce.lanes("m", "max", "red_a", "red_b", WG)}
  ${reduce.lanes("flags", "|", "flag_a", "flag_b", WG)}
  var sum = 0.0f;
  for (var i = lane; i < p.pieces; i += WG) {
    sum += pieces_stats_load(base + i * 3u + 1u) * weight(pieces_stats_load(base + i * 3u) - m);
  }
  ${reduce.lanes("sum", "+", "red_a", "red_b", WG)}
  if (p.has_sinks == 1u) { sum += weight(sink - m); }
  if (lane == 0u) {
    let at = p.stats_off + row * 3u;
    stats_store(at, m);
    stats_store(at + 1u, sum);
    stats_store(at + 2u, f32(flags));
  }
}
