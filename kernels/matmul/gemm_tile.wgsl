// /// kernel
// doc = "Large products of mul_mat: tiles of 64 rows and 128 columns of dst, two tiles of operands in turn."
// part_of = "mul_mat"
// axes.A = ["f32", "u32"]
// axes.B = ["f32", "f16"]
// axes.D = ["f32", "f16"]
// axes.AV = [4]
// axes.BV = [1, 4]
// axes.BT = [false, true]
// axes.DV = [1, 4]
// axes.DT = [false, true]
// pick.A = "dtype(a)"
// pick.B = "dtype(b)"
// pick.D = "dtype(dst)"
// when = [
//   "(A, B, D) in (('f32', 'f32', 'f32'), ('u32', 'f16', 'f32'), ('u32', 'f16', 'f16'), ('u32', 'f32', 'f32'))",
//   "BV == 4 or not BT",
//   "DV == 4 or not DT",
// ]
// inputs.a = { dtype = "A", vec = "AV", doc = "(..., K, M), columns in whole vectors; u32: eight halves a vector" }
// inputs.b = { dtype = "B", vec = "BV", doc = "(..., N, K), or (..., K, N) where BT, in vectors or one by one" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M), or (..., M, N) where DT" }
// iterate = "tiles"
// params.rows = { type = "u32" }
// params.cols = { type = "u32" }
// params.depth = { type = "u32" }
// params.slice_depth = { type = "u32" }
// params.slice_batches = { type = "u32" }
// params.across = { type = "u32" }
// params.down = { type = "u32" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// params.residual_kind = { type = "u32", value = "0 if residual is None else 1 if residual.dtype.itemsize == 4 else 2" }
// params.act = { type = "u32" }
// params.raw = { type = "u32" }
// params.scale = { type = "f32", default = 1.0 }
// uses = ["product"]
// grid = "it.batches * across * down"
// ///

// One workgroup of 128 invocations computes 64 rows (from b) x 128 columns (from a) of dst, 8 x 8
// an invocation. While it multiplies one tile of 8 k, the stores of the next tile and the loads of
// the one after it stand in the middle of the product, so that one barrier a tile is enough and
// three workgroups fit a multiprocessor of a large GPU.
//
// What the loop spends beside its multiply-adds decides its speed. So halves come eight at a time as
// words; positions move once for two tiles, whose own places are in `a_from` and `b_from`; vectors
// of one invocation lie 16 (a) or 8 (b) apart, in an axis with a literal index, so that one index
// into workgroup memory serves both and is clamped once.
//
// Where b has k last (LAST), an invocation loads four k of one row and stores four elements. Its
// tile is of elements, as components of one vector must not be written by several invocations;
// the padding keeps the rows at four neighbouring k and those at the next four on different banks.
//
// Bounds, for unchecked compilation: rows and columns of loads are clamped to their counts; k to
// `head` in the first two tiles and to the slice in the places of the others, which move on by 16 k
// while two rounds of 16 are left; stores to dst are guarded; indices into workgroup
// memory are lane numbers below the sizes of the arrays.
//
// The order of the multiply-adds matters: each shares an operand with the one before it, and they
// should all have it on the same side, which a compiler decides by where the factors were loaded.
// Columns there and back, rows loaded first, is best for f32 with k as the row; rows there and back,
// columns loaded first, for the others (of LAST the rows are loaded in elements).
//% set NT, ROWS, COLS, TR, TC, LR, LC, DEEP = 128, 64, 128, 8, 8, 4, 8, 8
//% set WORDS = A == "u32"
//% set LAST = BV == 4 and not BT
//% set ROWS_FIRST = not WORDS and not LAST
//% set A_LOADS = 1 if WORDS else 2
//% set A_WIDE = 8 if WORDS else 4
//% set B_LOADS = 4 if BV == 1 else 1
//% set B_KIND = B if BV == 1 else "vec4<" ~ B ~ ">"
//% set B_UNIT = 4 if LAST else 1
//% set B_STEP = "" if LAST else " * p.b_rs" if BT else " * p.b_cs"
//% if LAST
struct Four {
  k: array<array<array<array<f32, 4>, ${ROWS // 8}>, 2>, 4>,
  pad: array<f32, 16>,
}
//% endif
//% for s in range(2)
var<workgroup> a_tile${s}: array<array<array<vec4<f32>, ${COLS // 8}>, 2>, ${DEEP}>;
//% if LAST
var<workgroup> b_tile${s}: array<Four, ${DEEP // 4}>;
//% else
var<workgroup> b_tile${s}: array<array<array<vec4<f32>, ${ROWS // 8}>, 2>, ${DEEP}>;
//% endif
//% endfor

${product.epilogue()}
${product.finish()}

//% macro loads(s)
//% for u in range(A_LOADS)
    a_v${u} = a_mem[a_from${s}${u} + a_pos];
//% endfor
//% for u in range(B_LOADS)
    b_v${u} = b_mem[b_from${s}${u} + b_pos];
//% endfor
//% endmacro

//% macro stores(s)
//% if WORDS
    a_tile${s}[a_k][0][a_i] = vec4<f32>(unpack2x16float(a_v0.x), unpack2x16float(a_v0.y));
    a_tile${s}[a_k][1][a_i] = vec4<f32>(unpack2x16float(a_v0.z), unpack2x16float(a_v0.w));
//% else
//% for u in range(2)
    a_tile${s}[a_k + ${4 * u}u][a_i >> 4u][a_i & 15u] = a_v${u};
//% endfor
//% endif
//% if LAST
//% for e in range(4)
    b_tile${s}[b_k].k[${e}][b_i >> 3u][b_i & 7u][b_e] = f32(b_v0[${e}]);
//% endfor
//% else
    b_tile${s}[b_k][b_i >> 3u][b_i & 7u] = vec4<f32>(${"b_v0" if BT else "vec4(b_v0, b_v1, b_v2, b_v3)"});
//% endif
//% endmacro

// The first tiles, which hold `head` k: zero beyond.
//% macro head_loads(t)
  {
//% for u in range(A_LOADS)
    let a_h${u} = a_mem[a_base + min(a_k + ${8 * t + 4 * u}u, head - 1u) * p.a_rs];
//% endfor
    let b_far = min(b_k + ${8 // B_UNIT * t}u, head / ${B_UNIT}u - 1u)${B_STEP};
//% for u in range(B_LOADS)
    let b_h${u} = b_mem[b_base${u} + b_far];
//% endfor
//% for u in range(A_LOADS)
    a_v${u} = select(vec4<${A}>(), a_h${u}, a_k + ${8 * t + 4 * u}u < head);
//% endfor
//% for u in range(B_LOADS)
    b_v${u} = select(${B_KIND}(), b_h${u}, b_k * ${B_UNIT}u + ${8 * t}u < head);
//% endfor
  }
//% endmacro

//% macro rows(s, k)
//% for i in range(2)
//% if LAST
//% set at = "b_tile" ~ s ~ "[" ~ (k // 4) ~ "].k[" ~ (k % 4) ~ "][" ~ i ~ "][at_row]"
      let r${i} = vec4<f32>(${at}[0], ${at}[1], ${at}[2], ${at}[3]);
//% else
      let r${i} = b_tile${s}[${k}][${i}][at_row];
//% endif
//% endfor
//% endmacro

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${product.where(ROWS, COLS)}
  let k_first = (batch / p.slice_batches) * p.slice_depth;
  let k_count = min(p.slice_depth, p.depth - k_first);
  let head = ((k_count - 1u) & 15u) + 1u;
  let rounds = (k_count + 15u) >> 4u;

  let a_i = li & ${COLS // A_WIDE - 1}u;
  let a_k = li / ${COLS // A_WIDE}u;
  let a_base = a_batch(batch) + k_first * p.a_rs + min(col0 / ${A_WIDE}u + a_i, (p.cols + ${A_WIDE - 1}u) / ${A_WIDE}u - 1u);
//% for s in range(2)
//% for u in range(A_LOADS)
  let a_from${s}${u} = a_base + min(a_k + ${8 * s + 4 * u}u, k_count - 1u) * p.a_rs;
//% endfor
//% endfor
//% if LAST
  let b_k = li & 1u;
  let b_e = (li >> 1u) & 3u;
  let b_i = li >> 3u;
  let b_base0 = b_at(b_batch(batch), min(row0 + b_i * 4u + b_e, p.rows - 1u), k_first / 4u);
//% elif BT
  let b_i = li & 15u;
  let b_k = li >> 4u;
  let b_base0 = b_batch(batch) + k_first * p.b_rs + min(row0 / 4u + b_i, (p.rows + 3u) / 4u - 1u);
//% else
  // Four neighbouring rows at one k; eight lanes take eight groups of rows, for the banks.
  let b_i = (li & 7u) | ((li >> 3u) & 8u);
  let b_k = (li >> 3u) & 7u;
//% for i in range(4)
  let b_base${i} = b_at(b_batch(batch), min(row0 + b_i * 4u + ${i}u, p.rows - 1u), k_first);
//% endfor
//% endif
//% for s in range(2)
  let b_near${s} = min(b_k + ${8 // B_UNIT * s}u, k_count / ${B_UNIT}u - 1u)${B_STEP};
//% for u in range(B_LOADS)
  let b_from${s}${u} = b_base${u} + b_near${s};
//% endfor
//% endfor
  let a_step = 16u * p.a_rs;
  var a_pos = select(0u, head * p.a_rs, rounds > 1u);
  let b_step = ${16 // B_UNIT}u${B_STEP};
  var b_pos = select(0u, head / ${B_UNIT}u${B_STEP}, rounds > 1u);
//% for u in range(A_LOADS)
  var a_v${u}: vec4<${A}>;
//% endfor
//% for u in range(B_LOADS)
  var b_v${u}: ${B_KIND};
//% endfor
  ${head_loads(0)}
  ${stores(0)}
  ${head_loads(1)}

  ${product.lanes(TR // 2, TC // 2, LR, LC, COLS // 2)}
  ${product.sums(TR, TC)}

  workgroupBarrier();
  for (var left = rounds; left > 0u; left -= 1u) {
//% for s in range(2)
//% for k in range(DEEP)
    {
//% if ROWS_FIRST
      ${rows(s, k)}
//% endif
//% for j in range(2)
      let q${j} = a_tile${s}[${k}][${j}][at_col];
//% endfor
//% if not ROWS_FIRST
      ${rows(s, k)}
//% endif
//% for line in range(8)
//% for n in range(8)
//% set there = n if line % 2 == 0 else 7 - n
//% set i, j = (there, line) if ROWS_FIRST else (line, there)
      c${i}_${j // 4}[${j % 4}] = fma(r${i // 4}[${i % 4}], q${j // 4}[${j % 4}], c${i}_${j // 4}[${j % 4}]);
//% endfor
//% endfor
    }
//% if k == 3
    ${stores(1 - s)}
    ${loads(s)}
//% endif
//% endfor
    workgroupBarrier();  // the other tiles are complete, these have been read
//% endfor
    // They stay where the last tiles are. With min() the loop is 1 to 2 % slower.
    a_pos += select(0u, a_step, left > 2u);
    b_pos += select(0u, b_step, left > 2u);
  }

  // Columns of a vector of eight halves are neighbours, rows always half a tile apart.
  ${product.write(TR, TC, LR * 2, 1 if WORDS else LC * 2, DV, DT, " * 2u" if WORDS else "")}
}
