// /// kernel
// doc = "The softmax of one piece of a long row, given the row's maximum and sum."
// part_of = "softmax"
// configs.piece1024 = { N = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.MASK = { values = ["", "f32", "f16"], pick = "dtype(mask)" }
// axes.VEC = [1, 4]
// axes.PIECE = { values = "configs", pick = "'piece1024'" }
// inputs.x = { dtype = "T", vec = "VEC" }
// inputs.mask = { dtype = "MASK", vec = "VEC", when = "MASK != ''", optional = true, broadcast = "x" }
// inputs.stats = { dtype = "f32", index = false, doc = "(rows, 3), the stats that softmax_combine wrote" }
// outputs.dst = { dtype = "T", vec = "VEC", alias = "x" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params."pieces head_rows heads first_head alibi_heads" = { type = "u32" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params."scale max_bias" = { type = "f32", arg = true }
// params.log = { type = "u32", arg = true }
// uses = ["logits", "tile/mask"]
// grid = "it.rows * pieces"
// ///

//% set N = CFG.N
// One workgroup of `threads` invocations computes one piece of a row, N vectors each. Workgroups do not
// depend on each other.
${logits.functions(VEC)}
${mask.alibi_slope("row: u32", "p.first_head + (row / p.head_rows) % p.heads")}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g / p.pieces;
  let first = (g - row * p.pieces) * ${CFG.threads}u * ${N}u + lane;
  let x_base = x_row(row);
  let dst_base = dst_row(row);
//% if MASK
  let mask_base = mask_row(row);
  let slope = alibi_slope(row);
//% endif
  // The logits are read again, and shifted by the maximum of the whole row.
  ${logits.load(N, "first", CFG.threads, MASK, VEC)}
  let row_max = stats_load(p.stats_off + row * 3u);
  m = stats_load(p.stats_off + row * 3u + 1u);
  let row_sum = stats_load(p.stats_off + row * 3u + 2u);
  let lost = (bitcast<u32>(row_max) == PLUS_INF)
    | ((row_sum == 0.0f) & (bitcast<u32>(row_max) != MINUS_INF));
//% for k in range(N)
  let e${k} = exp_shifted(l${k} - V(m));
//% endfor
  ${logits.unnormalized(N)}
  ${logits.store(N, "first", CFG.threads, VEC)}
}
