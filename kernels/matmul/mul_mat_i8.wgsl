// /// kernel
// doc = """
// Matrix product of bytes, batched: dst[..., n, m] = sum_k a[..., m, k] * b[..., n, k], exact in int32.
//
// Sums wrap modulo 2^32 to int32, even for uint8. They do not wrap with K up to 131,071 for
// int8 and 33,025 for uint8. A float dst gets a_scale[..., m] * b_scale[..., n] * sum + bias: the sum is
// rounded to f32, then multiplied with the factors, in any order, and then the bias is added. Batch axes
// of `a` repeat to the batch axes of `b` as in mul_mat. K = 0 gives sums of 0."""
// source = "ggml mul_mat (order of operands); torch._int_mm and torch._scaled_mm (meaning)"
// configs.32 = { BM = 32, BN = 32, BK = 8, threads = 64, TM = 4, TN = 4, LM = 4, LN = 8 }
// configs.64 = { BM = 64, BN = 64, BK = 8, threads = 128, TM = 8, TN = 4, LM = 4, LN = 8 }
// axes.S = { values = ["i8", "u8"], pick = "dtype(a)" }
// axes.D = { values = ["i32", "f32", "f16"], pick = "dtype(dst)" }
// axes.TILE = "configs"
// axes.AV = [1, 4]
// axes.AT = [false, true]
// axes.BV = [1, 4]
// axes.BT = [false, true]
// axes.DV = [1, 4]
// when = [
//   "AV == 4 if TILE == '64' else not AT",
//   "BV == 4 if TILE == '64' else not BT",
//   "DV == 1 or TILE == '64'",
// ]
// inputs.a = { dtype = "*", dtypes = ["int8", "uint8"], same = "kind", vec = "AV", bind = "'u32'", doc = "(..., M, K)" }
// inputs.b = { dtype = "*", dtypes = ["int8", "uint8"], same = "kind", vec = "BV", bind = "'u32'", doc = "(..., N, K), of a's dtype" }
// inputs.a_scale = { dtype = "f32", optional = true, doc = "Factors of the rows of a, which are the columns of dst; broadcast to (..., M). For a float dst." }
// inputs.b_scale = { dtype = "f32", optional = true, doc = "Factors of the rows of b, which are the rows of dst; broadcast to (..., N). For a float dst." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "Added to the scaled sums; broadcast to dst. For a float dst." }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M)" }
// include product
// params.down = { type = "u32" }
// params.has_a_scale = { type = "u32", value = "0 if a_scale is None else 1" }
// params.has_b_scale = { type = "u32", value = "0 if b_scale is None else 1" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// operations = "2 * dst.size * a.shape[-1]"
// uses = ["tile/outer_product", "packed", "packed_loader", "tile/split_k", "tile/swizzle"]
// grid = "it.batches * across * down"
// ///

// One workgroup computes a tile of dst, and each invocation TM x TN of its sums, from tiles of BK words of
// four k in workgroup memory; meanwhile the next tiles are loaded into registers. Rows of dst come from
// b, columns from a. AT and BT mean that the operand's last axis is m or n, not k. With split-K,
// dst is scratch whose first axis counts the splits, and each split is one more batch that starts
// further along k.
//
// Bounds, for unchecked compilation: rows and columns of loads are clamped to their counts, k is
// clamped in the tile that may be incomplete; all other tiles lie below the split's end; stores are
// guarded; indices into workgroup memory are lane numbers below the sizes of the arrays.
//% set A_TILE = {"x": "a", "V": AV, "K_ROWS": AT, "EXTENT": CFG.BN, "BK": CFG.BK}
//% set B_TILE = {"x": "b", "V": BV, "K_ROWS": BT, "EXTENT": CFG.BM, "BK": CFG.BK}
var<workgroup> a_tile: array<array<vec4<u32>, ${CFG.BN // 4}>, ${CFG.BK}>;
var<workgroup> b_tile: array<array<vec4<u32>, ${CFG.BM // 4}>, ${CFG.BK}>;
${packed.functions(S)}
//% if AV == 1
${packed.gather("a", "p.a_cs")}
//% endif
//% if BV == 1
${packed.gather("b", "p.b_cs")}
//% endif
//% if D != "i32"
${packed.scaled()}
//% endif

//% macro store_tile()
  ${packed.scales_of_batch(D)}
  let dst_start = dst_batch(batch);
  let m = col0 + at_col * 4u;
  let columns = vec4<u32>(m) + vec4<u32>(0u, 1u, 2u, 3u);
//% for i in range(CFG.TM)
  {
    let row = row0 + (at_row + ${i // 4 * CFG.LM}u) * 4u + ${i % 4}u;
    if (row < p.rows) {
      let v = ${packed.finished(D, "c" ~ i, "row", "columns")};
//% if DV == 4
      if (m < p.cols) { dst_store(dst_at(dst_start, row, m / 4u), v); }
//% else
//% for e in range(4)
      if (columns[${e}] < p.cols) { dst_store(dst_at(dst_start, row, columns[${e}]), v[${e}]); }
//% endfor
//% endif
    }
  }
//% endfor
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${swizzle.grouped_rows(CFG.BM, CFG.BN)}
  ${split_k.k_range("(batch / p.split_batches)")}
  let tiles = (k_count + ${4 * CFG.BK - 1}u) / ${4 * CFG.BK}u;

  let a_start = a_batch(batch) + k_first${" * p.a_rs" if AT else " * p.a_cs" if AV == 1 else " / 4u"};
  let b_start = b_batch(batch) + k_first${" * p.b_rs" if BT else " * p.b_cs" if BV == 1 else " / 4u"};
  ${packed_loader.init(A_TILE, "col0", "p.cols")}
  ${packed_loader.init(B_TILE, "row0", "p.rows")}
  ${packed_loader.load_last(A_TILE, "(tiles - 1u)")}
  ${packed_loader.load_last(B_TILE, "(tiles - 1u)")}

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
//% for i in range(CFG.TM)
  var c${i} = vec4<i32>();
//% endfor
  for (var left = tiles; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
    ${packed_loader.store_stage(A_TILE)}
    ${packed_loader.store_stage(B_TILE)}
    workgroupBarrier();
    if (left > 1u) {
      ${packed_loader.load_next(A_TILE)}
      ${packed_loader.load_next(B_TILE)}
    }
//% for k in range(CFG.BK)
    {
      ${outer_product.load_vectors(k, CFG.TM, CFG.TN, CFG.LM, CFG.LN)}
//% for i in range(CFG.TM)
      c${i} += dot4(r${i // 4}[${i % 4}], q0);
//% endfor
    }
//% endfor
  }
  ${store_tile()}
}
