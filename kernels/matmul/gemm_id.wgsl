// /// kernel
// doc = "Tiles of mul_mat_id with quantised weights, which are stored to workgroup memory as f32."
// part_of = "mul_mat_id"
// configs.16x64 = { BM = 16, BN = 64, BK = 16, threads = 64, TM = 4, TN = 4, LM = 4, LN = 8 }
// axes.TYPE = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4", "nbits4", "nbits8", "nbits4_16", "nbits8_16"]
// axes.LV = [2, 4]
// axes.B = ["f32", "u32"]
// axes.D = ["f32", "f16"]
// axes.BV = [4]
// axes.TILE = "configs"
// when = [
//   "LV == (2 if TYPE in ('q2_k', 'q3_k') else 4)",
//   "(B, D) in (('f32', 'f32'), ('u32', 'f32'), ('u32', 'f16'))",
// ]
// pick.B = "dtype(b)"
// pick.D = "dtype(dst)"
// pick.BV = "4"
// pick.TILE = "'16x64'"
// include id_rows
// inputs.low = { dtype = "u32", index = false, readonly = true, vec = "LV", axes = "b g p n" }
// inputs.scales = { dtype = "u32", index = false, readonly = true, axes = "b g w n" }
// inputs.high = { dtype = "u32", index = false, readonly = true, axes = "b g p n", optional = true, when = "TYPE in ('q5_0', 'q5_1', 'q3_k', 'q5_k', 'q6_k')" }
// include id_sums
// uses = ["tile/outer_product", "tile/epilogue", "quant/${TYPE}", "quantised", "gated", "id_tile"]
// grid = "across * tiles_n"
// ///

// One workgroup computes BM rows of one expert x BN columns of dst, as gemm_quant does, with rows of b
// and dst that expert_tiles has sorted.
//
// Bounds, for unchecked compilation: rows of loads are clamped to the tile's count, columns to their
// count; groups are whole; stores are guarded; indices into workgroup memory are lane numbers below the
// sizes of the arrays.
//% set GROUPS = quant.BLOCK // 32
${id_tile.memory()}
${quantised.functions()}

// Stores half `half` of the group to workgroup memory.
//% macro store_stage(half)
//% for i in range(4)
    {
//% set integers = quantised.four("words", 4 * half + i)|trim
      let v = ${"(%s - zero[%d])" % (integers, half) if quantised.ZERO else integers} * scale[${half}]${" + offset[%d]" % half if quant.OFFSET};
//% for e in range(4)
      a_tile[${4 * i + e}][li >> 2u][li & 3u] = v[${e}];
//% endfor
    }
//% endfor
    ${id_tile.store_rows()}
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${id_tile.init()}
  let end_group = p.depth >> 5u;
  var words = load_quants(expert, 0u, n);
  var record = load_words(expert, 0u, n);
  ${id_tile.load_rows("0u")}

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  for (var k = 0u; k < end_group; k += 1u) {
    let unit = k * ${32 // id_tile.EACH}u;
    let own = own_words(record, n);
    let scale = scales_of(own, k % ${GROUPS}u);
//% if quantised.ZERO
    let zero = zeros_of(own, k % ${GROUPS}u);
//% endif
//% if quant.OFFSET
    let offset = offsets_of(own, k % ${GROUPS}u);
//% endif
    workgroupBarrier();  // the last tiles have been read
    ${store_stage(0)}
    workgroupBarrier();
    ${id_tile.load_rows("unit + %du" % (16 // id_tile.EACH))}
    ${id_tile.multiply()}
    workgroupBarrier();  // the first half has been read
    ${store_stage(1)}
    workgroupBarrier();
    if (k + 1u < end_group) {
      words = load_quants(expert, k + 1u, n);
      record = load_words(expert, (k + 1u) / ${GROUPS}u, n);
      ${id_tile.load_rows("unit + %du" % (32 // id_tile.EACH))}
    }
    ${id_tile.multiply()}
  }
  ${id_tile.store()}
}
