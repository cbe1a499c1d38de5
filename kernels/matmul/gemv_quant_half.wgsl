// /// kernel
// doc = "GEMV and skinny products of mul_mat_quant with rows of halves, by packed products; sums of eight products are f16."
// part_of = "mul_mat_quant"
// configs.row1_narrow = { ROWS = 1, COLS = 1, threads = 256 }
// configs.rows1 = { ROWS = 1, COLS = 2, threads = 256 }
// configs.rows4 = { ROWS = 4, COLS = 2, threads = 256 }
// configs.rows8 = { ROWS = 8, COLS = 2, threads = 256 }
// axes.TYPE = ["q4_0", "q8_0", "q4_k", "q5_k", "q6_k", "nbits4", "nbits8"]
// axes.LV = [4]
// axes.D = ["f32", "f16"]
// axes.BV = [4]
// axes.HELD = "configs"
// pick.LV = "4"
// pick.D = "dtype(dst)"
// pick.BV = "4"
// inputs.low = { dtype = "u32", index = false, readonly = true, vec = "LV", axes = "b g p n" }
// inputs.scales = { dtype = "u32", index = false, readonly = true, axes = "b g w n" }
// inputs.high = { dtype = "u32", index = false, readonly = true, axes = "b g p n", optional = true, when = "TYPE in ('q5_k', 'q6_k')" }
// inputs.b = { dtype = "f16", vec = "BV", doc = "(..., N, K)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D" }
// iterate = "tiles"
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.depth = { type = "u32" }
// params.across = { type = "u32" }
// params.col_bits = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", arg = true }
// uses = ["tile/epilogue", "quant/${TYPE}", "quantised", "quant_sums", "quant_halves", "runs"]
// grid = "it.batches * across"
// ///

// The work is split as in gemv_quant, but products are packed halves. An invocation has COLS
// columns. Two columns lie half of the workgroup's columns apart, so a vector of b serves both. The
// weights are converted once for all rows.
//
// If a sum of eight products is beyond 65,504, the result is infinite or NaN. An invocation that
// has such a sum computes its columns again in f32, so no result is lost.
//
// Bounds, for unchecked compilation: columns of loads are clamped to their count, groups to the last group;
// stores are guarded; indices into workgroup memory are below its size by construction.
//% set S, WG, R = CFG.ROWS, CFG.threads, CFG.COLS
//% set GROUPS = quant.BLOCK // 32
//% set PER = 4 if S == 1 and GROUPS > 1 and quant.HIGH == 0 else 2 if S < 8 or GROUPS > 1 else 1
var<workgroup> partial: array<array<f32, ${WG * R}>, ${S}>;

${epilogue.functions()}
${epilogue.of_rows()}
${quantised.functions()}
${quant_sums.functions()}

${quant_halves.functions()}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  if (id >= p.groups) { return; }
  let batch = id / p.across;
  let first = (id - batch * p.across) << p.col_bits;
  let columns = 1u << p.col_bits;
  let lanes = columns >> ${R - 1}u;
  let runs = ${WG * R}u >> p.col_bits;
  let run = li >> (p.col_bits - ${R - 1}u);
  let lane = li & (lanes - 1u);
//% for c in range(R)
  let n${c} = min(first + lane${" + lanes" if c}, p.cols - 1u);
//% endfor

  let b_start = b_batch(batch);
//% for s in range(S)
  let b_from${s} = b_at(b_start, min(${s}u, p.rows - 1u), 0u);
//% for c in range(R)
  var acc${s}_${c} = 0.0f;
//% endfor
//% endfor
  ${runs.bounds(PER)}
  for (var r = start; r < end; r += 1u) {
    ${quant_halves.load(PER, R)}
//% for u in range(PER)
//% if GROUPS == 1 and u > 0
    if (r * ${PER}u + ${u}u < groups) {
//% else
    {
//% endif
//% for c in range(R)
      ${quant_halves.numbers(c, "w%d_%d" % (u, c), "s%d_%d" % (u, c), "g%d" % u)}
//% endfor
//% for s in range(S)
      {
        ${quant_halves.vectors("b_mem", "b_from%d + g%d * 8u" % (s, u))}
//% for c in range(R)
        ${quant_halves.sum(c, "acc%d_%d" % (s, c))}
//% endfor
      }
//% endfor
    }
//% endfor
  }
  let slot = run * columns + lane;
//% for s in range(S)
//% for c in range(R)
  partial[${s}][slot${" + lanes" if c}] = acc${s}_${c};
//% endfor
//% endfor
  // This happens rarely, if a sum of halves was too large.
  for (var c = 0u; c < ${R}u; c += 1u) {
    let at = slot + c * lanes;
    let n = ${"select(n0, n1, c == 1u)" if R == 2 else "n0"};
    for (var s = 0u; s < ${S}u; s += 1u) {
      if (is_finite(partial[s][at])) { continue; }
      let b_from = b_at(b_start, min(s, p.rows - 1u), 0u);
      ${quant_halves.exact("b_mem", "b_from", PER)}
      partial[s][at] = exact;
    }
  }
  workgroupBarrier();
  ${runs.sums(S, R)}

  let fours = columns >> 2u;
  let dst_start = dst_batch(batch);
  let bias_start = bias_batch(batch);
  let residual_start = residual_batch(batch);
  let row = li >> (p.col_bits - 2u);
  let own = (li & (fours - 1u)) * 4u;
  if ((row < ${S}u) & (row < p.rows)) {
    var v = ${runs.four("row", "own")};
    v *= select(p.scale, 1.0f, p.is_partial == 1u);
    let m = vec4<u32>(first + own) + vec4<u32>(0u, 1u, 2u, 3u);
    if (has_epilogue()) { v = epilogue(v, bias_at(bias_start, row, 0u), residual_at(residual_start, row, 0u), m); }
//% for j in range(4)
    if (m[${j}] < p.cols) { dst_store(dst_at(dst_start, row, m[${j}]), v[${j}]); }
//% endfor
  }
}
