// /// kernel
// doc = "Running sums of the pieces of long rows, each beginning with the sum of the previous pieces."
// part_of = "cumsum"
// configs.tile = { N4 = 4, N1 = 8, threads = 256 }
// axes.T = { values = ["f32", "f16", "u32"], pick = "dtype(x)" }
// axes.A = { values = ["f32", "u32"], pick = "'u32' if T == 'u32' else 'f32'" }
// axes.VEC = [1, 4]
// axes.TILE = { values = "configs", pick = "'tile'" }
// when = ["(A == 'u32') == (T == 'u32')"]
// inputs.x = { dtype = "T", vec = "VEC" }
// inputs.totals = { dtype = "A", optional = true, index = false, doc = "(rows, pieces): sums up to the end of each piece" }
// outputs.dst = { dtype = "T", vec = "VEC", alias = "x" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params."pieces before tiles product" = { type = "u32" }
// uses = ["scan"]
// grid = "it.rows * pieces"
// ///

//% set N, WG = (CFG.N4 if VEC == 4 else CFG.N1), CFG.threads
// `before` is the number of pieces of the row that earlier steps compute; a step with `before` has
// one row.
// One workgroup takes a piece: `tiles` tiles one after the other, with N vectors for each
// invocation.
${scan.functions()}
${scan.memory(WG, WG, N)}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  // The last piece comes first, because the elements that were summed last are still in the cache.
  let at = p.groups - 1u - g;
  let row = at / p.pieces;
  let piece = at - row * p.pieces;
  let lane = li;
  let x_base = x_row(row);
  let dst_base = dst_row(row);
  var carry = neutral();
  if (piece + p.before > 0u) { carry = totals_load(p.totals_off + at + p.before - 1u); }
  var total = neutral();
  for (var t = 0u; t < p.tiles; t += 1u) {
    ${scan.load(WG, N, VEC, "(piece * p.tiles + t) * " ~ WG * N ~ "u")}
    ${scan.tile(WG, N, VEC, "carry", "total")}
    carry = combine(carry, total);
    ${scan.store(N, "")}
    workgroupBarrier();  // the next tile overwrites this memory
  }
}
