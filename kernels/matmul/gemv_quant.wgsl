// /// kernel
// doc = "GEMV and skinny products of mul_mat_quant, with up to 8 rows of b; the weights are read once."
// part_of = "mul_mat_quant"
// configs.rows1 = { ROWS = 1, threads = 256 }
// configs.rows4 = { ROWS = 4, threads = 256 }
// configs.rows8 = { ROWS = 8, threads = 256 }
// include weights
// axes.HELD = "configs"
// iterate = "tiles"
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.depth = { type = "u32" }
// params.across = { type = "u32" }
// params.col_bits = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", arg = true }
// uses = ["tile/epilogue", "quant/${TYPE}", "quantised", "quant_sums", "runs"]
// grid = "it.batches * across"
// ///

// One workgroup computes all rows of 2^col_bits columns of dst, which are neighbours in the planes
// of the weights: neighbouring invocations take neighbouring columns, and the invocations of a
// column divide k among them, `PER` groups at a time. Each invocation adds up its groups for all
// ROWS rows of b; if dst has fewer rows, the last row of b is repeated. Then the sums of the
// invocations of a column are added up, for four columns at a time.
//
// Bounds, for unchecked compilation: columns of loads are clamped to their count, groups to the last group;
// stores are guarded; indices into workgroup memory are below its size by construction.
//% set S, WG = CFG.ROWS, CFG.threads
//% set GROUPS = quant.BLOCK // 32
// The number of groups in a round; they belong to one block if a block has several groups. With more
// groups in a round, the texts of types with bits in two planes would be long.
//% set PER = (4 if S == 1 and quant.HIGH == 0 else 2) if GROUPS > 1 else 2 if S < 8 else 1
var<workgroup> partial: array<array<f32, ${WG}>, ${S}>;

${epilogue.functions()}
${epilogue.of_rows()}
${quantised.functions()}
${quant_sums.functions()}

// Adds the sums of one group: `w` and `s` are its words and scales; `inside` is the condition that
// the group exists, or "" if it always exists.
//% macro add_group(u, inside)
${quant_sums.numbers("w%d" % u, "s%d" % u, "g%d" % u)}
//% for s in range(S)
    {
      ${quant_sums.vectors("b_from%d" % s, "g%d" % u)}
//% if inside
      acc${s} = select(acc${s}, ${quant_sums.sum("acc%d" % s)|trim}, ${inside});
//% else
      acc${s} = ${quant_sums.sum("acc%d" % s)|trim};
//% endif
    }
//% endfor
//% endmacro

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let id = group_id(wg);
  if (id >= p.groups) { return; }
  let batch = id / p.across;
  let first = (id - batch * p.across) << p.col_bits;
  let columns = 1u << p.col_bits;
  let runs = ${WG}u >> p.col_bits;
  let run = li >> p.col_bits;
  let n = min(first + (li & (columns - 1u)), p.cols - 1u);

  let b_start = b_batch(batch);
//% for s in range(S)
  let b_from${s} = b_at(b_start, min(${s}u, p.rows - 1u), 0u);
  var acc${s} = vec4<f32>();
//% endfor
  ${runs.bounds(PER)}
  for (var r = start; r < end; r += 1u) {
    ${runs.load(PER)}
//% for u in range(PER)
    {
      ${add_group(u, "r * %du + %du < groups" % (PER, u) if GROUPS == 1 and u > 0 else "")}
    }
//% endfor
  }
//% for s in range(S)
  partial[${s}][li] = dot(acc${s}, vec4<f32>(1.0f));
//% endfor
  workgroupBarrier();
  let slot = li;
  ${runs.sums(S, 1)}

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
