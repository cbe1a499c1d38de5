// /// kernel
// doc = "Norms of rows that fit into registers. Computes the sum of x and residual, mean and variance (or the mean square), and the result."
// part_of = "layer_norm"
// configs.row4 = { LANES = 4, N = 1 }
// configs.row16 = { LANES = 4, N = 4 }
// configs.row64 = { LANES = 16, N = 4 }
// configs.row256 = { LANES = 64, N = 4 }
// configs.row1024 = { LANES = 256, N = 4 }
// configs.row4096 = { LANES = 256, N = 16 }
// axes.NORM = ["layer", "rms"]
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.W = { values = ["f32", "f16"], pick = "dtype(weight if weight else bias) or 'f32'" }
// axes."VEC WV" = [1, 4]
// axes.LENGTH = "configs"
// axes.WG = { values = [256], pick = "256" }
// when = [
//   "W == 'f32' or (T == 'f16' and WV == 4)",
//   "VEC == 4 or (WV == 1 and LENGTH in ('row16', 'row256', 'row4096'))",
//   "WV == VEC or (NORM == 'layer' and CFG.LANES >= 16)",
// ]
// inputs.x = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs.residual = { dtype = "T", vec = "VEC", optional = true, like = "x" }
// inputs.weight = { dtype = "W", vec = "WV", index = false, optional = true, doc = "(affine_rows, cols / inner), contiguous" }
// inputs.bias = { dtype = "W", vec = "WV", index = false, optional = true, doc = "As weight." }
// outputs.normed = { dtype = "T", vec = "VEC", doc = "The norm of x + residual; not written without residual." }
// outputs.dst = { dtype = "T", vec = "VEC", like = "x", alias = "x", doc = "The norm of x; if there is a residual, the sum x + residual." }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params.count = { type = "f32", value = "it.cols" }
// params."inner affine_rows" = { type = "u32" }
// params.lanes_apart = { type = "u32", value = "1 if it.columns_apart('x') else 0" }
// params.per_group = { type = "u32", value = "WG // CFG.LANES" }
// params.has_residual = { type = "u32", value = "1 if residual else 0" }
// params.has_weight = { type = "u32", value = "1 if weight else 0" }
// params.has_bias = { type = "u32", value = "1 if bias else 0" }
// params.l2 = { type = "u32" }
// params.eps = { type = "f32" }
// uses = ["reduce", "norm"]
// grid = "cdiv(it.rows, WG // CFG.LANES)"
// ///

//% set LANES, N = CFG.LANES, CFG.N
//% set V = "vec4<f32>" if VEC == 4 else "f32"
// LANES invocations hold one row in registers, N vectors each, so there is one read and one write.
// If rows lie closer together than columns, neighbouring invocations take neighbouring rows.
// weight and bias have an element for each column, or (WV < VEC, or inner > 1) for each `inner` columns;
// successive rows use the rows of weight in turn.
${reduce.memory(LANES, WG, false, "vec2<f32>" if NORM == "layer" else "f32")}
//% if NORM == "rms"
${norm.inverse("f32")}
//% endif

fn affine_at(row: u32, c: u32) -> u32 {
//% if WV == VEC
  if (p.inner == 1u) { return (row % p.affine_rows) * p.cols + c; }
//% endif
  return (row % p.affine_rows) * (p.cols / p.inner) + c / p.inner;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
//% if LANES == WG
  let lane = li;
  let slot = li;
  let row = g;
  let live = true;
//% else
  let apart = p.lanes_apart == 1u;
  let lane = select(li % ${LANES}u, li / (WG / ${LANES}u), apart);
  let inside = select(li / ${LANES}u, li % (WG / ${LANES}u), apart);
  let slot = inside * ${LANES}u + lane;
  let own_row = g * p.per_group + inside;
  let live = own_row < p.rows;
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
//% endif
  let x_base = x_row(row);
  let dst_base = dst_row(row);
//% for k in range(N)
  let c${k} = min(lane + ${k * LANES}u, p.cols - 1u);
  var v${k} = x_load(x_at(x_base, c${k}));
//% endfor
//% for k in range(N)
  let in${k} = lane + ${k * LANES}u < p.cols;
//% endfor
  if (p.has_residual == 1u) {
    let residual_base = residual_row(row);
//% for k in range(N)
    v${k} += residual_load(residual_at(residual_base, c${k}));
//% endfor
//% for k in range(N)
    if (live & in${k}) { dst_store(dst_at(dst_base, c${k}), v${k}); }
//% endfor
  }

//% if NORM == "layer"
  // The rounded mean comes first, then the differences from it, their mean and their squares. So a
  // large mean is subtracted before anything is squared, and does not cancel digits.
//% for k in range(N)
  let t${k} = select(${V}(), v${k}, in${k});
//% endfor
  var total = vec2<f32>(${norm.across(norm.plus("t", N), VEC)}, 0.0f);
  ${reduce.lanes("total", "+", LANES)}
  let mean = total.x / p.count;
//% for k in range(N)
  v${k} = select(${V}(), v${k} - ${V}(mean), in${k});
  let q${k} = v${k} * v${k};
//% endfor
  var moments = vec2<f32>(${norm.across(norm.plus("v", N), VEC)}, ${norm.across(norm.plus("q", N), VEC)});
  ${reduce.lanes("moments", "+", LANES, again=true)}
  moments /= p.count;
  let offset = moments.x;
  let factor = inverseSqrt(max(moments.y - offset * offset, 0.0f) + p.eps);
//% else
//% for k in range(N)
  let q${k} = select(${V}(), v${k} * v${k}, in${k});
//% endfor
  var squares = ${norm.across(norm.plus("q", N), VEC)};
  ${reduce.lanes("squares", "+", LANES)}
  let factor = inverse(squares);
//% endif

//% if LANES != WG
  if (!live) { return; }
//% endif
//% for k in range(N)
  v${k} = ${"(v" ~ k ~ " - " ~ V ~ "(offset))" if NORM == "layer" else "v" ~ k} * factor;
//% endfor
  if (p.has_weight == 1u) {
//% for k in range(N)
    v${k} *= weight_load(p.weight_off + affine_at(row, c${k}));
//% endfor
  }
  if (p.has_bias == 1u) {
//% for k in range(N)
    v${k} += bias_load(p.bias_off + affine_at(row, c${k}));
//% endfor
  }
  if (p.has_residual == 1u) {
    let normed_base = normed_row(row);
//% for k in range(N)
    if (in${k}) { normed_store(normed_at(normed_base, c${k}), v${k}); }
//% endfor
  } else {
//% for k in range(N)
    if (in${k}) { dst_store(dst_at(dst_base, c${k}), v${k}); }
//% endfor
  }
}
