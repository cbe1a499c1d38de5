// /// kernel
// doc = "Each row divided by the sum of its elements, in f32. A row is the last axis of x."
// axes.T = ["f32", "f16"]
// axes.WG = [256]
// pick.T = "dtype(x)"
// pick.WG = "256"
// inputs.x = { dtype = "T" }
// outputs.dst = { dtype = "T", like = "x", alias = "x" }
// params.cols = { type = "u32", value = "it.cols" }
// iterate = "rows"
// grid = "it.rows"
// bytes = "2 * touched(x) + touched(dst)"
// operations = "2 * x.size"
// ///

// A workgroup for each row: each invocation adds every WG-th element, and these sums are added
// through workgroup memory. The row is read twice and written once.
var<workgroup> sums: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let row = group_id(wg);
  if (row >= p.groups) { return; }
  let x_base = x_row(row);
  let dst_base = dst_row(row);
  var sum = 0.0f;
  for (var c = li; c < p.cols; c += WG) { sum += x_load(x_at(x_base, c)); }
  sums[li] = sum;
  workgroupBarrier();
  for (var apart = WG / 2u; apart > 0u; apart >>= 1u) {
    if (li < apart) { sums[li] += sums[li + apart]; }
    workgroupBarrier();
  }
  let total = sums[0];
  for (var c = li; c < p.cols; c += WG) {
    dst_store(dst_at(dst_base, c), x_load(x_at(x_base, c)) / total);
  }
}
