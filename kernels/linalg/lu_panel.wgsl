// /// kernel
// doc = "The LU factors of a panel, a block of neighbouring columns, in place, with partial pivoting."
// part_of = "lu_factor"
// configs.one = { threads = 256 }
// axes.GROUP = { values = "configs", pick = "'one'" }
// outputs.pivots = { dtype = "i32", doc = "(..., 1, w)" }
// outputs.x = { dtype = "f32", in_place = true, doc = "(..., m, w), at most as wide as the workgroup" }
// params.rows = { type = "u32", value = "x.shape[-2]" }
// params.cols = { type = "u32", value = "x.shape[-1]" }
// params.first = { type = "u32", doc = "The number of the first row" }
// iterate = "tiles"
// grid = "it.batches"
// ///

// A workgroup factors one panel in memory. For each column it finds the pivot among the candidates
// of its invocations, exchanges two rows, and subtracts the product of the scaled column and the
// pivot's row from the later columns; an invocation takes every 256th row, and its candidate for
// the next column comes from the new elements.
//% set WG = CFG.threads
var<workgroup> best: array<vec2<u32>, ${WG}>;  // bits of a magnitude, row
var<workgroup> pivot_row: array<f32, ${WG}>;

fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return select(b, a, (a.x > b.x) | ((a.x == b.x) & (a.y < b.y)));
}

fn candidate(v: f32, row: u32) -> vec2<u32> {
  return vec2<u32>(bitcast<u32>(v) & 0x7fffffffu, row);
}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let batch = group_id(wg);
  if (batch >= p.groups) { return; }
  let x = x_batch(batch);
  let chosen = pivots_batch(batch);
  var mine = vec2<u32>(0u, 0xffffffffu);
  for (var r = li; r < p.rows; r += ${WG}u) {
    mine = better(mine, candidate(x_mem[x_at(x, r, 0u)], r));
  }
  for (var k = 0u; k < p.cols; k += 1u) {
    best[li] = mine;
    storageBarrier();  // other invocations wrote the rows that are exchanged
//% for bit in range(WG.bit_length() - 2, -1, -1)
    workgroupBarrier();
    if (li < ${2 ** bit}u) { best[li] = better(best[li], best[li + ${2 ** bit}u]); }
//% endfor
    workgroupBarrier();
    let pivot = best[0];
    if (li < p.cols) {
      let upper = x_at(x, k, li);
      let lower = x_at(x, pivot.y, li);
      let moved = x_mem[lower];
      x_mem[lower] = x_mem[upper];
      x_mem[upper] = moved;
      pivot_row[li] = moved;
    }
    if (li == 0u) { pivots_store(pivots_at(chosen, 0u, k), i32(pivot.y + p.first)); }
    storageBarrier();
    workgroupBarrier();
    let is_zero = pivot.x < 0x00800000u;  // or subnormal
    let divisor = select(pivot_row[k], 1.0, is_zero);
    mine = vec2<u32>(0u, 0xffffffffu);
    for (var r = li; r < p.rows; r += ${WG}u) {
      if (r > k) {
        let l = select(x_mem[x_at(x, r, k)] / divisor, 0.0, is_zero);
        x_mem[x_at(x, r, k)] = l;
        for (var j = k + 1u; j < p.cols; j += 1u) {
          let v = x_mem[x_at(x, r, j)] - l * pivot_row[j];
          x_mem[x_at(x, r, j)] = v;
          if (j == k + 1u) { mine = better(mine, candidate(v, r)); }
        }
      }
    }
  }
}
