// /// kernel
// doc = "conv2d as an implicit matrix product on matrix units, with halves and f32 sums."
// part_of = "conv2d"
// configs.32x32 = { BM = 32, BN = 32, BK = 32, WM = 16, WN = 16, threads = 128 }
// configs.64x64 = { BM = 64, BN = 64, BK = 32, WM = 32, WN = 32, threads = 128 }
// configs.64x128 = { BM = 64, BN = 128, BK = 32, WM = 32, WN = 64, threads = 128 }
// configs.128x128 = { BM = 128, BN = 128, BK = 32, WM = 64, WN = 32, threads = 256 }
// axes.MMA = "mma"
// axes.TILE = "configs"
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.COLUMNS = ["pixels", "channels"]
// axes."AV BV" = { values = [4], pick = "4" }
// axes.DV = [1, 4]
// when = [
//   "COLUMNS == 'pixels' or DV == 4",
//   "MMA != 'emulated' or CFG.BM == 32",  # software drivers take minutes for larger tiles
//   "MMA != 'cooperative_matrix' or (TILE == '64x128' and D == 'f32')",  # for naga's verdict only
// ]
// fragments = "'f16'"
// workgroup_bytes = "49152 if MMA == 'cooperative_matrix' else 24576 if CFG.BN > 64 else 16384"
// inputs.a = { dtype = "u32", vec = "AV", axes = "g k n h w c", doc = "The packed image (conv_units): chunks of channels, in words of two halves." }
// inputs.b = { dtype = "u32", vec = "BV", axes = "g k r c", doc = "The packed weights, in words of two halves. The axes are: groups; taps and chunks of channels; rows; channels." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", axes = "s n g o h w", doc = "It is in vectors of pixels or of channels." }
// params."rows pixels plane out_w dst_w depth split_depth splits slice across down" = { type = "u32" }
// params."chunks kernel_w stride_h stride_w tap_h tap_w" = { type = "u32" }
// include epilogue
// uses = ["tile/epilogue", "tile/split_k", "tile/swizzle", "mma/${MMA}", "tile/mma_loader", "mma_window", "tile/mma_product", "mma_pixels"]
// grid = "b.shape[0] * splits * across * down"
// ///

// One workgroup computes a tile of output channels x pixels of one group (pixels are numbered
// through all images) from tiles of depth BK in workgroup memory; meanwhile the next tile is loaded
// into registers. The k are taps and channels, which both operands hold in units of eight channels.
// COLUMNS names the axis of a result, channels or pixels, that is contiguous in dst; four elements
// along it are stored at a time. With split-K, dst is scratch, and the grid has one more digit for
// the split. After every `p.slice` steps of k, the sums are added up in plain f32.
//
// Bounds, for unchecked compilation: pixels and rows are clamped to their counts, and the packed
// image has all of their windows; loads stay below the split's end; stores are guarded; indices
// into workgroup memory are lane numbers below the sizes of the arrays, and clamped where the
// compiler cannot prove this.
//% set WIDE = COLUMNS == "pixels"
//% set CHANNELS, PIXELS = (CFG.BM, CFG.BN) if WIDE else (CFG.BN, CFG.BM)
//% set ACROSS = CFG.BK // mma.UNIT
//% set B_TILE = {"x": "b", "EXTENT": CHANNELS, "K_ROWS": false, "ACROSS": ACROSS, "ROWS": CHANNELS, "BASE": 0}
//% set A_TILE = {"x": "a", "EXTENT": PIXELS, "K_ROWS": false, "ACROSS": ACROSS, "ROWS": PIXELS, "BASE": CHANNELS * (ACROSS + 1)}
//% set LEFT, RIGHT = (B_TILE, A_TILE) if WIDE else (A_TILE, B_TILE)
${mma_product.memory(LEFT, RIGHT)}
${mma_loader.functions()}
${mma_window.functions()}
${epilogue.functions(("bias",))}

// The index of a pixel of dst, counted from the index of the first pixel.
fn pixel_at(m: u32) -> u32 {
  let image = m / p.plane;
  let y = (m - image * p.plane) / p.dst_w;
  let x = m - image * p.plane - y * p.dst_w;
  return image * p.dst_ns + y * p.dst_hs + ${"x / 4u" if WIDE and DV == 4 else "x * p.dst_ws"};
}

fn bias_of(channel: u32) -> f32 { return bias_value(p.bias_off + channel * p.bias_os); }

//% macro loads(k)
    if (${k} < k_end) {
//% for u in range(B_TILE.ROWS * ACROSS // CFG.threads)
      b_v${u} = b_mem[b_from${u} + ${k} / ${CFG.BK}u * p.b_ks];
//% endfor
    }
    ${mma_window.pixels_load(A_TILE, k, "k_end")}
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32${mma.arguments()}) {
  let g = ${mma.group()};
  if (g >= p.groups) { return; }
  ${mma.position()}
  ${swizzle.channels_first(CHANNELS, PIXELS)}
  ${split_k.k_range("split")}
  let k_end = k_first + k_count;
  ${mma_loader.init(B_TILE, "row0", "p.rows", "p.b_off + group * p.b_gs")}
  ${mma_window.pixels_init(A_TILE, "p.a_off + group * p.a_gs", "col0")}
  ${mma_product.sums(LEFT, RIGHT)}

  ${mma_product.strip()}
  ${mma_product.register_slices()}
  ${mma_product.accumulate_slices(LEFT, RIGHT, loads, mma_product.add_to_registers)}

  let factor = select(p.scale, 1.0f, p.is_partial == 1u);
  let channel0 = group * p.rows;
  let dst_start = p.dst_off + split * p.dst_ss + group * p.dst_gs;
//% if WIDE and DV == 1
  ${mma_pixels.columns()}
//% for n in range(mma_pixels.BLOCKS)
  let is_pixel${n} = m${n} < p.pixels;
  let at${n} = dst_start + pixel_at(m${n});
//% endfor
//% else
  let along = lane % ${mma_product.QUADS}u;
  let m = ${"col0" if WIDE else "row0"} + warp_col + along * 4u;
//% endif
//% if WIDE and DV == 4
  let at = dst_start + pixel_at(m);
//% endif
//% for i in range(CFG.WM // mma.M)
  ${mma_product.store_strip(i)}
  ${mma_product.add_slices(i)}
//% if WIDE and DV == 1
  ${mma_pixels.store(i)}
//% else
  for (var t = lane; t < ${16 * mma_product.QUADS}u; t += 32u) {
    let down = t / ${mma_product.QUADS}u;
    let n = ${"row0" if WIDE else "col0"} + warp_row + ${i * mma.M}u + down;
    if (${"(n < p.rows) & (m < p.pixels)" if WIDE else "(n < p.pixels) & (m < p.rows)"}) {
      var v = ${mma.result_unit("strip + down * %du + along" % mma_product.STRIP)} * factor;
//% if WIDE
      if (p.bias_kind != 0u) { v += bias_of(channel0 + n); }
//% else
      if (p.bias_kind != 0u) {
        let o = channel0 + m;
        v += vec4<f32>(bias_of(o), bias_of(o + 1u), bias_of(o + 2u), bias_of(o + 3u));
      }
//% endif
      if (p.activation != 0u) { v = activate(v, p.activation); }
//% if not WIDE
      dst_store(dst_start + pixel_at(n) + m / 4u, v);
//% else
      dst_store(at + n * p.dst_os, v);
//% endif
    }
  }
//% endif
//% endfor
}
