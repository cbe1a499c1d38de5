// /// kernel
// doc = """
// Matrix product, batched: dst[..., n, m] = act(scale * sum_k a[..., m, k] * b[..., n, k] + bias + residual).
//
// Sums are f32 and no operand is rounded. Batch axes of `a` repeat to those of `b` as in ggml: each
// matrix of `a` serves b's size / a's size neighbouring matrices of `b`. `bias` and `residual`
// broadcast to dst by numpy's rules. K = 0 gives sums of 0."""
// source = "ggml mul_mat (meaning); Goto and van de Geijn 2008 (blocking)"
// axes.A = ["f32", "f16"]
// axes.B = ["f32", "f16"]
// axes.D = ["f32", "f16"]
// axes.TILE = ["32", "64"]
// axes.AV = [1, 2, 4]
// axes.AT = [false, true]
// axes.BV = [1, 2, 4]
// axes.BT = [false, true]
// axes.DV = [1, 4]
// pick.A = "dtype(a)"
// pick.B = "dtype(b)"
// pick.D = "dtype(dst)"
// when = [
//   "(A, B, D) in (('f32', 'f32', 'f32'), ('f16', 'f16', 'f32'), ('f16', 'f16', 'f16'), ('f16', 'f32', 'f32'))",
//   "AV == 4 if AT else AV in (1, 2)",
//   "BV == 4 if BT else BV in (1, 2)",
//   "DV == 1 or (AV > 1 and BV > 1 and TILE != '32')",
// ]
// inputs.a = { dtype = "A", vec = "AV", doc = "(..., M, K)" }
// inputs.b = { dtype = "B", vec = "BV", doc = "(..., N, K)" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "Added to the scaled sums; broadcast to dst." }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true, doc = "Added as bias is." }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M)" }
// options.activation = { type = "Literal['relu', 'silu', 'gelu', 'gelu_tanh'] | None", doc = "Applied last; 'gelu' is by erf." }
// options.precision = { type = "Literal['fast'] | None", doc = "'fast' may round operands to f16 and sum 64 products in f16." }
// iterate = "tiles"
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.depth = { type = "u32" }
// params.slice_depth = { type = "u32" }
// params.slice_batches = { type = "u32" }
// params.across = { type = "u32" }
// params.down = { type = "u32" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// params.residual_kind = { type = "u32", value = "0 if residual is None else 1 if residual.dtype.itemsize == 4 else 2" }
// params.act = { type = "u32" }
// params.raw = { type = "u32" }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of the sums." }
// operations = "2 * dst.size * a.shape[-1]"
// uses = ["product"]
// grid = "it.batches * across * down"
// ///

// One workgroup computes a tile of dst, TR x TC sums an invocation, from tiles of 16 k in workgroup
// memory; the next tiles are on their way to registers meanwhile. Rows of dst come from b, columns
// from a. AT, BT: the operand's last axis is m or n, not k. With K in slices (dst is scratch then,
// slice first), each slice is one more batch that starts further along k.
//
// Bounds, for unchecked compilation: rows and columns of loads are clamped to their counts, k to
// `head` in the first tile and below the slice's end in the others; stores are guarded; indices
// into workgroup memory are lane numbers below the sizes of the arrays.
//% set NT, EDGE, TR, TC, LR, LC = product.TILES[TILE]
${product.memory(EDGE, EDGE)}
${product.epilogue()}
${product.finish()}

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  // Bands of eight tiles down, column by column: neighbours share operands in the cache.
  let batch = g / (p.across * p.down);
  let t = g - batch * p.across * p.down;
  let band = t / (8u * p.across);
  let high = min(8u, p.down - band * 8u);
  let inside = t - band * 8u * p.across;
  let column = inside / high;
  let row0 = (band * 8u + inside - column * high) * ${EDGE}u;
  let col0 = column * ${EDGE}u;
  let k_first = (batch / p.slice_batches) * p.slice_depth;
  let k_count = min(p.slice_depth, p.depth - k_first);
  let head = ((k_count - 1u) & 15u) + 1u;

  let a_start = a_batch(batch) + ${"k_first * p.a_rs" if AT else "k_first * p.a_cs" if AV == 1 else "k_first / " ~ AV ~ "u"};
  let b_start = b_batch(batch) + ${"k_first * p.b_rs" if BT else "k_first * p.b_cs" if BV == 1 else "k_first / " ~ BV ~ "u"};
  ${product.place("a", AV, AT, EDGE, NT, "col0", "p.cols")}
  ${product.place("b", BV, BT, EDGE, NT, "row0", "p.rows")}
  ${product.first("a", "A", AV, AT, EDGE, NT)}
  ${product.first("b", "B", BV, BT, EDGE, NT)}

  ${product.lanes(TR, TC, LR, LC, EDGE)}
  ${product.sums(TR, TC)}

  for (var left = (k_count + 15u) >> 4u; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
    ${product.keep("a", AV, AT, EDGE, NT)}
    ${product.keep("b", BV, BT, EDGE, NT)}
    workgroupBarrier();
    if (left > 1u) {
      ${product.next("a", AV, AT, EDGE, NT)}
      ${product.next("b", BV, BT, EDGE, NT)}
    }
    ${product.multiply(TR, TC, LR, LC)}
  }

  let dst_start = dst_batch(batch);
  let factor = select(p.scale, 1.0f, p.raw == 1u);
//% for i in range(TR)
//% for j in range(TC // 4)
  c${i}_${j} *= factor;
//% endfor
//% endfor
  if (finishes()) {
    // A loop over an array: unrolled, it would be larger than the product.
    var c = array<vec4<f32>, ${TR * TC // 4}>(
//% for i in range(TR)
//% for j in range(TC // 4)
      c${i}_${j},
//% endfor
//% endfor
    );
    let bias_start = bias_batch(batch);
    let residual_start = residual_batch(batch);
    for (var n = 0u; n < ${TR * TC // 4}u; n += 1u) {
      let i = n / ${TC // 4}u;
      let j = n % ${TC // 4}u;
      let row = min(row0 + (at_row + (i >> 2u) * ${LR}u) * 4u + (i & 3u), p.rows - 1u);
      let m = vec4<u32>(col0 + (at_col + j * ${LC}u) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
      c[n] = finish(c[n], bias_at(bias_start, row, 0u), residual_at(residual_start, row, 0u), m);
    }
//% for i in range(TR)
//% for j in range(TC // 4)
    c${i}_${j} = c[${i * (TC // 4) + j}];
//% endfor
//% endfor
  }
//% for i in range(TR)
  {
    let row = row0 + (at_row + ${i // 4 * LR}u) * 4u + ${i % 4}u;
    if (row < p.rows) {
//% for j in range(TC // 4)
      let m${j} = col0 + (at_col + ${j * LC}u) * 4u;
//% if DV == 4
      if (m${j} < p.cols) { dst_store(dst_at(dst_start, row, m${j} / 4u), c${i}_${j}); }
//% else
//% for e in range(4)
      if (m${j} + ${e}u < p.cols) { dst_store(dst_at(dst_start, row, m${j} + ${e}u), c${i}_${j}[${e}]); }
//% endfor
//% endif
//% endfor
    }
  }
//% endfor
}
