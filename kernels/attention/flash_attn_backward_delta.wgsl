// /// kernel
// doc = "The statistics of each query: lse, and delta = sum of do * o."
// part_of = "flash_attn_backward"
// axes.O = { values = ["f32", "f16"], pick = "dtype(o)" }
// axes.G = { values = ["f32", "f16"], pick = "dtype(do)" }
// axes.WG = { values = [256], pick = "256" }
// inputs.o = { dtype = "O", readonly = true, doc = "(batch, heads, queries, Dv)" }
// inputs.do = { dtype = "G", readonly = true, doc = "The same shape." }
// inputs.lse = { dtype = "f32", readonly = true, doc = "(batch, heads, queries), repeated along Dv" }
// outputs.stats = { dtype = "f32", index = false, doc = "(heads, padded, 2): lse (with +inf in place of -inf) and delta" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols" }
// params.queries = { type = "u32", value = "lse.shape[-2]" }
// params.padded = { type = "u32" }
// uses = ["reduce"]
// grid = "cdiv(it.rows, WG // 32)"
// ///

// 32 invocations take a query.
${reduce.memory(32, WG)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) slot: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lane = slot % 32u;
  let own_row = g * (WG / 32u) + slot / 32u;
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row, store nothing
  let o_base = o_row(row);
  let do_base = do_row(row);
  var sum = 0.0f;
  for (var c = lane; c < p.cols; c += 32u) {
    sum = fma(o_load(o_at(o_base, c)), do_load(do_at(do_base, c)), sum);
  }
  ${reduce.lanes("sum", "+", 32)}
  if ((lane == 0u) & (own_row < p.rows)) {
    let at = p.stats_off + (row / p.queries * p.padded + row % p.queries) * 2u;
    // lse of a row without keys is -inf; it is replaced by +inf, which makes every weight 0.
    let lse = lse_load(lse_row(row));
    stats_store(at, select(lse, -lse, bitcast<u32>(lse) == 0xff800000u));
    stats_store(at + 1u, sum);
  }
}
