// /// kernel
// doc = """
// Solve a @ dst = b for lower triangular a: elements above the diagonal are not used.
//
// The solution is computed by forward substitution, in f32. With `unit` the diagonal counts as
// ones. A zero on the diagonal gives infinities or NaN."""
// source = "ggml solve_tri, torch linalg.solve_triangular"
// inputs.a = { dtype = "f32", doc = "(..., n, n)" }
// inputs.b = { dtype = "f32", doc = "(..., n, k)" }
// outputs.dst = { dtype = "f32", doc = "(..., n, k)" }
// options.unit = { type = "bool", default = false, doc = "True counts the diagonal as ones." }
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.across = { type = "u32", value = "cdiv(dst.shape[-1], 16)" }
// params.is_unit = { type = "u32" }
// iterate = "tiles"
// grid = "it.batches * cdiv(dst.shape[-1], 16)"
// operations = "dst.size * dst.shape[-2]"
// ///

// A workgroup solves for 16 columns of one batch, a block of 16 rows at a time, one element for each
// invocation. First it subtracts the products with the rows before the block, in tiles of 16 x 16;
// then it solves the rows of the block one by one and subtracts each from the rows after it. It
// reads solved rows back from dst. Bytes: a is read once for every 16 columns, and a row of dst
// once for each block after it.
var<workgroup> left: array<f32, 256>;  // of a
var<workgroup> right: array<f32, 256>;  // of dst

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let batch = g / p.across;
  let a = a_batch(batch);
  let b = b_batch(batch);
  let x = dst_batch(batch);
  let r = li >> 4u;
  let c = li & 15u;
  let own_col = (g - batch * p.across) * 16u + c;
  // Columns past the end repeat the last one and store nothing.
  let col = min(own_col, p.cols - 1u);
  for (var first = 0u; first < p.rows; first += 16u) {
    let row = min(first + r, p.rows - 1u);  // no stored element depends on rows past the end
    var value = b_load(b_at(b, row, col));
    for (var k = 0u; k < first; k += 16u) {
      left[li] = a_load(a_at(a, row, k + c));
      right[li] = dst_mem[dst_at(x, k + r, col)];
      workgroupBarrier();
//% for j in range(16)
      value -= left[(r << 4u) + ${j}u] * right[${16 * j}u + c];
//% endfor
      workgroupBarrier();
    }
    left[li] = a_load(a_at(a, row, min(first + c, p.rows - 1u)));
    workgroupBarrier();
    for (var k = 0u; k < 16u; k += 1u) {
      if (r == k) {
        if (p.is_unit == 0u) { value /= left[17u * k]; }
        right[li] = value;
      }
      workgroupBarrier();
      if (r > k) { value -= left[(r << 4u) + k] * right[(k << 4u) + c]; }
    }
    if ((first + r < p.rows) & (own_col < p.cols)) { dst_store(dst_at(x, row, col), value); }
    storageBarrier();  // later rows read this row
    workgroupBarrier();  // the next tiles overwrite these tiles
  }
}
