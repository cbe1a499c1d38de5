// /// kernel
// doc = "The softmax of one piece of a long row, given the row's maximum and sum."
// part_of = "softmax"
// axes.T = ["f32", "f16"]
// axes.MASK = ["", "f32", "f16"]
// axes.VEC = [1, 4]
// axes.N = [4]
// axes.WG = [256]
// pick.T = "dtype(x)"
// pick.MASK = "dtype(mask)"
// pick.N = "4"
// pick.WG = "256"
// inputs.x = { dtype = "T", vec = "VEC" }
// inputs.mask = { dtype = "MASK", vec = "VEC", when = "MASK != ''", optional = true }
// inputs.stats = { dtype = "f32", index = false, doc = "(rows, 3): maximum, sum, flags" }
// outputs.dst = { dtype = "T", vec = "VEC", alias = "x" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params.pieces = { type = "u32" }
// params.head_rows = { type = "u32" }
// params.heads = { type = "u32" }
// params.alibi_heads = { type = "u32" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.scale = { type = "f32", arg = true }
// params.max_bias = { type = "f32", arg = true }
// params.log = { type = "u32", arg = true }
// uses = ["logits"]
// grid = "it.rows * pieces"
// ///

// One workgroup per piece of WG * N vectors; no invocation depends on another.
${logits.functions(MASK, VEC)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g / p.pieces;
  let first = (g - row * p.pieces) * WG * N + lane;
  let live = true;
  let x_base = x_row(row);
  let dst_base = dst_row(row);
//% if MASK
  let mask_base = mask_row(row);
  let slope = alibi_slope(row_head(row));
//% endif
  // Reading the logits again updates m and flags, which the row's own values then replace.
  var m = LOWEST;
  var flags = 0u;
//% for k in range(N)
  ${logits.load(k, "first + " ~ k * WG ~ "u", MASK, VEC)}
//% endfor
  m = stats_load(p.stats_off + row * 3u);
  let sum = stats_load(p.stats_off + row * 3u + 1u);
  flags = u32(stats_load(p.stats_off + row * 3u + 2u));
  ${logits.outcome()}
//% set V = "vec4<f32>" if VEC == 4 else "f32"
//% for k in range(N)
  ${logits.finish(k, "first + " ~ k * WG ~ "u", "weight(l" ~ k ~ " - " ~ V ~ "(m))", VEC)}
//% endfor
}
