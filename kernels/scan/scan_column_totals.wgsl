// /// kernel
// doc = "The sum of each piece of scan_columns."
// part_of = "cumsum"
// configs.walk8 = { UNROLL = 8, threads = 256 }
// axes.T = { values = ["f32", "f16", "u32"], pick = "dtype(x)" }
// axes.A = { values = ["f32", "u32"], pick = "'u32' if T == 'u32' else 'f32'" }
// axes.WALK = { values = "configs", pick = "'walk8'" }
// when = ["(A == 'u32') == (T == 'u32')"]
// inputs.x = { dtype = "T" }
// outputs.totals = { dtype = "A", index = false, doc = "(pieces, rows)" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols" }
// params."blocks run lane_bits product" = { type = "u32" }
// uses = ["scan"]
// grid = "blocks * cdiv(it.cols, run * (CFG.threads >> lane_bits))"
// ///

// The work is split as in scan_columns.
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
  var sum = neutral();
  for (var c = first; c < end; c += ${CFG.UNROLL}u) {
//% for k in range(CFG.UNROLL)
    let x${k} = Sum(x_load(x_at(x_base, min(c + ${k}u, end - 1u))));
    let y${k} = select(neutral(), x${k}, c + ${k}u < end);
//% endfor
    sum = combine(sum, combine(
      combine(combine(y0, y1), combine(y2, y3)), combine(combine(y4, y5), combine(y6, y7))));
  }
  totals_store(p.totals_off + piece * p.rows + row, sum);
}
