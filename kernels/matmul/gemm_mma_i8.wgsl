// /// kernel
// doc = "Large products of mul_mat_i8 on matrix units, with bytes and exact sums."
// part_of = "mul_mat_i8"
// configs.32x32 = { BM = 32, BN = 32, BK = 64, WM = 16, WN = 16, threads = 128 }
// configs.128x128 = { BM = 128, BN = 128, BK = 64, WM = 64, WN = 64, threads = 128 }
// axes.MMA = "mma"
// axes.TILE = "configs"
// axes.S = { values = ["i8", "u8"], pick = "dtype(a)" }
// axes.D = { values = ["i32", "f32", "f16"], pick = "dtype(dst)" }
// axes."AV BV" = { values = [16], pick = "16" }
// axes.DV = [1, 4]
// when = [
//   "MMA != 'cooperative_matrix'",  # naga knows no matrices of bytes
//   "MMA != 'emulated' or CFG.BM == 32",  # software drivers take minutes for larger tiles
// ]
// fragments = "S"
// workgroup_bytes = "24576 if CFG.BN > 64 else 16384"
// inputs.a = { dtype = "*", dtypes = ["int8", "uint8"], same = "kind", vec = "AV", bind = "'vec4<u32>'", doc = "(..., M, K), k in whole units" }
// inputs.b = { dtype = "*", dtypes = ["int8", "uint8"], same = "kind", vec = "BV", bind = "'vec4<u32>'", doc = "(..., N, K), k in whole units" }
// inputs."a_scale b_scale" = { dtype = "f32", optional = true }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M)" }
// include product
// params.down = { type = "u32" }
// params.has_a_scale = { type = "u32", value = "0 if a_scale is None else 1" }
// params.has_b_scale = { type = "u32", value = "0 if b_scale is None else 1" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// uses = ["packed", "tile/split_k", "tile/swizzle", "mma/${MMA}", "tile/mma_loader", "tile/mma_product"]
// grid = "it.batches * across * down"
// ///

// The algorithm is that of gemm_mma, with 16-byte units along k of both operands, and exact sums.
//
// Bounds, for unchecked compilation, are the same as in gemm_mma.
//% set ACROSS = CFG.BK // mma.UNIT
//% set B_TILE = {"x": "b", "EXTENT": CFG.BM, "K_ROWS": false, "ACROSS": ACROSS, "ROWS": CFG.BM, "BASE": 0}
//% set A_TILE = {"x": "a", "EXTENT": CFG.BN, "K_ROWS": false, "ACROSS": ACROSS, "ROWS": CFG.BN, "BASE": CFG.BM * (ACROSS + 1)}
${mma_product.memory(B_TILE, A_TILE)}
${mma_loader.functions()}
//% if D != "i32"
${packed.scaled()}
//% endif

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

  ${mma_product.accumulate(B_TILE, A_TILE, loads)}

  ${mma_product.strip()}
  ${packed.scales_of_batch(D)}
  let dst_start = dst_batch(batch);
//% for i in range(CFG.WM // mma.M)
  ${mma_product.store_strip(i)}
  for (var t = lane; t < ${16 * mma_product.QUADS}u; t += 32u) {
    let down = t / ${mma_product.QUADS}u;
    let along = t % ${mma_product.QUADS}u;
    let row = row0 + warp_row + ${i * mma.M}u + down;
    let m = col0 + warp_col + along * 4u;
    let columns = vec4<u32>(m) + vec4<u32>(0u, 1u, 2u, 3u);
    let sums = bitcast<vec4<i32>>(${mma.result_unit("strip + down * %du + along" % mma_product.STRIP)});
    if (row < p.rows) {
      let v = ${packed.finished(D, "sums", "row", "columns")};
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
