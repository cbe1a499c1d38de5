// /// kernel
// doc = "Products of mul_mat on matrix units, in slices of K. f32 operands are two planes of halves, and sums are f32."
// part_of = "mul_mat"
// configs.32x32 = { BM = 32, BN = 32, BK = 32, WM = 16, WN = 16, threads = 128 }
// configs.64x128 = { BM = 64, BN = 128, BK = 16, WM = 32, WN = 64, threads = 128 }
// configs.128x128 = { BM = 128, BN = 128, BK = 16, WM = 64, WN = 32, threads = 256 }
// axes.MMA = "mma"
// axes.TILE = "configs"
// axes.AS = { values = [1, 2], pick = "1 if a_top is None else 2" }
// axes."AV BV" = { values = [4], pick = "4" }
// axes.DV = { values = [1, 4], pick = "4 if partials.vectorizable(4) else 1" }
// when = ["MMA != 'emulated' or CFG.BM == 32"]  # software drivers take minutes for larger tiles
// fragments = "'f16'"
// workgroup_bytes = "49152 if MMA == 'cooperative_matrix' else 24576 if CFG.BM > 64 else 16384"
// inputs.a = { dtype = "u32", vec = "AV", readonly = true, doc = "(..., K, M) in words of two halves, as AS planes; see split_halves" }
// inputs.b = { dtype = "u32", vec = "BV", readonly = true, doc = "(..., N, K) in words of two halves: two planes" }
// inputs.a_top = { dtype = "f32", optional = true, readonly = true, doc = "The largest |a| of each m, (..., 1, M) broadcast to dst; absent if a is one plane" }
// inputs.b_top = { dtype = "f32", readonly = true, doc = "The largest |b| of each n, (..., N, 1) broadcast to dst" }
// outputs.partials = { dtype = "f32", vec = "DV", doc = "(splits, ..., N, M)" }
// include part
// params."slice across down" = { type = "u32" }
// uses = ["tile/split_k", "tile/swizzle", "mma/${MMA}", "tile/mma_loader", "tile/mma_product", "planes"]
// grid = "it.batches * across * down"
// ///

// One workgroup computes BM rows (from b) x BN columns (from a) of one split of K, each of its
// subgroups WM x WN. The loader sees an operand of two planes as one operand of twice the depth: 16
// steps of k of the high plane, then the same steps of the low plane.
//
// A number, times its power of two, is high + low / 2048. Fragment c sums high times high, and
// fragment d sums high times low, so that the matrix unit does not truncate small terms to the last
// place of large terms. Low times low is left out. The sums are stored through workgroup memory,
// where the scaling of the planes by powers of two is undone. After every `p.slice` steps of k, the
// sums of high times high are added in plain f32 in the invocation's own memory.
//
// Bounds, for unchecked compilation, are the same as in gemm_mma.
//% set UNITS, BK2 = mma.UNIT, 2 * CFG.BK
//% set B_TILE = {"x": "b", "EXTENT": CFG.BM, "K_ROWS": false, "ACROSS": BK2 // UNITS, "ROWS": CFG.BM, "BASE": 0, "BK": BK2}
//% set A_BASE = B_TILE.ROWS * (B_TILE.ACROSS + 1)
//% set A_TILE = {"x": "a", "EXTENT": CFG.BN, "K_ROWS": true, "ACROSS": CFG.BN // UNITS, "ROWS": AS * CFG.BK, "BASE": A_BASE, "BK": AS * CFG.BK}
//% set SUBGROUPS = CFG.threads // 32
// The number of 16-byte units in a row of a fragment of sums, and in the two fragments of a
// subgroup.
//% set ROW_UNITS, SUM_UNITS = 5, 2 * 16 * 5
${mma.memory(A_BASE + A_TILE.ROWS * (A_TILE.ACROSS + 1), SUBGROUPS * SUM_UNITS, CFG.threads)}
${mma_loader.functions()}
${planes.exponents()}

//% set A_END = "k_end" if AS == 1 else "planes_end"
//% macro loads(k)
    ${mma_loader.load(B_TILE, "(2u * %s)" % k, "planes_end")}
    ${mma_loader.load(A_TILE, "(%du * %s)" % (AS, k), A_END)}
//% endmacro

//% macro product()
//% for k in range(0, CFG.BK, mma.K)
    {
//% for j in range(CFG.WN // mma.N)
      ${mma_loader.right(A_TILE, j, AS * k, "_high")}
//% if AS == 2
      ${mma_loader.right(A_TILE, j, 2 * k + 16, "_low")}
//% endif
//% endfor
//% for i in range(CFG.WM // mma.M)
      ${mma_loader.left(B_TILE, i, 2 * k, "_high")}
      ${mma_loader.left(B_TILE, i, 2 * k + 16, "_low")}
//% for j in range(CFG.WN // mma.N)
      ${mma.multiply_add("d%d_%d" % (i, j), "b_low%d" % i, "a_high%d" % j)}
//% endfor
//% if AS == 2
//% for j in range(CFG.WN // mma.N)
      ${mma.multiply_add("d%d_%d" % (i, j), "b_high%d" % i, "a_low%d" % j)}
//% endfor
//% endif
//% for j in range(CFG.WN // mma.N)
      ${mma.multiply_add("c%d_%d" % (i, j), "b_high%d" % i, "a_high%d" % j)}
//% endfor
//% endfor
    }
//% endfor
//% endmacro

// Two fragments are stored at a time; a lane has two vectors of each.
//% set N_J = CFG.WN // mma.N
//% macro add_slice()
//% for at in range(0, CFG.WM // mma.M * N_J, 2)
//% set pair = [at, at + 1] if at + 1 < CFG.WM // mma.M * N_J else [at]
    workgroupBarrier();
//% for f in pair
    ${mma.store("c%d_%d" % (f // N_J, f % N_J), "strip + %du" % (16 * ROW_UNITS * (f - at)), "%du" % ROW_UNITS)}
//% endfor
    workgroupBarrier();
//% for f in pair
//% for half in range(2)
    own_sums[${2 * f + half}] += ${mma.result_unit("unit + %du" % ((16 * (f - at) + 8 * half) * ROW_UNITS))};
//% endfor
//% endfor
//% endfor
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32${mma.arguments()}) {
  let g = ${mma.group()};
  if (g >= p.groups) { return; }
  ${mma.position()}
  ${swizzle.grouped_rows(CFG.BM, CFG.BN)}
  ${split_k.k_range("(batch / p.split_batches)")}
  let k_end = k_first + k_count;
  let planes_end = (k_end + 15u) / 16u * 32u;
  ${mma_loader.init(B_TILE, "row0", "p.rows")}
  ${mma_loader.init(A_TILE, "col0", "p.cols")}

  ${mma_product.sums(B_TILE, A_TILE)}
//% for i in range(CFG.WM // mma.M)
//% for j in range(CFG.WN // mma.N)
  ${mma.zero("d%d_%d" % (i, j))}
//% endfor
//% endfor

  // A lane takes four columns of two rows of each fragment.
  let strip = min(warp * ${SUM_UNITS}u, ${(SUBGROUPS - 1) * SUM_UNITS}u);
  let unit = strip + (lane >> 2u) * ${ROW_UNITS}u + (lane & 3u);
  var own_sums = array<vec4<f32>, ${CFG.WM // mma.M * N_J * 2}>();
  ${mma_product.accumulate_slices(B_TILE, A_TILE, loads, add_slice, product)}

  let first = partials_batch(batch);
//% if AS == 2
  let a_tops = a_top_batch(batch);
//% endif
//% for j in range(CFG.WN // mma.N)
  let m${j} = col0 + warp_col + ${j * mma.N}u + (lane & 3u) * 4u;
  var a_power${j} = vec4<i32>();
//% if AS == 2
//% for e in range(4)
  a_power${j}[${e}] = exponent_of(a_top_load(a_top_at(a_tops, 0u, min(m${j} + ${e}u, p.cols - 1u))));
//% endfor
//% endif
//% endfor
  let b_tops = b_top_batch(batch);
//% for i in range(CFG.WM // mma.M)
//% for half in range(2)
  let row${i}_${half} = row0 + warp_row + ${i * mma.M + 8 * half}u + (lane >> 2u);
  let b_power${i}_${half} = exponent_of(b_top_load(b_top_at(b_tops, min(row${i}_${half}, p.rows - 1u), 0u)));
//% endfor
//% for j in range(CFG.WN // mma.N)
  workgroupBarrier();  // the operands, or the previous sums, have been read
  ${mma.store("c%d_%d" % (i, j), "strip", "%du" % ROW_UNITS)}
  ${mma.store("d%d_%d" % (i, j), "strip + %du" % (16 * ROW_UNITS), "%du" % ROW_UNITS)}
  workgroupBarrier();
//% for half in range(2)
  if (row${i}_${half} < p.rows) {
    let c = ${mma.result_unit("unit + %du" % (8 * half * ROW_UNITS))} + own_sums[${2 * (i * N_J + j) + half}];
    let d = ${mma.result_unit("unit + %du" % ((16 + 8 * half) * ROW_UNITS))};
    // Low planes have no inf and no NaN; only high planes do.
    let infinite = (bitcast<vec4<u32>>(c) & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u);
    let sum = select(c + d * ${1 / 2048}f, c, infinite);
    let v = times_power(sum, -(a_power${j} + b_power${i}_${half}));
//% if DV == 4
    if (m${j} < p.cols) { partials_store(partials_at(first, row${i}_${half}, m${j} / 4u), v); }
//% else
//% for e in range(4)
    if (m${j} + ${e}u < p.cols) { partials_store(partials_at(first, row${i}_${half}, m${j} + ${e}u), v[${e}]); }
//% endfor
//% endif
  }
//% endfor
//% endfor
//% endfor
}
