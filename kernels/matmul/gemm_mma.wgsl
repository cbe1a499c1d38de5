// /// kernel
// doc = "Products of mul_mat on matrix units, with halves and f32 sums."
// part_of = "mul_mat"
// configs.32x32 = { BM = 32, BN = 32, BK = 32, WM = 16, WN = 16, threads = 128 }
// configs.64x64 = { BM = 64, BN = 64, BK = 32, WM = 32, WN = 32, threads = 128 }
// configs.64x128 = { BM = 64, BN = 128, BK = 32, WM = 32, WN = 64, threads = 128 }
// configs.128x128 = { BM = 128, BN = 128, BK = 32, WM = 64, WN = 64, threads = 128 }
// axes.MMA = "mma"
// axes.TILE = "configs"
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes."AT BT SLICES" = [false, true]
// axes."AV BV" = { values = [4], pick = "4" }
// axes.DV = [1, 4]
// when = [
//   "MMA != 'emulated' or CFG.BM == 32",  # software drivers take minutes for larger tiles
//   "MMA != 'cooperative_matrix' or (TILE == '64x128' and D == 'f32')",  # for naga's verdict only
// ]
// fragments = "'f16'"
// workgroup_bytes = "49152 if MMA == 'cooperative_matrix' else 24576 if CFG.BN > 64 else 16384"
// inputs.a = { dtype = "u32", vec = "AV", doc = "(..., M, K), or (..., K, M) where AT, in words of two halves" }
// inputs.b = { dtype = "u32", vec = "BV", doc = "(..., N, K), or (..., K, N) where BT, in words of two halves" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M)" }
// include part
// params."slice across down" = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", default = 1.0 }
// uses = ["tile/epilogue", "tile/split_k", "tile/swizzle", "mma/${MMA}", "tile/mma_loader", "tile/mma_product"]
// grid = "it.batches * across * down"
// ///

// One workgroup computes BM rows (from b) x BN columns (from a) of dst, each of its subgroups WM x
// WN, from tiles of depth BK in workgroup memory; meanwhile the next tile is loaded into registers.
// Operands are read eight halves at a time, along k or (AT, BT) along the other axis. With SLICES,
// the sums are added in plain f32 after every `slice` steps of k.
//
// Bounds, for unchecked compilation: rows and columns of loads are clamped to their counts; loads
// of whole chunks stay below the split's end, other loads are clamped to its last k and masked;
// stores are guarded; indices into workgroup memory are lane numbers below the sizes of the arrays,
// and clamped where the compiler cannot prove this, so that it adds no checks.
//% set UNITS, BK_UNITS = mma.UNIT, CFG.BK // mma.UNIT
//% set B_TILE = {"x": "b", "EXTENT": CFG.BM, "K_ROWS": BT, "ACROSS": CFG.BM // UNITS if BT else BK_UNITS, "ROWS": CFG.BK if BT else CFG.BM, "BASE": 0}
//% set A_BASE = B_TILE.ROWS * (B_TILE.ACROSS + 1)
//% set A_TILE = {"x": "a", "EXTENT": CFG.BN, "K_ROWS": AT, "ACROSS": CFG.BN // UNITS if AT else BK_UNITS, "ROWS": CFG.BK if AT else CFG.BN, "BASE": A_BASE}
${mma_product.memory(B_TILE, A_TILE)}
${mma_loader.functions()}
${epilogue.functions()}
${epilogue.of_rows()}

//% macro loads(k)
    ${mma_loader.load(B_TILE, k, "k_end")}
    ${mma_loader.load(A_TILE, k, "k_end")}
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32${mma.arguments()}) {
  let g = ${mma.group()};
  if (g >= p.groups) { return; }
  ${mma.position()}
  ${swizzle.grouped_rows(CFG.BM, CFG.BN)}
  ${split_k.k_range("(batch / p.split_batches)")}
  let k_end = k_first + k_count;
  ${mma_loader.init(B_TILE, "row0", "p.rows")}
  ${mma_loader.init(A_TILE, "col0", "p.cols")}

  ${mma_product.sums(B_TILE, A_TILE)}

  ${mma_product.strip()}
//% if SLICES
  ${mma_product.slices()}
  ${mma_product.accumulate_slices(B_TILE, A_TILE, loads, mma_product.add_slice)}
//% else
  ${mma_product.accumulate(B_TILE, A_TILE, loads)}
//% endif

  let dst_start = dst_batch(batch);
  let bias_start = bias_batch(batch);
  let residual_start = residual_batch(batch);
  let factor = select(p.scale, 1.0f, p.is_partial == 1u);
//% for i in range(CFG.WM // mma.M)
  ${mma_product.store_strip(i)}
  for (var t = lane; t < ${16 * mma_product.QUADS}u; t += 32u) {
    let down = t / ${mma_product.QUADS}u;
    let along = t % ${mma_product.QUADS}u;
    let row = row0 + warp_row + ${i * mma.M}u + down;
    let m = col0 + warp_col + along * 4u;
    var v = ${mma.result_unit("strip + down * %du + along" % mma_product.STRIP)};
//% if SLICES
    v += own_sums[${i * mma_product.EACH}u + t / 32u];
//% endif
    v *= factor;
    if (row < p.rows) {
      if (has_epilogue()) {
        v = epilogue(v, bias_at(bias_start, row, 0u), residual_at(residual_start, row, 0u), vec4<u32>(m) + vec4<u32>(0u, 1u, 2u, 3u));
      }
//% if DV == 4
      if (m < p.cols) { dst_store(dst_at(dst_start, row, m / 4u), v); }
//% else
//% for e in range(4)
      if (m + ${e}u < p.cols) { dst_store(dst_at(dst_start, row, m + ${e}u), v[${e}]); }
//% endfor
//% endif
    }
  }
//% endfor
}
