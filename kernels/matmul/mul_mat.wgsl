// /// kernel
// doc = """
// Matrix product, batched: dst[..., n, m] = act(scale * sum_k a[..., m, k] * b[..., n, k] + bias + residual).
//
// Sums are f32 and no operand is rounded. Batch axes of `a` repeat to the batch axes of `b` as in
// ggml: each matrix of `a` multiplies b's size / a's size neighbouring matrices of `b`. `bias` and
// `residual` broadcast to dst by numpy's rules. K = 0 gives sums of 0."""
// source = "ggml mul_mat (meaning); Goto and van de Geijn 2008 (blocking)"
// configs.32 = { BM = 32, BN = 32, BK = 16, threads = 64, TM = 4, TN = 4, LM = 4, LN = 8 }
// configs.64 = { BM = 64, BN = 64, BK = 16, threads = 128, TM = 8, TN = 4, LM = 4, LN = 8 }
// configs.16x64 = { BM = 16, BN = 64, BK = 16, threads = 32, TM = 4, TN = 8, LM = 4, LN = 8 }
// configs.32x128 = { BM = 32, BN = 128, BK = 16, threads = 64, TM = 8, TN = 8, LM = 4, LN = 8 }
// axes.A = { values = ["f32", "f16"], pick = "dtype(a)" }
// axes.B = { values = ["f32", "f16"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.TILE = "configs"
// axes.AV = [1, 2, 4]
// axes.AT = [false, true]
// axes.BV = [1, 2, 4]
// axes.BT = [false, true]
// axes.DV = [1, 4]
// when = [
//   "(A, B, D) in (('f32', 'f32', 'f32'), ('f16', 'f16', 'f32'), ('f16', 'f16', 'f16'), ('f16', 'f32', 'f32'))",
//   "AV == 4 if AT else AV in (1, 2)",
//   "BV == 4 if BT else BV in (1, 2)",
//   "DV == 1 or (AV > 1 and BV > 1 and TILE == '64')",
// ]
// inputs.a = { dtype = "A", vec = "AV", doc = "(..., M, K)" }
// inputs.b = { dtype = "B", vec = "BV", doc = "(..., N, K)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "Added to the scaled sums; broadcast to dst." }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "A second summand, with the same rules as bias." }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M)" }
// options.activation = { type = "Activation | None", doc = "Applied last; 'gelu' uses erf." }
// options.precision = { type = "Literal['fast', 'high', 'split'] | None", doc = "'fast' may round operands to f16 and sum 64 to 256 products in f16. 'high' keeps the error bound of float32 results for float16 results of matrix units. 'split' may multiply float32 on matrix units as sums of two halves." }
// include product
// params.down = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", default = 1.0, doc = "Factor of the sums." }
// operations = "2 * dst.size * a.shape[-1]"
// uses = ["tile/epilogue", "tile/loader", "tile/outer_product", "tile/split_k", "tile/swizzle"]
// grid = "it.batches * across * down"
// ///

// One workgroup computes a tile of dst, and each invocation TM x TN of its sums, from tiles of
// depth BK in workgroup memory; meanwhile the next tiles are loaded into registers. Rows of dst
// come from b, columns from a. AT and BT mean that the operand's last axis is m or n, not k. With
// split-K, dst is scratch whose first axis counts the splits, and each split is one more batch that
// starts further along k.
//
// Bounds, for unchecked compilation: rows and columns of loads are clamped to their counts; k stays
// below `k_prologue` in the first tile and below the split's end in the others; stores are guarded;
// indices into workgroup memory are lane numbers below the sizes of the arrays.
//% set A_TILE = {"x": "a", "storage": "A", "V": AV, "K_ROWS": AT, "EXTENT": CFG.BN, "BK": CFG.BK, "threads": CFG.threads}
//% set B_TILE = {"x": "b", "storage": "B", "V": BV, "K_ROWS": BT, "EXTENT": CFG.BM, "BK": CFG.BK, "threads": CFG.threads}
${outer_product.memory(CFG.BM, CFG.BN, CFG.BK)}
${epilogue.functions()}
${epilogue.of_rows()}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${swizzle.grouped_rows(CFG.BM, CFG.BN)}
  ${split_k.k_range("(batch / p.split_batches)")}
  ${split_k.prologue()}

  let a_start = a_batch(batch) + ${"k_first * p.a_rs" if AT else "k_first * p.a_cs" if AV == 1 else "k_first / " ~ AV ~ "u"};
  let b_start = b_batch(batch) + ${"k_first * p.b_rs" if BT else "k_first * p.b_cs" if BV == 1 else "k_first / " ~ BV ~ "u"};
  ${loader.init(A_TILE, "col0", "p.cols")}
  ${loader.init(B_TILE, "row0", "p.rows")}
  ${loader.load_prologue(A_TILE)}
  ${loader.load_prologue(B_TILE)}

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  for (var left = (k_count + 15u) >> 4u; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
    ${loader.store_stage(A_TILE)}
    ${loader.store_stage(B_TILE)}
    workgroupBarrier();
    if (left > 1u) {
      ${loader.load_next(A_TILE)}
      ${loader.load_next(B_TILE)}
    }
    ${outer_product.multiply(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BK)}
  }
  ${epilogue.store_tile(CFG.TM, CFG.TN, CFG.LM, CFG.LN, DV)}
}
