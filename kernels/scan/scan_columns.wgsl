// /// kernel
// doc = "Running sums along an axis, if neighbours along another axis lie closer together in memory."
// part_of = "cumsum"
// configs.walk8 = { UNROLL = 8, threads = 256 }
// axes.T = { values = ["f32", "f16", "u32"], pick = "dtype(x)" }
// axes.A = { values = ["f32", "u32"], pick = "'u32' if T == 'u32' else 'f32'" }
// axes.WALK = { values = "configs", pick = "'walk8'" }
// when = ["(A == 'u32') == (T == 'u32')"]
// inputs.x = { dtype = "T" }
// inputs.totals = { dtype = "A", optional = true, index = false, doc = "(pieces, rows): sums up to the end of each piece" }
// outputs.dst = { dtype = "T", alias = "x" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols" }
// params."blocks run before lane_bits product" = { type = "u32" }
// uses = ["scan"]
// grid = "blocks * cdiv(it.cols, run * (CFG.threads >> lane_bits))"
// ///

// 2^lane_bits neighbouring invocations take neighbouring rows; each goes through a piece of its
// row, which has `run` elements, UNROLL elements at a time. `before` is the number of pieces that
// earlier steps compute.
${scan.functions()}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  let block = g % p.blocks;
  let row = (block << p.lane_bits) + (li & ((1u << p.lane_bits) - 1u));
  let piece = g / p.blocks * (${CFG.threads}u >> p.lane_bits) + (li >> p.lane_bits);
  let first = piece * p.run;
  if ((g >= p.groups) | (row >= p.rows) | (first >= p.cols)) { return; }
  let end = min(first + p.run, p.cols);
  let x_base = x_row(row);
  let dst_base = dst_row(row);
  var carry = neutral();
  if (piece + p.before > 0u) {
    carry = totals_load(p.totals_off + (piece + p.before - 1u) * p.rows + row);
  }
  for (var c = first; c < end; c += ${CFG.UNROLL}u) {
//% for k in range(CFG.UNROLL)
    let x${k} = Sum(x_load(x_at(x_base, min(c + ${k}u, end - 1u))));
//% endfor
    let y0 = x0;
//% for k in range(1, CFG.UNROLL)
    let y${k} = combine(y${k - 1}, x${k});
//% endfor
//% for k in range(CFG.UNROLL)
    if (c + ${k}u < end) { dst_store(dst_at(dst_base, c + ${k}u), combine(carry, y${k})); }
//% endfor
    carry = combine(carry, y${CFG.UNROLL - 1});
  }
}
