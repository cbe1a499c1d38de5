// /// kernel
// doc = "Few rows of halves of mul_mat_id with quantised weights: gemv_quant_half with the weights of each row's expert."
// part_of = "mul_mat_id"
// configs.cols2 = { COLS = 2, threads = 256 }
// axes.TYPE = ["q4_0", "q8_0", "q4_k", "q5_k", "q6_k", "nbits4", "nbits8"]
// axes.LV = { values = [4], pick = "4" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.BV = { values = [4], pick = "4" }
// axes.HELD = "configs"
// pick.HELD = "'cols2'"
// inputs.low = { dtype = "u32", readonly = true, vec = "LV", axes = "b g p n" }
// inputs.scales = { dtype = "u32", readonly = true, axes = "b g w n" }
// inputs.high = { dtype = "u32", readonly = true, axes = "b g p n", optional = true, when = "TYPE in ('q5_k', 'q6_k')" }
// inputs.b = { dtype = "f16", vec = "BV", readonly = true, axes = "r k", doc = "(rows, K)" }
// include chosen
// params.col_bits = { type = "u32" }
// uses = ["tile/epilogue", "quant/${TYPE}", "quantised", "quant_sums", "quant_halves", "runs", "indices", "gated", "chosen"]
// grid = "across * dst.shape[0]"
// ///

// The work of a row is split as in gemv_quant_half. In a gated product an invocation has a gate and the
// column that it multiplies, so neighbouring invocations read neighbouring rows of the weights.
//
// Bounds, for unchecked compilation: as in gemv_id_quant.
//% set WG, R = CFG.threads, CFG.COLS
//% set GROUPS = quant.BLOCK // 32
//% set PER = 4 if GROUPS > 1 and quant.HIGH == 0 else 2
var<workgroup> partial: array<array<f32, ${WG * R}>, 1>;

${chosen.functions()}
${quantised.functions()}
${quant_sums.functions()}

${quant_halves.functions()}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  ${chosen.init()}
  let first = tile << p.col_bits;
  let columns = 1u << p.col_bits;
  let lanes = columns >> ${R - 1}u;
  let runs = ${WG * R}u >> p.col_bits;
  let run = li >> (p.col_bits - ${R - 1}u);
  let lane = li & (lanes - 1u);
  let slot = run * columns + select(lane, 2u * lane, p.gated != 0u);
  let apart = select(lanes, 1u, p.gated != 0u);
  let b_from = p.b_off + row / p.sharing * p.b_rs;
//% for c in range(R)
  let n${c} = row_of(min(first + (slot & (columns - 1u))${" + apart" if c}, p.rows - 1u));
  var acc${c} = 0.0f;
//% endfor
  ${runs.bounds(PER)}
  for (var r = start; r < end; r += 1u) {
    ${quant_halves.load(PER, R, "expert")}
//% for u in range(PER)
//% if GROUPS == 1 and u > 0
    if (r * ${PER}u + ${u}u < groups) {
//% else
    {
//% endif
//% for c in range(R)
      ${quant_halves.numbers(c, "w%d_%d" % (u, c), "s%d_%d" % (u, c), "g%d" % u)}
//% endfor
      ${quant_halves.vectors("b_mem", "b_from + g%d * 8u" % u)}
//% for c in range(R)
      ${quant_halves.sum(c, "acc%d" % c)}
//% endfor
    }
//% endfor
  }
//% for c in range(R)
  partial[0][slot${" + apart" if c}] = acc${c};
//% endfor
  // This is rare: a sum of halves was too large.
  for (var c = 0u; c < ${R}u; c += 1u) {
    let at = slot + c * apart;
    if (is_finite(partial[0][at])) { continue; }
    let n = select(n0, n1, c == 1u);
    ${quant_halves.exact("b_mem", "b_from", PER, "expert")}
    partial[0][at] = exact;
  }
  workgroupBarrier();
  ${runs.sums(1, R, "apart")}

  let own = li * 4u;
  if (own < columns) { store_four(${runs.four("0", "own")}, first + own, to, bias); }
}
