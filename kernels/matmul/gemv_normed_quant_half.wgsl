// /// kernel
// doc = "One row of halves of rms_norm_linear with quantised weights: rms_norm, followed by gemv_quant_half."
// part_of = "rms_norm_linear"
// configs.cols2 = { COLS = 2, threads = 256, DEPTH = 6912 }
// configs.cols1 = { COLS = 1, threads = 256, DEPTH = 6912 }
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
// inputs.x = { dtype = "f16", vec = "BV", index = false, readonly = true }
// inputs.gain = { dtype = "f16", vec = "BV", index = false, readonly = true }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", readonly = true, optional = true, axes = "m" }
// outputs.dst = { dtype = "D", index = false, axes = "m" }
// include normed
// params.col_bits = { type = "u32" }
// uses = ["tile/epilogue", "quant/${TYPE}", "quantised", "quant_sums", "quant_halves", "gated", "normed", "runs"]
// grid = "cdiv(rows, 1 << col_bits)"
// ///

// The work is split as in gemv_quant_half: a workgroup takes 2^col_bits columns, an invocation
// COLS of them, and the runs of invocations divide k. Before that, each workgroup computes the norm
// of the row in workgroup memory, rounded to halves as by rms_norm. That costs less than
// multiplying each number of the row with its gain again for each column.
//
// In a gated product an invocation has a gate and the column that it multiplies.
//
// Bounds, for unchecked compilation: columns of loads are clamped to their count, groups to the last;
// stores are guarded; depth is at most DEPTH; other indices into workgroup memory are below its
// size by construction.
//% set WG, R = CFG.threads, CFG.COLS
//% set GROUPS = quant.BLOCK // 32
//% set PER = 4 if GROUPS > 1 and quant.HIGH == 0 else 2
//% set PARTS = 16
var<workgroup> partial: array<array<f32, ${WG * R}>, 1>;
var<workgroup> parts: array<f32, ${PARTS}>;  // parts of the sum of squares
var<workgroup> row: array<vec4<f16>, ${CFG.DEPTH // 4}>;

${normed.functions()}
${quantised.functions()}
${quant_sums.functions()}

${quant_halves.functions()}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  if (id >= p.groups) { return; }
  let first = id << p.col_bits;
  let columns = 1u << p.col_bits;
  let lanes = columns >> ${R - 1}u;
  let runs = ${WG * R}u >> p.col_bits;
  let run = li >> (p.col_bits - ${R - 1}u);
  let lane = li & (lanes - 1u);
  let slot = run * columns + ${"select(lane, 2u * lane, p.gated != 0u)" if R == 2 else "lane"};
  let apart = ${"select(lanes, 1u, p.gated != 0u)" if R == 2 else "0u"};
//% for c in range(R)
  let n${c} = row_of(min(first + (slot & (columns - 1u))${" + apart" if c}, p.rows - 1u));
//% endfor
  ${runs.bounds(PER)}

  let count = p.depth >> 2u;
  var square = 0.0f;
  for (var i = li; i < count; i += ${WG}u) {
    let x = vec4<f32>(x_load(p.x_off + i));
    square += dot(x, x);
  }
  partial[0][li] = square;
  workgroupBarrier();
  if (li < ${PARTS}u) {
    var part = 0.0f;
    for (var i = li; i < ${WG}u; i += ${PARTS}u) { part += partial[0][i]; }
    parts[li] = part;
  }
  workgroupBarrier();
  var total = 0.0f;
  for (var i = 0u; i < ${PARTS}u; i += 1u) { total += parts[i]; }
  let factor = factor_of(total);
  for (var i = li; i < count; i += ${WG}u) {
    row[i] = vec4<f16>(vec4<f32>(x_load(p.x_off + i)) * factor * vec4<f32>(gain_load(p.gain_off + i)));
  }
  workgroupBarrier();

//% for c in range(R)
  var acc0_${c} = 0.0f;
//% endfor
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
      ${quant_halves.vectors("row", "g%d * 8u" % u)}
//% for c in range(R)
      ${quant_halves.sum(c, "acc0_%d" % c)}
//% endfor
    }
//% endfor
  }
//% for c in range(R)
  partial[0][slot${" + apart" if c}] = acc0_${c};
//% endfor
  // This happens rarely, if a sum of halves was too large.
  for (var c = 0u; c < ${R}u; c += 1u) {
    let at = slot + c * apart;
    if (is_finite(partial[0][at])) { continue; }
    let n = ${"select(n0, n1, c == 1u)" if R == 2 else "n0"};
    ${quant_halves.exact("row", "0u", PER)}
    partial[0][at] = exact;
  }
  workgroupBarrier();
  ${runs.sums(1, R, "apart")}

  let own = li * 4u;
  if (own < columns) { store_four(${runs.four("0", "own")}, first + own); }
}
