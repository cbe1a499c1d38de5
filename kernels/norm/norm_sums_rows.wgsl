// /// kernel
// doc = "Sums along rows for the gradients of a norm: the sums of g = weight * dy, of g times the norm's result, of dy, and of dy times the norm's result."
// part_of = "layer_norm_backward"
// configs.batch4 = { N = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes."VEC WV" = [1, 4]
// axes.BATCH = { values = "configs", pick = "'batch4'" }
// when = ["WV <= VEC"]
// inputs."dy x" = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs."pivot offset" = { dtype = "f32", index = false, optional = true, doc = "Has the layout of squares." }
// inputs.squares = { dtype = "f32", doc = "(..., 1)" }
// inputs.weight = { dtype = "f32", vec = "WV", optional = true, doc = "(..., cols), repeated along columns if WV < VEC" }
// outputs.sums = { dtype = "f32", doc = "(..., 4 * pieces): g, g times the norm's result, dy, dy times the norm's result" }
// iterate = "rows"
// params.cols = { type = "u32", value = "x.shape[-1] // VEC" }
// params."lane_bits pieces depth" = { type = "u32" }
// params.count = { type = "f32" }
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
// 2^lane_bits invocations share a row, or a piece of `depth` vectors of it. Each takes N vectors of x and
// dy at a time, which it loads at once; workgroup memory adds the sums of the lanes.
${norm.inverse("f32")}
var<workgroup> shared_sums: array<vec4<f32>, ${WG}>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let lane = li & (lanes - 1u);
  let tile = g / p.pieces;
  let piece = g - tile * p.pieces;
  let own_row = tile * (${WG}u >> p.lane_bits) + (li >> p.lane_bits);
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
  let x_base = x_row(row);
  let dy_base = dy_row(row);
  let weight_base = weight_row(row);
  let end = min((piece + 1u) * p.depth, p.cols);
  ${norm.statistics("", "squares_at(squares_row(row), 0u)", "f32")}
  var sum_g = ${V}();
  var sum_gn = ${V}();
  var sum_dy = ${V}();
  var sum_dyn = ${V}();
  for (var c = piece * p.depth + lane; c < end; c += ${N}u * lanes) {
//% for k in range(N)
    let c${k} = ${"c" if k == 0 else "min(c + " ~ k ~ "u * lanes, end - 1u)"};
    let v${k} = x_load(x_at(x_base, c${k}));
    let dy${k} = select(${V}(), dy_load(dy_at(dy_base, c${k})), c + ${k}u * lanes < end);
    var g${k} = dy${k};
//% endfor
    if (p.has_weight == 1u) {
//% for k in range(N)
      g${k} *= weight_load(weight_at(weight_base, ${"c" ~ k if WV == VEC else "0u"}));
//% endfor
    }
//% for k in range(N)
    let n${k} = ${norm.normalized("v" ~ k, "", V)};
    let gn${k} = g${k} * n${k};
    let dyn${k} = dy${k} * n${k};
//% endfor
    sum_g += ${norm.plus("g", N)};
    sum_gn += ${norm.plus("gn", N)};
    sum_dy += ${norm.plus("dy", N)};
    sum_dyn += ${norm.plus("dyn", N)};
  }
  var sums = vec4<f32>(
//% for s in ("g", "gn", "dy", "dyn")
    ${norm.across("sum_" ~ s, VEC)},
//% endfor
  );
  shared_sums[li] = sums;
  workgroupBarrier();
  for (var apart = lanes >> 1u; apart > 0u; apart >>= 1u) {
    if (lane < apart) {
      sums += shared_sums[li + apart];
      shared_sums[li] = sums;
    }
    workgroupBarrier();
  }
  if ((lane > 0u) | (own_row >= p.rows)) { return; }
  let at = sums_row(row);
//% for k in range(4)
  sums_store(sums_at(at, ${k}u * p.pieces + piece), sums[${k}]);
//% endfor
}
