// /// kernel
// doc = "Few rows of mul_mat_id with quantised weights: gemv_quant with the weights of each row's expert."
// part_of = "mul_mat_id"
// configs.rows1 = { threads = 256 }
// axes.TYPE = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "nbits4", "nbits8", "nbits4_16", "nbits8_16"]
// axes.LV = [2, 4]
// axes.B = { values = ["f32", "u32"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.BV = { values = [4], pick = "4" }
// axes.HELD = "configs"
// pick.HELD = "'rows1'"
// when = [
//   "LV == (2 if TYPE in ('q2_k', 'q3_k') else 4)",
//   "(B, D) in (('f32', 'f32'), ('u32', 'f32'), ('u32', 'f16'))",
// ]
// inputs.low = { dtype = "u32", readonly = true, vec = "LV", axes = "b g p n" }
// inputs.scales = { dtype = "u32", readonly = true, axes = "b g w n" }
// inputs.high = { dtype = "u32", readonly = true, axes = "b g p n", optional = true, when = "TYPE in ('q5_0', 'q5_1', 'q3_k', 'q5_k', 'q6_k')" }
// inputs.b = { dtype = "B", vec = "BV", readonly = true, axes = "r k", doc = "(rows, K), f32 or words of two halves" }
// include chosen
// params.col_bits = { type = "u32" }
// uses = ["tile/epilogue", "quant/${TYPE}", "quantised", "quant_sums", "runs", "indices", "gated", "chosen"]
// grid = "across * dst.shape[0]"
// ///

// The work of a row is split as in gemv_quant: a workgroup takes 2^col_bits columns, and its runs of
// invocations divide k.
//
// Bounds, for unchecked compilation: columns of loads are clamped to their count, groups to the last
// group, the expert is below the count of experts; stores are guarded; indices into workgroup memory
// are below its size by construction.
//% set WG = CFG.threads
//% set GROUPS = quant.BLOCK // 32
//% set PER = (4 if quant.HIGH == 0 else 2) if GROUPS > 1 else 2
var<workgroup> partial: array<array<f32, ${WG}>, 1>;

${chosen.functions()}
${quantised.functions()}
${quant_sums.functions()}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  ${chosen.init()}
  let first = tile << p.col_bits;
  let columns = 1u << p.col_bits;
  let runs = ${WG}u >> p.col_bits;
  let run = li >> p.col_bits;
  let n = row_of(min(first + (li & (columns - 1u)), p.rows - 1u));
  let b_from = p.b_off + row / p.sharing * p.b_rs;
  var acc = vec4<f32>();
  ${runs.bounds(PER)}
  for (var r = start; r < end; r += 1u) {
    ${runs.load(PER, "expert")}
//% for u in range(PER)
    {
      ${quant_sums.numbers("w%d" % u, "s%d" % u, "g%d" % u)}
      ${quant_sums.vectors("b_from", "g%d" % u)}
//% if GROUPS == 1 and u > 0
      acc = select(acc, ${quant_sums.sum("acc")|trim}, r * ${PER}u + ${u}u < groups);
//% else
      acc = ${quant_sums.sum("acc")|trim};
//% endif
    }
//% endfor
  }
  partial[0][li] = dot(acc, vec4<f32>(1.0f));
  workgroupBarrier();
  let slot = li;
  ${runs.sums(1, 1)}

  let own = li * 4u;
  if (own < columns) { store_four(${runs.four("0", "own")}, first + own, to, bias); }
}
