// /// kernel
// doc = "(x - pivot - offset) * factor * weight + bias, where the factor is computed from the sum of squares."
// part_of = "layer_norm"
// configs.batch4 = { N = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes."VEC SV WV" = [1, 4]
// axes.BATCH = { values = "configs", pick = "'batch4'" }
// when = ["VEC == 4 or (SV == 1 and WV == 1)", "SV == 1 or WV == 4"]
// inputs.x = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs.pivot = { dtype = "f32", vec = "SV", index = false, optional = true, doc = "Has the layout of squares." }
// inputs.offset = { dtype = "f32", vec = "SV", index = false, optional = true, doc = "Has the layout of squares." }
// inputs.squares = { dtype = "f32", vec = "SV", doc = "(..., cols), or repeated along columns (if SV < VEC)" }
// inputs.weight = { dtype = "f32", vec = "WV", optional = true, doc = "(..., cols), or repeated along columns (if WV < VEC); if there is no weight, this is the bias." }
// inputs.bias = { dtype = "f32", vec = "WV", index = false, optional = true, doc = "Has the layout of weight." }
// outputs.dst = { dtype = "T", vec = "VEC", alias = "x" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params."lane_bits pieces" = { type = "u32" }
// params.count = { type = "f32" }
// params.has_pivot = { type = "u32", value = "1 if pivot else 0" }
// params.has_offset = { type = "u32", value = "1 if offset else 0" }
// params.has_weight = { type = "u32" }
// params.has_bias = { type = "u32", value = "1 if bias else 0" }
// params.l2 = { type = "u32" }
// params.eps = { type = "f32" }
// uses = ["norm"]
// grid = "cdiv(it.rows, CFG.threads >> lane_bits) * pieces"
// ///

//% set N, WG = CFG.N, CFG.threads
//% set V = "vec4<f32>" if VEC == 4 else "f32"
// 2^lane_bits invocations take a row, or a piece of a row; each takes N vectors and does not depend
// on the others.
${norm.inverse("vec4<f32>" if SV == 4 else "f32")}

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
//% for k in range(N)
  let c${k} = min(first + ${k}u * lanes, p.cols - 1u);
  var v${k} = x_load(x_at(x_base, c${k}));
//% endfor
//% if SV == 1 and VEC == 4
  // One statistic and one weight for the whole row.
  ${norm.statistics("", "squares_at(squares_row(row), 0u)", "f32")}
//% endif
//% for k in range(N)
//% if SV == VEC
  ${norm.statistics(k, "squares_at(squares_row(row), c" ~ k ~ ")", "f32" if SV == 1 else V)}
//% endif
  v${k} = ${norm.normalized("v" ~ k, k if SV == VEC else "", V)};
//% endfor
  let weight_base = weight_row(row);
  if (p.has_weight == 1u) {
//% for k in range(N)
    v${k} *= weight_load(weight_at(weight_base, ${"c" ~ k if WV == VEC else "0u"}));
//% endfor
  }
  if (p.has_bias == 1u) {
//% for k in range(N)
    v${k} += bias_load(weight_at(weight_base, ${"c" ~ k if WV == VEC else "0u"}) - p.weight_off + p.bias_off);
//% endfor
  }
  if (own_row >= p.rows) { return; }
  let dst_base = dst_row(row);
//% for k in range(N)
  if (first + ${k}u * lanes < p.cols) { dst_store(dst_at(dst_base, c${k}), v${k}); }
//% endfor
}
