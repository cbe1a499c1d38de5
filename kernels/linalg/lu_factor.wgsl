// /// kernel
// doc = """
// The LU factors of square matrices with partial pivoting: the rows of a, exchanged, are l @ u.
//
// Computed in f32. dst holds u on and above the diagonal and l below it; the diagonal of l is ones.
// Row k was exchanged with row pivots[k], for k = 0, 1, ... in this order. A pivot is the first of
// the largest magnitudes on and below the diagonal of its column; NaN counts as larger than
// infinity. If none of these magnitudes is a normal number, the column of l is 0 below the
// diagonal."""
// source = "LAPACK getrf, torch linalg.lu_factor; Golub and Van Loan, Matrix Computations, section 3.4"
// configs.n32 = { S = 8, T = 4 }
// configs.n64 = { S = 16, T = 4 }
// axes.SIZE = "configs"
// inputs.a = { dtype = "f32", doc = "(..., n, n)" }
// outputs.dst = { dtype = "f32", doc = "(..., n, n)" }
// outputs.pivots = { dtype = "i32", doc = "(..., n)" }
// params.n = { type = "u32", value = "dst.shape[-1]" }
// params.first = { type = "u32", doc = "The number of the first row" }
// iterate = "tiles"
// grid = "it.batches"
// operations = "dst.size * dst.shape[-1] * 2 // 3"
// ///

// A workgroup of S x S invocations factors one matrix of up to S * T rows. An invocation holds the
// elements of rows y, y + S, ... and columns x, x + S, ... in registers. Rows are not moved: each
// has a position, at which it is stored. For each column, its holders publish it and the best of
// their own candidates; then the holders of the pivot's row publish that row; then every invocation
// subtracts the product of both from the later rows and columns that it holds. Bytes: a is read
// once and dst is written once.
//% set S, T = CFG.S, CFG.T
// One half is for even steps and one for odd steps, because a step reads the column until its end.
var<workgroup> column: array<f32, ${2 * S * T}>;
var<workgroup> pivot_row: array<f32, ${S * T}>;
var<workgroup> best: array<vec3<u32>, ${S}>;  // bits of a magnitude, position, row

// True if candidate a is better than candidate b: larger, or equally large at an earlier position.
fn is_better(a: vec3<u32>, b: vec3<u32>) -> bool { return (a.x > b.x) | ((a.x == b.x) & (a.y < b.y)); }

@compute @workgroup_size(${S * S})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let batch = group_id(wg);
  if (batch >= p.groups) { return; }
  let a = a_batch(batch);
  let to = dst_batch(batch);
  let chosen = pivots_batch(batch);
  let x = li % ${S}u;
  let y = li / ${S}u;
  // Places past the end repeat the last row or column, are no candidates and store nothing.
  let last = p.n - 1u;
//% for i in range(T)
  var at${i} = y + ${S * i}u;
//% for j in range(T)
  var v${i}_${j} = a_load(a_at(a, min(y + ${S * i}u, last), min(x + ${S * j}u, last)));
//% endfor
//% endfor
//% for b in range(T)
  for (var own = 0u; own < ${S}u; own += 1u) {
    let k = own + ${S * b}u;
    if (k >= p.n) { break; }
    let room = (k & 1u) * ${S * T}u;
    if (x == own) {
      var mine = vec3<u32>(0u, 0xffffffffu, 0u);
//% for i in range(T)
      {
        let row = y + ${S * i}u;
        column[room + row] = v${i}_${b};
        let one = vec3<u32>(bitcast<u32>(v${i}_${b}) & 0x7fffffffu, at${i}, row);
        mine = select(mine, one, (at${i} >= k) & (row < p.n) & is_better(one, mine));
      }
//% endfor
      best[y] = mine;
    }
    workgroupBarrier();
    var pivot = best[0];
//% for i in range(1, S)
    pivot = select(pivot, best[${i}], is_better(best[${i}], pivot));
//% endfor
    if (y == pivot.z % ${S}u) {
//% for i in range(T)
      if (pivot.z / ${S}u == ${i}u) {
//% for j in range(b, T)
        pivot_row[x + ${S * j}u] = v${i}_${j};
//% endfor
      }
//% endfor
    }
    if (li == 0u) { pivots_store(pivots_at(chosen, 0u, k), i32(pivot.y + p.first)); }
    workgroupBarrier();
    let is_zero = pivot.x < 0x00800000u;  // or subnormal
    let divisor = select(pivot_row[k], 1.0, is_zero);
//% for j in range(b, T)
    let u${j} = pivot_row[x + ${S * j}u];
//% endfor
//% for i in range(T)
    {
      let row = y + ${S * i}u;
      at${i} = select(select(at${i}, pivot.y, at${i} == k), k, row == pivot.z);
      let later = at${i} > k;
      let l = select(column[room + row] / divisor, 0.0, is_zero);
      v${i}_${b} = select(v${i}_${b}, select(l, v${i}_${b} - l * u${b}, x > own), later & (x >= own));
//% for j in range(b + 1, T)
      v${i}_${j} = select(v${i}_${j}, v${i}_${j} - l * u${j}, later);
//% endfor
    }
//% endfor
  }
//% endfor
//% for i in range(T)
//% for j in range(T)
  if ((y + ${S * i}u < p.n) & (x + ${S * j}u < p.n)) {
    dst_store(dst_at(to, at${i}, x + ${S * j}u), v${i}_${j});
  }
//% endfor
//% endfor
}
