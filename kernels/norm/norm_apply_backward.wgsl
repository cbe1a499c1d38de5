// /// kernel
// doc = "Computes dx of a norm from the statistics of x and two sums: the sum of g = weight * dy, and the sum of g times the norm's result."
// part_of = "layer_norm_backward"
// configs.batch4 = { N = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes."VEC SV WV" = [1, 4]
// axes.BATCH = { values = "configs", pick = "'batch4'" }
// when = ["VEC == 4 or (SV == 1 and WV == 1)", "SV == 1 or WV == 4"]
// inputs."dy x" = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs.pivot = { dtype = "f32", vec = "SV", index = false, optional = true, doc = "Has the layout of squares." }
// inputs.offset = { dtype = "f32", vec = "SV", index = false, optional = true, doc = "Has the layout of squares." }
// inputs.squares = { dtype = "f32", vec = "SV", doc = "(..., cols), or repeated along columns (where SV < VEC)" }
// inputs.sums = { dtype = "f32", vec = "SV", index = false, doc = "The sums of g = weight * dy, in the layout of squares, and `apart` elements after them the sums of g times the norm's result." }
// inputs.weight = { dtype = "f32", vec = "WV", optional = true, doc = "(..., cols), or repeated along columns (where WV < VEC)" }
// outputs.dst = { dtype = "T", vec = "VEC", alias = "dy" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params."lane_bits pieces" = { type = "u32" }
// params.count = { type = "f32" }
// params.apart = { type = "u32" }
// params.has_pivot = { type = "u32", value = "1 if pivot else 0" }
// params.has_offset = { type = "u32", value = "1 if offset else 0" }
// params.has_weight = { type = "u32", value = "1 if weight else 0" }
// params.l2 = { type = "u32" }
// params.eps = { type = "f32" }
// uses = ["norm"]
// grid = "cdiv(it.rows, CFG.threads >> lane_bits) * pieces"
// ///

//% set N, WG = CFG.N, CFG.threads
//% set V = "vec4<f32>" if VEC == 4 else "f32"
//% set S = "vec4<f32>" if SV == 4 else "f32"
// 2^lane_bits invocations take a row, or a piece of a row; each takes N vectors and does not depend
// on the others.
${norm.inverse(S)}

// The factor by which sums become `level` and `along`. `level` and `along` are means, except for
// l2. For l2, a length that is not above eps has no gradient.
fn share(squares: ${S}) -> ${S} {
  if (p.l2 == 1u) { return select(${S}(), ${S}(1.0f), sqrt(squares) >= ${S}(p.eps)); }
  return ${S}(1.0f / p.count);
}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let lane = li & (lanes - 1u);
  let tile = g / p.pieces;
  let first = (g - tile * p.pieces) * (${N}u * lanes) + lane;
  let own_row = tile * (${WG}u >> p.lane_bits) + (li >> p.lane_bits);
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
  let x_base = x_row(row);
  let dy_base = dy_row(row);
//% for k in range(N)
  let c${k} = min(first + ${k}u * lanes, p.cols - 1u);
  var v${k} = x_load(x_at(x_base, c${k}));
  var g${k} = dy_load(dy_at(dy_base, c${k}));
//% endfor
  if (p.has_weight == 1u) {
    let weight_base = weight_row(row);
//% for k in range(N)
    g${k} *= weight_load(weight_at(weight_base, ${"c" ~ k if WV == VEC else "0u"}));
//% endfor
  }
//% macro sums_of(k)
  let share_${k} = share(squares_load(p.squares_off + statistic_${k}));
  let along_${k} = sums_load(p.sums_off + statistic_${k} + p.apart) * share_${k};
  var level_${k} = ${S}();  // 0 for norms that subtract no mean
  if (p.has_pivot == 1u) { level_${k} = sums_load(p.sums_off + statistic_${k}) * share_${k}; }
//% endmacro
//% if SV == 1 and VEC == 4
  ${norm.statistics("", "squares_at(squares_row(row), 0u)", S)}
  ${sums_of("")}
//% endif
//% for k in range(N)
//% set i = k if SV == VEC else ""
//% if SV == VEC
  ${norm.statistics(k, "squares_at(squares_row(row), c" ~ k ~ ")", S)}
  ${sums_of(k)}
//% endif
  v${k} = ${norm.normalized("v" ~ k, i, V)};
  v${k} = (g${k} - ${V}(level_${i}) - v${k} * ${V}(along_${i})) * ${V}(factor_${i});
//% endfor
  if (own_row >= p.rows) { return; }
  let dst_base = dst_row(row);
//% for k in range(N)
  if (first + ${k}u * lanes < p.cols) { dst_store(dst_at(dst_base, c${k}), v${k}); }
//% endfor
}
