// /// kernel
// doc = "Exchanges rows in place: row k with row pivots[k] - first, for k = 0, 1, ... in this order."
// part_of = "lu_factor"
// configs.one = { threads = 64 }
// axes.GROUP = { values = "configs", pick = "'one'" }
// inputs.pivots = { dtype = "i32", doc = "(..., 1, w)" }
// outputs.x = { dtype = "f32", in_place = true, doc = "(..., m, n)" }
// params.count = { type = "u32", value = "pivots.shape[-1]" }
// params.cols = { type = "u32", value = "x.shape[-1]" }
// params.across = { type = "u32", value = "cdiv(x.shape[-1], CFG.threads)" }
// params.first = { type = "u32", doc = "The number of the first row" }
// iterate = "tiles"
// grid = "it.batches * cdiv(x.shape[-1], CFG.threads)"
// ///

// One column for each invocation.
@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let batch = g / p.across;
  let col = (g - batch * p.across) * ${CFG.threads}u + li;
  if (col >= p.cols) { return; }
  let x = x_batch(batch);
  let chosen = pivots_batch(batch);
  for (var k = 0u; k < p.count; k += 1u) {
    let upper = x_at(x, k, col);
    let lower = x_at(x, u32(pivots_load(pivots_at(chosen, 0u, k))) - p.first, col);
    let moved = x_mem[lower];
    x_mem[lower] = x_mem[upper];
    x_mem[upper] = moved;
  }
}
