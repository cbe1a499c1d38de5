// /// kernel
// doc = "Sums down columns for the gradients of a norm: the sum of dy, and the sum of dy times the norm's result."
// part_of = "layer_norm_backward"
// configs.batch4 = { N = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes."VEC SV" = [1, 4]
// axes.BATCH = { values = "configs", pick = "'batch4'" }
// when = ["SV <= VEC"]
// inputs."dy x" = { dtype = "T", vec = "VEC", doc = "(..., rows, cols)" }
// inputs.pivot = { dtype = "f32", vec = "SV", index = false, optional = true, doc = "Has the layout of squares." }
// inputs.offset = { dtype = "f32", vec = "SV", index = false, optional = true, doc = "Has the layout of squares." }
// inputs.squares = { dtype = "f32", vec = "SV", doc = "(..., rows, cols), or repeated along columns (where SV < VEC)" }
// outputs.sums = { dtype = "f32", vec = "VEC", doc = "(..., 2 * pieces, cols): dy, dy times the norm's result" }
// iterate = "tiles"
// params.rows = { type = "u32", value = "x.shape[-2]" }
// params.cols = { type = "u32", value = "x.shape[-1] // VEC" }
// params."across_bits tiles pieces depth" = { type = "u32" }
// params.count = { type = "f32" }
// params.has_pivot = { type = "u32", value = "1 if pivot else 0" }
// params.has_offset = { type = "u32", value = "1 if offset else 0" }
// params.l2 = { type = "u32" }
// params.eps = { type = "f32" }
// uses = ["norm"]
// grid = "tiles * pieces"
// ///

//% set N, WG = CFG.N, CFG.threads
//% set V = "vec4<f32>" if VEC == 4 else "f32"
//% set S = "vec4<f32>" if SV == 4 else "f32"
// A workgroup takes 2^across_bits neighbouring columns (or vectors of four) and a piece of `depth` rows.
// The lanes of a column divide the rows among them: each loads N rows at a time, and workgroup memory adds
// the sums of the lanes.
${norm.inverse(S)}
var<workgroup> shared_dy: array<${V}, ${WG}>;
var<workgroup> shared_dyn: array<${V}, ${WG}>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let across = 1u << p.across_bits;
  let lanes = ${WG}u >> p.across_bits;
  let lane = li >> p.across_bits;
  let piece = g / p.tiles;
  let own_column = ((g - piece * p.tiles) << p.across_bits) + (li & (across - 1u));
  // Lanes past the end repeat the last column and store nothing.
  let column = min(own_column, p.batches * p.cols - 1u);
  let batch = column / p.cols;
  let c = column - batch * p.cols;
  let x_base = x_batch(batch);
  let dy_base = dy_batch(batch);
  let squares_base = squares_batch(batch);
  let end = min((piece + 1u) * p.depth, p.rows);
  var sum_dy = ${V}();
  var sum_dyn = ${V}();
  for (var r = piece * p.depth + lane; r < end; r += ${N}u * lanes) {
//% for k in range(N)
    let r${k} = ${"r" if k == 0 else "min(r + " ~ k ~ "u * lanes, end - 1u)"};
    let v${k} = x_load(x_at(x_base, r${k}, c));
    let dy${k} = select(${V}(), dy_load(dy_at(dy_base, r${k}, c)), r + ${k}u * lanes < end);
//% endfor
//% for k in range(N)
    ${norm.statistics(k, "squares_at(squares_base, r" ~ k ~ ", c)", S)}
    let dyn${k} = dy${k} * (${norm.normalized("v" ~ k, k, V)});
//% endfor
    sum_dy += ${norm.plus("dy", N)};
    sum_dyn += ${norm.plus("dyn", N)};
  }
  shared_dy[li] = sum_dy;
  shared_dyn[li] = sum_dyn;
  workgroupBarrier();
  for (var apart = lanes >> 1u; apart > 0u; apart >>= 1u) {
    if (lane < apart) {
      sum_dy += shared_dy[li + (apart << p.across_bits)];
      sum_dyn += shared_dyn[li + (apart << p.across_bits)];
      shared_dy[li] = sum_dy;
      shared_dyn[li] = sum_dyn;
    }
    workgroupBarrier();
  }
  if ((lane > 0u) | (own_column > column)) { return; }
  let at = sums_batch(batch);
  sums_store(sums_at(at, piece, c), sum_dy);
  sums_store(sums_at(at, p.pieces + piece, c), sum_dyn);
}
