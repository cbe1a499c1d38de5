// /// kernel
// doc = "The gradient of conv2d's weights on matrix units, with halves and partial sums in f32."
// part_of = "conv2d_backward_weight"
// configs.32x32 = { BM = 32, BN = 32, BK = 32, WM = 16, WN = 16, threads = 128 }
// configs.64x64 = { BM = 64, BN = 64, BK = 32, WM = 32, WN = 32, threads = 128 }
// configs.64x128 = { BM = 64, BN = 128, BK = 32, WM = 32, WN = 64, threads = 128 }
// configs.128x128 = { BM = 128, BN = 128, BK = 32, WM = 64, WN = 32, threads = 256 }
// axes.MMA = "mma"
// axes.TILE = "configs"
// axes."AV BV" = { values = [4], pick = "4" }
// axes.DV = [1, 4]
// when = ["MMA != 'emulated' or CFG.BM == 32"]  # software drivers take minutes for larger tiles
// fragments = "'f16'"
// workgroup_bytes = "49152 if MMA == 'cooperative_matrix' else 24576 if CFG.BN > 64 else 16384"
// inputs.a = { dtype = "u32", vec = "AV", axes = "g n h w c", doc = "The packed image (conv_units), in words of two halves." }
// inputs.b = { dtype = "u32", vec = "BV", axes = "g r c", doc = "dy as rows of pixels of all images, in words of two halves." }
// outputs.dst = { dtype = "f32", vec = "DV", axes = "s g r c", doc = "Partial sums: (splits, groups, O, taps and channels)" }
// params."rows cols own_channels depth split_depth splits slice across down channels" = { type = "u32" }
// params.kernel_w = { type = "u32" }
// include pixels
// params."stride_h stride_w tap_h tap_w" = { type = "u32" }
// uses = ["tile/split_k", "tile/swizzle", "pixels", "mma/${MMA}", "tile/mma_loader", "mma_window", "tile/mma_product"]
// grid = "b.shape[0] * splits * across * down"
// ///

// A matrix product over the pixels k of all images. Its rows are output channels, its columns taps and
// channels of a window. One workgroup computes BM x BN sums of one group over one split of k, from
// tiles of depth BK in workgroup memory; meanwhile the next tile is loaded into registers. Pixels
// are the rows of both tiles, and units of eight channels run across them, so no window has to be
// aligned. After every `p.slice` steps of k, the sums are added up in plain f32.
//
// Bounds, for unchecked compilation: units across the tiles are clamped to their counts, and the
// packed image has all windows; loads of whole chunks stay below the split's end, other loads are
// clamped and masked; stores are guarded; indices into workgroup memory are lane numbers below the
// sizes of the arrays, and clamped where the compiler cannot prove this.
//% set B_TILE = {"x": "b", "EXTENT": CFG.BM, "K_ROWS": true, "ACROSS": CFG.BM // mma.UNIT, "ROWS": CFG.BK, "BASE": 0}
//% set A_TILE = {"x": "a", "EXTENT": CFG.BN, "K_ROWS": true, "ACROSS": CFG.BN // mma.UNIT, "ROWS": CFG.BK, "BASE": CFG.BK * (B_TILE.ACROSS + 1)}
${mma_product.memory(B_TILE, A_TILE)}
${mma_loader.functions()}
${mma_window.functions()}
${pixels.functions()}

//% macro loads(k)
    ${mma_loader.load(B_TILE, k, "k_end")}
    ${mma_window.taps_load(A_TILE, k, "k_end")}
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32${mma.arguments()}) {
  let g = ${mma.group()};
  if (g >= p.groups) { return; }
  ${mma.position()}
  ${swizzle.channels_first(CFG.BM, CFG.BN)}
  ${split_k.k_range("split")}
  let k_end = k_first + k_count;
  ${mma_loader.init(B_TILE, "row0", "p.rows", "p.b_off + group * p.b_gs")}
  ${mma_window.taps_init(A_TILE, "p.a_off + group * p.a_gs", "col0", "p.cols")}
  ${mma_product.sums(B_TILE, A_TILE)}

  ${mma_product.strip()}
  ${mma_product.register_slices()}
  ${mma_product.accumulate_slices(B_TILE, A_TILE, loads, mma_product.add_to_registers)}

  let along = lane % ${mma_product.QUADS}u;
  let m = col0 + warp_col + along * 4u;
  let tap = m / (p.channels * ${mma.UNIT}u);
  let c = m - tap * p.channels * ${mma.UNIT}u;
  let at = p.dst_off + split * p.dst_ss + group * p.dst_gs + (tap * p.own_channels + c)${" / 4u" if DV == 4 else " * p.dst_cs"};
//% for i in range(CFG.WM // mma.M)
  ${mma_product.store_strip(i)}
  ${mma_product.add_slices(i)}
  for (var t = lane; t < ${16 * mma_product.QUADS}u; t += 32u) {
    let down = t / ${mma_product.QUADS}u;
    let row = row0 + warp_row + ${i * mma.M}u + down;
    if ((row < p.rows) & (m < p.cols)) {
      let v = ${mma.result_unit("strip + down * %du + along" % mma_product.STRIP)};
//% if DV == 4
      if (c < p.own_channels) { dst_store(at + row * p.dst_rs, v); }
//% else
//% for e in range(4)
      if (c + ${e}u < p.own_channels) { dst_store(at + row * p.dst_rs + ${e}u * p.dst_cs, v[${e}]); }
//% endfor
//% endif
    }
  }
//% endfor
}
