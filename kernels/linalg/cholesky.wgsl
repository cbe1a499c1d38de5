// /// kernel
// doc = """
// The Cholesky factor of symmetric positive definite matrices: lower triangles dst with dst @ dst^T = a.
//
// Computed in f32. Elements of a above the diagonal are not used; elements of dst above the
// diagonal are 0. If a pivot is not a normal positive number, no factor exists: its column and all
// later ones are NaN on and below the diagonal."""
// source = "numpy.linalg.cholesky, torch linalg.cholesky; Golub and Van Loan, Matrix Computations, section 4.2"
// configs.n16 = { S = 8, T = 2 }
// configs.n32 = { S = 8, T = 4 }
// configs.n64 = { S = 16, T = 4 }
// axes.SIZE = "configs"
// inputs.a = { dtype = "f32", doc = "(..., n, n)" }
// outputs.dst = { dtype = "f32", doc = "(..., n, n)" }
// params.n = { type = "u32", value = "dst.shape[-1]" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// iterate = "tiles"
// grid = "it.batches"
// operations = "dst.size * dst.shape[-1] // 3"
// ///

// A workgroup of S x S invocations factors one matrix of up to S * T rows. An invocation holds the
// elements of rows y, y + S, ... and columns x, x + S, ... in registers. For each column, its
// holders publish it; then every invocation subtracts the product of the scaled column with itself
// from the later columns that it holds. Bytes: a is read once and dst is written once.
//% set S, T = CFG.S, CFG.T
// One array for even steps and one for odd steps, so that one barrier for each step is enough.
var<workgroup> column: array<f32, ${2 * S * T}>;

@compute @workgroup_size(${S * S})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let batch = group_id(wg);
  if (batch >= p.groups) { return; }
  let a = a_batch(batch);
  let to = dst_batch(batch);
  let x = li % ${S}u;
  let y = li / ${S}u;
  let last = p.n - 1u;  // places past the end repeat the last row or column and store nothing
//% for i in range(T)
//% for j in range(i + 1)
  var v${i}_${j}: f32;
  {
    let r = min(y + ${S * i}u, last);
    let c = min(x + ${S * j}u, last);
    v${i}_${j} = a_load(a_at(a, max(r, c), min(r, c)));
  }
//% endfor
//% endfor
  let nan = bitcast<f32>(p.nan);
  var bad = p.n;  // the first column without a normal positive pivot
//% for b in range(T)
  for (var own = 0u; own < ${S}u; own += 1u) {
    let k = own + ${S * b}u;
    if (k >= p.n) { break; }
    let room = (k & 1u) * ${S * T}u;
    if (x == own) {
//% for i in range(b, T)
      column[room + y + ${S * i}u] = v${i}_${b};
//% endfor
    }
    workgroupBarrier();
    let pivot = column[room + k];
    // Zeros, subnormals, negative numbers, infinities and NaN; drivers may assume that none is NaN.
    let refused = bitcast<u32>(pivot) - 0x00800000u >= 0x7f000000u;
    if (refused) { bad = min(bad, k); }
    let scale = select(inverseSqrt(pivot), nan, refused);
//% for i in range(b, T)
    let r${i} = column[room + y + ${S * i}u] * scale;
    let c${i} = column[room + x + ${S * i}u] * scale;
//% endfor
//% for i in range(b, T)
    v${i}_${b} = select(select(v${i}_${b}, r${i}, x == own), v${i}_${b} - r${i} * c${b}, x > own);
//% for j in range(b + 1, i + 1)
    v${i}_${j} -= r${i} * c${j};
//% endfor
//% endfor
  }
//% endfor
//% for i in range(T)
//% for j in range(T)
  {
    let r = y + ${S * i}u;
    let c = x + ${S * j}u;
    if ((r < p.n) & (c < p.n)) {
//% if j > i
      dst_store(dst_at(to, r, c), 0.0);
//% else
      dst_store(dst_at(to, r, c), select(0.0, select(v${i}_${j}, nan, c >= bad), c <= r));
//% endif
    }
  }
//% endfor
//% endfor
}
