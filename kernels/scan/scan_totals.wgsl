// /// kernel
// doc = "The sum of each piece of long rows."
// part_of = "cumsum"
// configs.tile = { N4 = 4, N1 = 8, threads = 256 }
// axes.T = { values = ["f32", "f16", "u32"], pick = "dtype(x)" }
// axes.A = { values = ["f32", "u32"], pick = "'u32' if T == 'u32' else 'f32'" }
// axes.VEC = [1, 4]
// axes.TILE = { values = "configs", pick = "'tile'" }
// when = ["(A == 'u32') == (T == 'u32')"]
// inputs.x = { dtype = "T", vec = "VEC" }
// outputs.totals = { dtype = "A", index = false, doc = "(rows, pieces)" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params."pieces tiles product" = { type = "u32" }
// uses = ["scan"]
// grid = "it.rows * pieces"
// ///

//% set N, WG = (CFG.N4 if VEC == 4 else CFG.N1), CFG.threads
// One workgroup takes a piece, as in scan_pieces; each invocation takes vectors that lie WG apart.
${scan.functions()}
var<workgroup> lane_a: array<Sum, ${WG}>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g / p.pieces;
  let piece = g - row * p.pieces;
  let x_base = x_row(row);
  var sum = neutral();
  for (var t = 0u; t < p.tiles; t += 1u) {
    ${scan.load(WG, N, VEC, "(piece * p.tiles + t) * " ~ WG * N ~ "u")}
//% for k in range(N)
//% if VEC == 4
    let s${k} = combine(combine(Sum(x${k}[0]), Sum(x${k}[1])), combine(Sum(x${k}[2]), Sum(x${k}[3])));
//% else
    let s${k} = Sum(x${k});
//% endif
    sum = combine(sum, select(neutral(), s${k}, c${k} < p.cols));
//% endfor
  }
  lane_a[lane] = sum;
  workgroupBarrier();
  if (lane < 16u) {
//% for k in range(1, WG // 16)
    sum = combine(sum, lane_a[lane + ${16 * k}u]);
//% endfor
  }
  workgroupBarrier();
  if (lane < 16u) { lane_a[lane] = sum; }
  workgroupBarrier();
  if (lane == 0u) {
//% for k in range(1, 16)
    sum = combine(sum, lane_a[${k}]);
//% endfor
    totals_store(p.totals_off + g, sum);
  }
}
