// /// kernel
// doc = "Large products of mul_mat, in tiles of 64 rows and 128 columns of dst; workgroup memory has two tiles of each operand."
// part_of = "mul_mat"
// configs.64x128 = { BM = 64, BN = 128, BK = 8, threads = 128, TM = 8, TN = 8, LM = 4, LN = 8 }
// axes.A = { values = ["f32", "u32"], pick = "dtype(a)" }
// axes.B = { values = ["f32", "f16"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.AV = [4]
// axes.BV = [1, 4]
// axes.BT = [false, true]
// axes.DV = [1, 4]
// axes.DT = [false, true]
// axes.TILE = { values = "configs", pick = "'64x128'" }
// when = [
//   "(A, B, D) in (('f32', 'f32', 'f32'), ('u32', 'f16', 'f32'), ('u32', 'f16', 'f16'), ('u32', 'f32', 'f32'))",
//   "BV == 4 or not BT",
//   "DV == 4 or not DT",
// ]
// inputs.a = { dtype = "A", vec = "AV", doc = "(..., K, M), with columns in whole vectors; for u32, a vector has eight halves" }
// inputs.b = { dtype = "B", vec = "BV", doc = "(..., N, K), or (..., K, N) if BT, in vectors or as single elements" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M), or (..., M, N) where DT" }
// include part
// params."across down" = { type = "u32" }
// include epilogue
// params.scale = { type = "f32", default = 1.0 }
// uses = ["tile/epilogue", "tile/outer_product", "tile/split_k", "tile/swizzle"]
// grid = "it.batches * across * down"
// ///

// One workgroup of 128 invocations computes BM = 64 rows (from b) x BN = 128 columns (from a) of dst,
// and each invocation computes TM x TN = 8 x 8 of them. In the middle of the product of a tile,
// which is BK = 8 deep, the next tile is stored and the tile after it is loaded. So each tile needs
// only one barrier, and three workgroups fit on a multiprocessor of a large GPU.
//
// The instructions that are not multiply-adds decide the loop's speed. So eight halves are loaded
// at a time as words. Positions move once for every two tiles; the positions of each tile are
// `a_from` and `b_from`. The vectors of one invocation lie 16 (a) or 8 (b) apart along an axis with
// a literal index, so that one index into workgroup memory, clamped once, serves both vectors.
//
// If b has k last (B_K_LAST), an invocation loads one row at four neighbouring k and stores four
// elements. The tile then holds elements, because several invocations must not write components of
// one vector. Padding puts the rows at four neighbouring k and the rows at the next four k on
// different banks.
//
// Bounds, for unchecked compilation: rows and columns of loads are clamped to their counts; k stays
// below `k_prologue` in the first two tiles; in the others it stays inside the split, because
// positions move on by 16 steps of k only while two rounds of 16 steps are left; stores to dst are
// guarded; indices into workgroup memory are lane numbers below the sizes of the arrays.
//
// The order of the multiply-adds matters. Each multiply-add shares a factor with the previous
// multiply-add. The shared factor should always come from the same operand; the compiler picks this
// operand by the order of the loads. For f32 with k as the axis of rows, it is best to go down the
// columns and back, and to load rows first. In all other cases it is best to go along the rows and
// back and to load columns first (B_K_LAST loads rows as elements).
//% set WORDS = A == "u32"
//% set B_K_LAST = BV == 4 and not BT
//% set DOWN_COLUMNS = not WORDS and not B_K_LAST
//% set A_LOADS = 1 if WORDS else 2
//% set A_PER_LOAD = 8 if WORDS else 4
//% set B_LOADS = 4 if BV == 1 else 1
//% set B_KIND = B if BV == 1 else "vec4<" ~ B ~ ">"
//% set B_UNIT = 4 if B_K_LAST else 1
//% set B_STEP = "" if B_K_LAST else " * p.b_rs" if BT else " * p.b_cs"
//% if B_K_LAST
struct Four {
  k: array<array<array<array<f32, 4>, ${CFG.BM // 8}>, 2>, 4>,
  pad: array<f32, 16>,
}
//% endif
//% for s in range(2)
var<workgroup> a_tile${s}: array<array<array<vec4<f32>, ${CFG.BN // 8}>, 2>, ${CFG.BK}>;
//% if B_K_LAST
var<workgroup> b_tile${s}: array<Four, ${CFG.BK // 4}>;
//% else
var<workgroup> b_tile${s}: array<array<array<vec4<f32>, ${CFG.BM // 8}>, 2>, ${CFG.BK}>;
//% endif
//% endfor

${epilogue.functions()}
${epilogue.of_rows()}

//% macro a_loader_init()
  let a_i = li & ${CFG.BN // A_PER_LOAD - 1}u;
  let a_k = li / ${CFG.BN // A_PER_LOAD}u;
  let a_base = a_batch(batch) + k_first * p.a_rs + min(col0 / ${A_PER_LOAD}u + a_i, (p.cols + ${A_PER_LOAD - 1}u) / ${A_PER_LOAD}u - 1u);
//% for s in range(2)
//% for u in range(A_LOADS)
  let a_from${s}${u} = a_base + min(a_k + ${CFG.BK * s + 4 * u}u, k_count - 1u) * p.a_rs;
//% endfor
//% endfor
//% endmacro

//% macro b_loader_init()
//% if B_K_LAST
  let b_k = li & 1u;
  let b_e = (li >> 1u) & 3u;
  let b_i = li >> 3u;
  let b_base0 = b_at(b_batch(batch), min(row0 + b_i * 4u + b_e, p.rows - 1u), k_first / 4u);
//% elif BT
  let b_i = li & 15u;
  let b_k = li >> 4u;
  let b_base0 = b_batch(batch) + k_first * p.b_rs + min(row0 / 4u + b_i, (p.rows + 3u) / 4u - 1u);
//% else
  // Four neighbouring rows at one k; eight lanes take eight groups of rows, so that they use different
  // banks.
  let b_i = (li & 7u) | ((li >> 3u) & 8u);
  let b_k = (li >> 3u) & 7u;
//% for i in range(4)
  let b_base${i} = b_at(b_batch(batch), min(row0 + b_i * 4u + ${i}u, p.rows - 1u), k_first);
//% endfor
//% endif
//% for s in range(2)
  let b_near${s} = min(b_k + ${CFG.BK // B_UNIT * s}u, k_count / ${B_UNIT}u - 1u)${B_STEP};
//% for u in range(B_LOADS)
  let b_from${s}${u} = b_base${u} + b_near${s};
//% endfor
//% endfor
//% endmacro

// Positions in the operands, and the registers of the loads.
//% macro positions()
  let a_step = ${2 * CFG.BK}u * p.a_rs;
  var a_pos = select(0u, k_prologue * p.a_rs, rounds > 1u);
  let b_step = ${2 * CFG.BK // B_UNIT}u${B_STEP};
  var b_pos = select(0u, k_prologue / ${B_UNIT}u${B_STEP}, rounds > 1u);
//% for u in range(A_LOADS)
  var a_v${u}: vec4<${A}>;
//% endfor
//% for u in range(B_LOADS)
  var b_v${u}: ${B_KIND};
//% endfor
//% endmacro

// Loads one of the first two tiles, which hold `k_prologue` steps of k and zeros beyond.
//% macro load_prologue(s)
  {
//% for u in range(A_LOADS)
    let a_h${u} = a_mem[a_base + min(a_k + ${CFG.BK * s + 4 * u}u, k_prologue - 1u) * p.a_rs];
//% endfor
    let b_far = min(b_k + ${CFG.BK // B_UNIT * s}u, k_prologue / ${B_UNIT}u - 1u)${B_STEP};
//% for u in range(B_LOADS)
    let b_h${u} = b_mem[b_base${u} + b_far];
//% endfor
//% for u in range(A_LOADS)
    a_v${u} = select(vec4<${A}>(), a_h${u}, a_k + ${CFG.BK * s + 4 * u}u < k_prologue);
//% endfor
//% for u in range(B_LOADS)
    b_v${u} = select(${B_KIND}(), b_h${u}, b_k * ${B_UNIT}u + ${CFG.BK * s}u < k_prologue);
//% endfor
  }
//% endmacro

//% macro load_next(s)
//% for u in range(A_LOADS)
    a_v${u} = a_mem[a_from${s}${u} + a_pos];
//% endfor
//% for u in range(B_LOADS)
    b_v${u} = b_mem[b_from${s}${u} + b_pos];
//% endfor
//% endmacro

//% macro store_stage(s)
//% if WORDS
    a_tile${s}[a_k][0][a_i] = vec4<f32>(unpack2x16float(a_v0.x), unpack2x16float(a_v0.y));
    a_tile${s}[a_k][1][a_i] = vec4<f32>(unpack2x16float(a_v0.z), unpack2x16float(a_v0.w));
//% else
//% for u in range(2)
    a_tile${s}[a_k + ${4 * u}u][a_i >> 4u][a_i & 15u] = a_v${u};
//% endfor
//% endif
//% if B_K_LAST
//% for e in range(4)
    b_tile${s}[b_k].k[${e}][b_i >> 3u][b_i & 7u][b_e] = f32(b_v0[${e}]);
//% endfor
//% else
    b_tile${s}[b_k][b_i >> 3u][b_i & 7u] = vec4<f32>(${"b_v0" if BT else "vec4(b_v0, b_v1, b_v2, b_v3)"});
//% endif
//% endmacro

//% macro load_rows(s, k)
//% for i in range(2)
//% if B_K_LAST
//% set at = "b_tile" ~ s ~ "[" ~ (k // 4) ~ "].k[" ~ (k % 4) ~ "][" ~ i ~ "][at_row]"
      let r${i} = vec4<f32>(${at}[0], ${at}[1], ${at}[2], ${at}[3]);
//% else
      let r${i} = b_tile${s}[${k}][${i}][at_row];
//% endif
//% endfor
//% endmacro

//% macro load_columns(s, k)
//% for j in range(2)
      let q${j} = a_tile${s}[${k}][${j}][at_col];
//% endfor
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${swizzle.grouped_rows(CFG.BM, CFG.BN)}
  ${split_k.k_range("(batch / p.split_batches)")}
  ${split_k.prologue()}
  let rounds = (k_count + 15u) >> 4u;

  ${a_loader_init()}
  ${b_loader_init()}
  ${positions()}
  ${load_prologue(0)}
  ${store_stage(0)}
  ${load_prologue(1)}

  ${outer_product.lane_layout(CFG.TM // 2, CFG.TN // 2, CFG.LM, CFG.LN, CFG.BN // 2)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  workgroupBarrier();
  for (var left = rounds; left > 0u; left -= 1u) {
//% for s in range(2)
//% for k in range(CFG.BK)
    {
      ${load_rows(s, k) ~ load_columns(s, k) if DOWN_COLUMNS else load_columns(s, k) ~ load_rows(s, k)}
      ${outer_product.fma_components(CFG.TM, CFG.TN, DOWN_COLUMNS)}
    }
//% if k == 3
    ${store_stage(1 - s)}
    ${load_next(s)}
//% endif
//% endfor
    workgroupBarrier();  // the other tiles are complete, and these tiles have been read
//% endfor
    // The positions stop at the last tiles. With min() in place of select(), the loop would be 1 to
    // 2 % slower.
    a_pos += select(0u, a_step, left > 2u);
    b_pos += select(0u, b_step, left > 2u);
  }

  // An invocation's two vectors of rows lie half a tile apart. So do its two vectors of columns,
  // except with WORDS, where they are neighbours.
  ${epilogue.store_tile(CFG.TM, CFG.TN, CFG.LM * 2, 1 if WORDS else CFG.LN * 2, DV, DT, " * 2u" if WORDS else "")}
}
