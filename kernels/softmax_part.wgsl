// /// kernel
// doc = "Maximum and sum of one piece of a long row."
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
// outputs.stats = { dtype = "f32", index = false, doc = "(rows, pieces, 3): maximum, sum, flags" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params.pieces = { type = "u32" }
// params.head_rows = { type = "u32" }
// params.heads = { type = "u32" }
// params.alibi_heads = { type = "u32" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.scale = { type = "f32", arg = true }
// params.max_bias = { type = "f32", arg = true }
// uses = ["logits", "reduce"]
// grid = "it.rows * pieces"
// ///

// One workgroup reads one piece of WG * N vectors of a row.
${logits.functions(MASK, VEC)}
${reduce.memory("red_a", "f32", WG)}
${reduce.memory("red_b", "f32", WG)}
${reduce.memory("flag_a", "u32", WG)}
${reduce.memory("flag_b", "u32", WG)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g / p.pieces;
  let first = (g - row * p.pieces) * WG * N + lane;
  let slot = lane;
  let live = true;
  let x_base = x_row(row);
//% if MASK
  let mask_base = mask_row(row);
  let slope = alibi_slope(row_head(row));
//% endif
  var m = LOWEST;
  var flags = 0u;
//% for k in range(N)
  ${logits.load(k, "first + " ~ k * WG ~ "u", MASK, VEC)}
//% endfor
  ${reduce.lanes("m", "max", "red_a", "red_b", WG)}
  ${reduce.lanes("flags", "|", "flag_a", "flag_b", WG)}
//% set V = "vec4<f32>" if VEC == 4 else "f32"
  var sum = 0.0f;
//% for k in range(N)
  let e${k} = weight(l${k} - ${V}(m));
//% if VEC == 4
  sum += (e${k}.x + e${k}.y) + (e${k}.z + e${k}.w);
//% else
  sum += e${k};
//% endif
//% endfor
  ${reduce.lanes("sum", "+", "red_a", "red_b", WG)}
  if (lane == 0u) {
    let at = p.stats_off + g * 3u;
    stats_store(at, m);
    stats_store(at + 1u, sum);
    stats_store(at + 2u, f32(flags));
  }
}
