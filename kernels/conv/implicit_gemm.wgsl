// /// kernel
// doc = "conv2d as an implicit matrix product, whose rows are output channels, whose columns are pixels of dst, and whose k are taps and channels."
// part_of = "conv2d"
// configs.32x32 = { BM = 32, BN = 32, BK = 16, threads = 64, TM = 4, TN = 4, LM = 4, LN = 8 }
// configs.64x32 = { BM = 64, BN = 32, BK = 16, threads = 128, TM = 4, TN = 4, LM = 4, LN = 8 }
// configs.64x64 = { BM = 64, BN = 64, BK = 16, threads = 128, TM = 8, TN = 4, LM = 4, LN = 8 }
// configs.64x128 = { BM = 64, BN = 128, BK = 16, threads = 128, TM = 8, TN = 8, LM = 4, LN = 8 }
// configs.128x64 = { BM = 128, BN = 64, BK = 16, threads = 128, TM = 8, TN = 8, LM = 4, LN = 8 }
// configs.128x128 = { BM = 128, BN = 128, BK = 16, threads = 256, TM = 8, TN = 8, LM = 4, LN = 8 }
// axes.A = { values = ["f32", "f16"], pick = "dtype(a)" }
// axes.B = { values = ["f32", "f16"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.TILE = "configs"
// axes.FORM = ["any", "taps", "vec"]
// axes.AV = [1, 2, 4]
// axes."BV DV" = [1, 4]
// when = [
//   "A == 'f16' or D == 'f32'",
//   "B == 'f32' or (A == 'f16' and FORM == 'any' and BV == 1)",
//   "FORM == 'any' or BV == 4",
//   "FORM != 'any' or (AV == 1 and DV == 1)",
//   "TILE != '64x32' or FORM == 'any'",
//   "FORM != 'taps' or (AV == 1 and DV == 1)",
//   "FORM != 'vec' or AV == 4 * CFG.BN // CFG.threads",
// ]
// inputs.a = { dtype = "A", vec = "AV", axes = "n g c h w", doc = "The image." }
// inputs.b = { dtype = "B", vec = "BV", axes = "g r c", doc = "The weights as rows of k; if BV is 4, in vectors of rows." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", axes = "s n g o h w", doc = "If DV is 4, it is in vectors of channels." }
// params."rows pixels plane out_w depth split_depth splits across down" = { type = "u32" }
// include windows
// params."n0 n1 e0 e1 e2 dy1 dy2 dx0 dx1 step0 step1 step2" = { type = "u32" }
// include epilogue
// uses = ["tile/epilogue", "image_loader", "tile/loader", "tile/outer_product", "tile/split_k", "tile/swizzle"]
// grid = "b.shape[0] * splits * across * down"
// ///

// One workgroup computes BM output channels of BN pixels of one group (pixels are numbered through
// all images), from tiles of depth BK in workgroup memory; meanwhile the next tiles are loaded into
// registers. With split-K, dst is scratch, and the grid has one more digit for the split.
//
// FORM: "any" loads one k at a time; "taps" loads tiles of BK channels of one tap; "vec" does this
// in vectors of neighbouring channels (lib/image_loader).
//
// Bounds, for unchecked compilation: pixels and rows are clamped to their counts; an index outside of
// the image is replaced by the index of its first pixel; k stays below `k_prologue` in the first
// tile and below the split's end in the others; stores are guarded; indices into workgroup memory
// are lane numbers below the sizes of the arrays.
//% set PACKED = BV == 4
//% set A_TILE = {"FORM": FORM, "U": 4 * CFG.BN // CFG.threads, "EXTENT": CFG.BN, "BK": CFG.BK, "threads": CFG.threads}
//% set B_TILE = {"x": "b", "storage": B, "V": BV, "K_ROWS": PACKED, "EXTENT": CFG.BM, "BK": CFG.BK, "threads": CFG.threads}
${outer_product.memory(CFG.BM, CFG.BN, CFG.BK)}
${epilogue.functions(("bias",))}
${image_loader.functions()}
fn b_at(start: u32, row: u32, k: u32) -> u32 { return start + row * p.b_rs + k * p.b_cs; }

// Loads the next tiles. At the end, each form does what was measured to be faster for it: it skips
// the load by a branch, or loads the last tile again.
//% macro load_next()
//% if FORM != "vec"
    if (left > 1u) {
      ${image_loader.load_next(A_TILE, "1u")}
      ${loader.load_next(B_TILE)}
    }
//% else
    {
      let go = select(0u, 1u, left > 1u);
      ${image_loader.load_next(A_TILE, "go")}
      b_pos -= (1u - go) * ${CFG.BK}u * p.b_rs;
      ${loader.load_next(B_TILE)}
    }
//% endif
//% endmacro

// Stores the sums pixel by pixel, in vectors of channels if DV is 4.
//% macro store_tile()
//% for j in range(CFG.TN // 4)
//% for e in range(4)
  {
    let m = col0 + at_col + ${j * CFG.LN + e * CFG.BN // 4}u;
    if (m < p.pixels) {
      let image = m / p.plane;
      let inside = m - image * p.plane;
      let y = inside / p.out_w;
      let at = dst_start + image * p.dst_ns + y * p.dst_hs + (inside - y * p.out_w) * p.dst_ws;
//% if DV == 4
//% for i in range(0, CFG.TM, 4)
      let o${i} = row0 + (at_row + ${i // 4 * CFG.LM}u) * 4u;
      if (o${i} < p.rows) { dst_store(at + o${i} / 4u, ${epilogue.column_vector(i // 4, j, e)}); }
//% endfor
//% else
//% for i in range(CFG.TM)
      let o${i} = row0 + (at_row + ${i // 4 * CFG.LM}u) * 4u + ${i % 4}u;
      if (o${i} < p.rows) { dst_store(at + o${i} * p.dst_os, c${i}_${j}[${e}]); }
//% endfor
//% endif
    }
  }
//% endfor
//% endfor
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${swizzle.channels_first(CFG.BM, CFG.BN)}
  ${split_k.k_range("split")}

  let a_start = p.a_off + group * p.a_gs;
  let b_start = p.b_off + group * p.b_gs + k_first * ${"p.b_rs" if PACKED else "p.b_cs"};
  ${loader.init(B_TILE, "row0", "((p.rows + 3u) & 0xfffffffcu)" if PACKED else "p.rows")}
  ${split_k.prologue()}
  ${image_loader.init(A_TILE)}
  ${image_loader.load_prologue(A_TILE)}
  ${loader.load_prologue(B_TILE)}

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  for (var left = (k_count + 15u) / 16u; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
    ${image_loader.store_stage(A_TILE)}
    ${loader.store_stage(B_TILE)}
    workgroupBarrier();
    ${load_next()}
    ${outer_product.multiply(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BK)}
  }

  let channel0 = group * p.rows;
  ${epilogue.of_channels(CFG.TM, CFG.TN, CFG.LM)}
  let dst_start = p.dst_off + split * p.dst_ss + channel0 ${"/ 4u" if FORM == "vec" and DV == 4 else "* p.dst_os"};
  ${store_tile()}
}
