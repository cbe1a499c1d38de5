// /// kernel
// doc = "The maximum and the sum of one piece of a long row."
// part_of = "softmax"
// configs.piece1024 = { N = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.MASK = { values = ["", "f32", "f16"], pick = "dtype(mask)" }
// axes.VEC = [1, 4]
// axes.PIECE = { values = "configs", pick = "'piece1024'" }
// inputs.x = { dtype = "T", vec = "VEC" }
// inputs.mask = { dtype = "MASK", vec = "VEC", when = "MASK != ''", optional = true, broadcast = "x" }
// outputs.stats = { dtype = "f32", index = false, doc = "(rows, pieces, 2): maximum, sum" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params."pieces head_rows heads first_head alibi_heads" = { type = "u32" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params."scale max_bias" = { type = "f32", arg = true }
// uses = ["logits", "reduce", "tile/mask"]
// grid = "it.rows * pieces"
// ///

//% set N = CFG.N
// One workgroup of `threads` invocations reads one piece of a row, N vectors each.
${logits.functions(VEC)}
${mask.alibi_slope("row: u32", "p.first_head + (row / p.head_rows) % p.heads")}
${reduce.memory(CFG.threads, CFG.threads)}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g / p.pieces;
  let first = (g - row * p.pieces) * ${CFG.threads}u * ${N}u + lane;
  let slot = lane;
  let x_base = x_row(row);
//% if MASK
  let mask_base = mask_row(row);
  let slope = alibi_slope(row);
//% endif
  ${logits.load(N, "first", CFG.threads, MASK, VEC)}
  ${reduce.lanes("m", "max", CFG.threads)}
  let finite_m = finite(m);
  var acc = exp_shifted(l0 - V(finite_m));
//% for k in range(1, N)
  acc += exp_shifted(l${k} - V(finite_m));
//% endfor
  var row_sum = ${logits.vector_sum("acc", VEC)};
  ${reduce.lanes("row_sum", "+", CFG.threads, again=true)}
  if (lane == 0u) {
    let at = p.stats_off + g * 2u;
    stats_store(at, m);
    stats_store(at + 1u, row_sum);
  }
}
