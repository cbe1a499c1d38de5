// /// kernel
// doc = "Tiles of mul_mat_quant; weights are stored to workgroup memory as f32."
// part_of = "mul_mat_quant"
// configs.32x64 = { BM = 32, BN = 64, BK = 16, threads = 64, TM = 8, TN = 4, LM = 4, LN = 8 }
// configs.64x64 = { BM = 64, BN = 64, BK = 16, threads = 64, TM = 8, TN = 8, LM = 4, LN = 8 }
// include weights
// axes.TILE = "configs"
// include product
// params.down = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", arg = true }
// uses = ["tile/epilogue", "tile/outer_product", "tile/split_k", "tile/swizzle", "quant/${TYPE}", "quantised"]
// grid = "it.batches * across * down"
// ///

// One workgroup computes BM rows (from b) x BN columns (from the weights) of dst, and each invocation
// TM x TN sums of them. Each invocation takes one group of 32 weights of a column at a time and
// stores it in two halves of BK = 16 weights; the next group is loaded while the halves are
// multiplied.
//
// Workgroup memory holds elements, not vectors: several invocations must not write components of one
// vector.
//
// Bounds, for unchecked compilation: rows and columns of loads are clamped to their counts, groups lie
// below the split's end; stores are guarded; indices into workgroup memory are lane numbers below the
// sizes of the arrays.
//% set EACH = 4 if B == "f32" else 8
// How b is loaded for a half: the number of invocations for a row, and the number of rows in a
// round.
//% set ACROSS = CFG.BK // EACH
//% set ROWS = CFG.threads // ACROSS
//% set LOADS = [CFG.BM // ROWS, 1] | max
var<workgroup> a_tile: array<array<array<f32, 4>, ${CFG.BN // 4}>, ${CFG.BK}>;
var<workgroup> b_tile: array<array<array<f32, 4>, ${CFG.BM // 4}>, ${CFG.BK}>;

${epilogue.functions()}
${epilogue.of_rows()}
${quantised.functions()}

//% macro load_rows(unit)
//% for u in range(LOADS)
    b_v${u} = b_mem[b_from${u} + ${unit}];
//% endfor
//% endmacro

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
//% if ROWS > CFG.BM
    if (b_r < ${CFG.BM}u) {
//% else
    {
//% endif
//% for u in range(LOADS)
//% set at = "[(b_r + %du) >> 2u][b_r & 3u]" % (u * ROWS)
//% if B == "f32"
//% for e in range(4)
      b_tile[b_k + ${e}u]${at} = b_v${u}[${e}];
//% endfor
//% else
//% for e in range(4)
      let h${u}_${e} = unpack2x16float(b_v${u}[${e}]);
      b_tile[b_k + ${2 * e}u]${at} = h${u}_${e}.x;
      b_tile[b_k + ${2 * e + 1}u]${at} = h${u}_${e}.y;
//% endfor
//% endif
//% endfor
    }
//% endmacro

//% macro vector(tile, k, at)
vec4<f32>(${tile}[${k}][${at}][0], ${tile}[${k}][${at}][1], ${tile}[${k}][${at}][2], ${tile}[${k}][${at}][3])
//%- endmacro

//% macro multiply()
//% for k in range(CFG.BK)
    {
//% for i in range(CFG.TM // 4)
      let r${i} = ${vector("b_tile", k, "at_row + %du" % (i * CFG.LM))};
//% endfor
//% for j in range(CFG.TN // 4)
      let q${j} = ${vector("a_tile", k, "at_col + %du" % (j * CFG.LN))};
//% endfor
${outer_product.fma_vectors(CFG.TM, CFG.TN, true)}
    }
//% endfor
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${swizzle.grouped_rows(CFG.BM, CFG.BN)}
  ${split_k.k_range("(batch / p.split_batches)")}
  let first_group = k_first >> 5u;
  let end_group = (k_first + k_count) >> 5u;

  let n = min(col0 + li, p.cols - 1u);
  let b_k = (li & ${ACROSS - 1}u) * ${EACH}u;
  let b_r = li / ${ACROSS}u;
  let b_start = b_batch(batch) + (k_first + b_k) / ${EACH}u;
//% for u in range(LOADS)
  let b_from${u} = b_at(b_start, min(row0 + b_r + ${u * ROWS}u, p.rows - 1u), 0u);
  var b_v${u}: vec4<${B}>;
//% endfor
  var words = load_quants(0u, first_group, n);
  var record = load_words(0u, first_group / ${quant.BLOCK // 32}u, n);
  ${load_rows("0u")}

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  for (var k = first_group; k < end_group; k += 1u) {
    let unit = (k - first_group) * ${32 // EACH}u;
    let own = own_words(record, n);
    let scale = scales_of(own, k % ${quant.BLOCK // 32}u);
//% if quantised.ZERO
    let zero = zeros_of(own, k % ${quant.BLOCK // 32}u);
//% endif
//% if quant.OFFSET
    let offset = offsets_of(own, k % ${quant.BLOCK // 32}u);
//% endif
    workgroupBarrier();  // the last tiles have been read
    ${store_stage(0)}
    workgroupBarrier();
    ${load_rows("unit + %du" % (16 // EACH))}
    ${multiply()}
    workgroupBarrier();  // the first half has been read
    ${store_stage(1)}
    workgroupBarrier();
    if (k + 1u < end_group) {
      words = load_quants(0u, k + 1u, n);
      record = load_words(0u, (k + 1u) / ${quant.BLOCK // 32}u, n);
      ${load_rows("unit + %du" % (32 // EACH))}
    }
    ${multiply()}
  }
  ${epilogue.store_tile(CFG.TM, CFG.TN, CFG.LM, CFG.LN, 1)}
}
