// /// kernel
// doc = "Large products of mul_mat with precision='fast': packed f16 products, 64 of them summed in f16."
// part_of = "mul_mat"
// axes.T = ["f16"]
// axes.D = ["f32", "f16"]
// axes.AV = [4]
// axes.BV = [4]
// axes.DV = [1, 4]
// pick.T = "dtype(a)"
// pick.D = "dtype(dst)"
// inputs.a = { dtype = "T", vec = "AV", doc = "(..., K / 2, 2 M), columns by fours: [k, m, k % 2]" }
// inputs.b = { dtype = "T", vec = "BV", doc = "(..., K / 2, 2 N) likewise" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", doc = "(..., N, M)" }
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

// As mul_mat_wide, with pairs of k in place of single ones: a packed multiply-add takes two k of
// one row and one column, so that no operand has to be splat over a vector (which would halve the
// rate). The two sums of a pair are f16; after 64 pairs they are added to an f32 sum and cleared.
//
// Bounds, for unchecked compilation: as in mul_mat_wide, k counted in pairs.
//% set NT, ROWS, COLS, TR, TC, LR, LC, DEEP, BLOCKS = 128, 64, 128, 8, 8, 4, 8, 8, 4
//% for s in range(2)
var<workgroup> a_tile${s}: array<array<vec4<f16>, ${COLS // 2}>, ${DEEP}>;
var<workgroup> b_tile${s}: array<array<vec4<f16>, ${ROWS // 2}>, ${DEEP}>;
//% endfor

${product.epilogue()}
${product.finish()}

//% macro loads()
//% for x, n in (("a", 2), ("b", 1))
//% for u in range(n)
//% for h in range(2)
    ${x}_v${u}${h} = ${x}_mem[${x}_from${u} + ${x}_pos + ${h}u];
//% endfor
//% endfor
    ${x}_pos = min(${x}_pos + ${x}_step, ${x}_end);
//% endfor
//% endmacro

//% macro stores(s)
//% for x, n in (("a", 2), ("b", 1))
//% for u in range(n)
//% for h in range(2)
    ${x}_tile${s}[${x}_k + ${4 * u}u][${x}_i * 2u + ${h}u] = ${x}_v${u}${h};
//% endfor
//% endfor
//% endfor
//% endmacro

// The first tiles, which hold `head` pairs: zero beyond.
//% macro head_loads(t)
  {
//% for x, n in (("a", 2), ("b", 1))
//% for u in range(n)
    let ${x}_far${u} = ${x}_base + min(${x}_k + ${8 * t + 4 * u}u, head - 1u) * p.${x}_rs;
//% for h in range(2)
    let ${x}_h${u}${h} = ${x}_mem[${x}_far${u} + ${h}u];
//% endfor
//% endfor
//% endfor
//% for x, n in (("a", 2), ("b", 1))
//% for u in range(n)
//% for h in range(2)
    ${x}_v${u}${h} = select(vec4<f16>(), ${x}_h${u}${h}, ${x}_k + ${8 * t + 4 * u}u < head);
//% endfor
//% endfor
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
  let b_i = li & 15u;
  let b_k = li >> 4u;
//% for x, n, first, count in (("a", 2, "col0", "p.cols"), ("b", 1, "row0", "p.rows"))
  let ${x}_base = ${x}_batch(batch) + k_first * p.${x}_rs + 2u * min(${first} / 4u + ${x}_i, (${count} + 3u) / 4u - 1u);
//% for u in range(n)
  let ${x}_from${u} = ${x}_base + min(${x}_k + ${4 * u}u, k_count - 1u) * p.${x}_rs;
//% for h in range(2)
  var ${x}_v${u}${h}: vec4<f16>;
//% endfor
//% endfor
  let ${x}_step = 8u * p.${x}_rs;
  let ${x}_end = last_tile * p.${x}_rs;
  var ${x}_pos = min(head * p.${x}_rs, ${x}_end);
//% endfor
  ${head_loads(0)}
  ${stores(0)}
  ${head_loads(1)}

  ${product.lanes(TR, TC, LR, LC, COLS)}
  ${product.sums(TR, TC)}
//% for i in range(TR)
//% for j in range(TC)
  var h${i}_${j} = vec2<f16>();
//% endfor
//% endfor

  workgroupBarrier();
  for (var left = (k_count + 15u) >> 4u; left > 0u;) {
    let blocks = min(left, ${BLOCKS}u);
    left -= blocks;
    for (var block = blocks; block > 0u; block -= 1u) {
//% for s in range(2)
//% for k in range(DEEP)
    {
//% for i in range(TR // 2)
      let r${i} = b_tile${s}[${k}][(at_row + ${i // 2 * LR}u) * 2u + ${i % 2}u];
//% endfor
//% for j in range(TC // 2)
      let q${j} = a_tile${s}[${k}][(at_col + ${j // 2 * LC}u) * 2u + ${j % 2}u];
//% endfor
//% for i in range(TR)
//% for n in range(TC)
//% set j = n if i % 2 == 0 else TC - 1 - n
      h${i}_${j} = fma(r${i // 2}.${"zw" if i % 2 else "xy"}, q${j // 2}.${"zw" if j % 2 else "xy"}, h${i}_${j});
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
//% for i in range(TR)
//% for j in range(TC // 4)
    c${i}_${j} += vec4<f32>(vec4(h${i}_${4 * j}.x, h${i}_${4 * j + 1}.x, h${i}_${4 * j + 2}.x, h${i}_${4 * j + 3}.x));
    c${i}_${j} += vec4<f32>(vec4(h${i}_${4 * j}.y, h${i}_${4 * j + 1}.y, h${i}_${4 * j + 2}.y, h${i}_${4 * j + 3}.y));
//% for e in range(4)
    h${i}_${4 * j + e} = vec2<f16>();
//% endfor
//% endfor
//% endfor
  }

  ${product.write(TR, TC, LR, LC, DV)}
}
