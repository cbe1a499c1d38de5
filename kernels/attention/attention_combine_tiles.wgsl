// /// kernel
// doc = "Combines a few splits of the keys of many rows by their lse, and adds the sinks."
// part_of = "flash_attn"
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.WG = { values = [256], pick = "256" }
// inputs.partials = { dtype = "f32", doc = "(splits, rows, padded value depth)" }
// inputs.sums = { dtype = "f32", doc = "(splits, rows): lse of each split" }
// inputs.sinks = { dtype = "f32", optional = true, axes = "h" }
// outputs.lse = { dtype = "f32", axes = "b h s" }
// outputs.dst = { dtype = "D", axes = "b h s d" }
// params."splits rows width first_row" = { type = "u32" }
// params.heads = { type = "u32", value = "dst.shape[1]" }
// params.queries = { type = "u32", value = "dst.shape[2]" }
// params.value_depth = { type = "u32", value = "dst.shape[3]" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// uses = ["combine"]
// grid = "cdiv(rows, WG // 32)"
// ///

// 32 invocations take a row; rows are counted over batches, heads and queries from `first_row` on.
// Neighbouring invocations take neighbouring columns. Each invocation loads four columns, 32 apart,
// at a time, so that the loads overlap. Memory traffic bounds the time: the partial results are
// read once, and the rows are written once.
${combine.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g * (WG / 32u) + (li >> 5u);
  if (row >= p.rows) { return; }
  let lane = li & 31u;
  let of_batch = (p.first_row + row) / p.queries;
  let query = p.first_row + row - of_batch * p.queries;
  let batch = of_batch / p.heads;
  let head = of_batch - batch * p.heads;

  // lse is -inf if the split has no key; NaN and +inf make the row NaN.
  var m = LOWEST;
  var lost = false;
  for (var s = 0u; s < p.splits; s += 1u) {
    let lse = sums_load(p.sums_off + s * p.rows + row);
    m = max(m, select(lse, LOWEST, is_lost(lse)));
    lost |= is_lost(lse) & (bitcast<u32>(lse) != 0xff800000u);
  }
  var l = 0.0f;
  for (var s = 0u; s < p.splits; s += 1u) {
    let lse = sums_load(p.sums_off + s * p.rows + row);
    l += select(exp_shifted(lse - m), 0.0f, is_lost(lse));
  }
  ${combine.add_sink()}

  let nan = bitcast<f32>(p.nan);
  let to = p.dst_off + batch * p.dst_bs + head * p.dst_hs + query * p.dst_ss;
  for (var c = lane; c < p.value_depth; c += 128u) {
//% for u in range(4)
    var v${u} = 0.0f;
    let at${u} = p.partials_off + row * p.width + min(c + ${32 * u}u, p.value_depth - 1u);
//% endfor
    for (var s = 0u; s < p.splits; s += 1u) {
      let lse = sums_load(p.sums_off + s * p.rows + row);
//% for u in range(4)
      let x${u} = partials_load(at${u} + s * p.rows * p.width);
//% endfor
      let w = select(exp_shifted(lse - m) * factor, 0.0f, is_lost(lse));
//% for u in range(4)
      v${u} = fma(x${u}, w, v${u});
//% endfor
    }
//% for u in range(4)
    if (c + ${32 * u}u < p.value_depth) { dst_store(to + (c + ${32 * u}u) * p.dst_ds, select(v${u}, nan, lost)); }
//% endfor
  }
  if (lane == 0u) {
    let lse = select(new_max + log(total), bitcast<f32>(p.minus_inf), empty);
    lse_store(p.lse_off + batch * p.lse_bs + head * p.lse_hs + query * p.lse_ss, select(lse, nan, lost));
  }
}
