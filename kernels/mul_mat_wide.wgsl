// /// kernel
// doc = "Large products of mul_mat: tiles of 64 rows and 128 columns of dst, two tiles of operands in turn."
// part_of = "mul_mat"
// axes.A = ["f32", "f16"]
// axes.B = ["f32", "f16"]
// axes.D = ["f32", "f16"]
// axes.AV = [4]
// axes.BV = [1, 4]
// axes.DV = [1, 4]
// axes.DT = [false, true]
// pick.A = "dtype(a)"
// pick.B = "dtype(b)"
// pick.D = "dtype(dst)"
// when = [
//   "(A, B, D) in (('f32', 'f32', 'f32'), ('f16', 'f16', 'f32'), ('f16', 'f16', 'f16'), ('f16', 'f32', 'f32'))",
//   "DV == 4 or not DT",
// ]
// inputs.a = { dtype = "A", vec = "AV", doc = "(..., K, M), columns in whole vectors" }
// inputs.b = { dtype = "B", vec = "BV", doc = "(..., N, K), or (..., K, N) in whole vectors" }
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
// Bounds, for unchecked compilation: rows and columns of loads are clamped to their counts; k to
// `head` in the first two tiles, later by a_end and b_end, which end with the slice; stores to dst
// are guarded; indices into workgroup memory are lane numbers below the sizes of the arrays.
//
// The order of the multiply-adds matters: each shares an operand with the one before it. Columns
// there and back are best for f32, rows there and back for f16.
//% set NT, ROWS, COLS, TR, TC, LR, LC, DEEP = 128, 64, 128, 8, 8, 4, 8, 8
//% set BT = BV == 4
//% set B_LOADS = 1 if BT else 4
//% for s in range(2)
var<workgroup> a_tile${s}: array<array<vec4<f32>, ${COLS // 4}>, ${DEEP}>;
var<workgroup> b_tile${s}: array<array<vec4<f32>, ${ROWS // 4}>, ${DEEP}>;
//% endfor

${product.epilogue()}
${product.finish()}

//% macro loads(pos)
//% for u in range(2)
    a_v${u} = a_mem[a_from${u} + a_pos];
//% endfor
//% for u in range(B_LOADS)
    b_v${u} = b_mem[b_from${u} + b_pos];
//% endfor
    a_pos = min(a_pos + a_step, a_end);
    b_pos = min(b_pos + b_step, b_end);
//% endmacro

//% macro stores(s)
//% for u in range(2)
    a_tile${s}[a_k + ${4 * u}u][a_i] = vec4<f32>(a_v${u});
//% endfor
//% if BT
    b_tile${s}[b_k][b_i] = vec4<f32>(b_v0);
//% else
    b_tile${s}[b_k][b_i] = vec4<f32>(vec4(b_v0, b_v1, b_v2, b_v3));
//% endif
//% endmacro

// The first tiles, which hold `head` k: zero beyond.
//% macro head_loads(t)
  {
//% for u in range(2)
    let a_h${u} = a_mem[a_base + min(a_k + ${8 * t + 4 * u}u, head - 1u) * p.a_rs];
//% endfor
    let b_far = min(b_k + ${8 * t}u, head - 1u) * ${"p.b_rs" if BT else "p.b_cs"};
//% for u in range(B_LOADS)
    let b_h${u} = b_mem[b_base${u} + b_far];
//% endfor
//% for u in range(2)
    a_v${u} = select(vec4<${A}>(), a_h${u}, a_k + ${8 * t + 4 * u}u < head);
//% endfor
//% for u in range(B_LOADS)
    b_v${u} = select(${"vec4<" ~ B ~ ">" if BT else B}(), b_h${u}, b_k + ${8 * t}u < head);
//% endfor
  }
//% endmacro

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${product.where(ROWS, COLS)}
  let k_first = (batch / p.slice_batches) * p.slice_depth;
  let k_count = min(p.slice_depth, p.depth - k_first);
  let head = ((k_count - 1u) & 15u) + 1u;
  let last_tile = max(k_count, 8u) - 8u;

  let a_i = li & 31u;
  let a_k = li >> 5u;
  let a_base = a_batch(batch) + k_first * p.a_rs + min(col0 / 4u + a_i, (p.cols + 3u) / 4u - 1u);
//% for u in range(2)
  let a_from${u} = a_base + min(a_k + ${4 * u}u, k_count - 1u) * p.a_rs;
//% endfor
  let a_step = 8u * p.a_rs;
  let a_end = last_tile * p.a_rs;
  var a_pos = min(head * p.a_rs, a_end);
//% if BT
  let b_i = li & 15u;
  let b_k = li >> 4u;
  let b_base0 = b_batch(batch) + k_first * p.b_rs + min(row0 / 4u + b_i, (p.rows + 3u) / 4u - 1u);
//% set b_ks = "p.b_rs"
//% else
  // Four neighbouring rows at one k; eight lanes take eight groups of rows, for the banks.
  let b_i = (li & 7u) | ((li >> 3u) & 8u);
  let b_k = (li >> 3u) & 7u;
//% for i in range(4)
  let b_base${i} = b_at(b_batch(batch), min(row0 + b_i * 4u + ${i}u, p.rows - 1u), k_first);
//% endfor
//% set b_ks = "p.b_cs"
//% endif
  let b_near = min(b_k, k_count - 1u) * ${b_ks};
//% for u in range(B_LOADS)
  let b_from${u} = b_base${u} + b_near;
//% endfor
  let b_step = 8u * ${b_ks};
  let b_end = last_tile * ${b_ks};
  var b_pos = min(head * ${b_ks}, b_end);
//% for u in range(2)
  var a_v${u}: vec4<${A}>;
//% endfor
//% for u in range(B_LOADS)
  var b_v${u}: ${"vec4<" ~ B ~ ">" if BT else B};
//% endfor
  ${head_loads(0)}
  ${stores(0)}
  ${head_loads(1)}

  ${product.lanes(TR, TC, LR, LC, COLS)}
  ${product.sums(TR, TC)}

  workgroupBarrier();
  for (var left = (k_count + 15u) >> 4u; left > 0u; left -= 1u) {
//% for s in range(2)
//% for k in range(DEEP)
    {
//% for i in range(TR // 4)
      let r${i} = b_tile${s}[${k}][at_row + ${i * LR}u];
//% endfor
//% for j in range(TC // 4)
      let q${j} = a_tile${s}[${k}][at_col + ${j * LC}u];
//% endfor
//% for line in range(TR)
//% for n in range(TC)
//% set there = n if line % 2 == 0 else TC - 1 - n
//% set i, j = (there, line) if A == "f32" else (line, there)
      c${i}_${j // 4}[${j % 4}] = fma(r${i // 4}[${i % 4}], q${j // 4}[${j % 4}], c${i}_${j // 4}[${j % 4}]);
//% endfor
//% endfor
    }
//% if k == 3
    ${stores(1 - s)}
    ${loads()}
//% endif
//% endfor
    workgroupBarrier();  // the other tiles are complete, these have been read
//% endfor
  }

  ${product.write(TR, TC, LR, LC, DV, DT)}
}
