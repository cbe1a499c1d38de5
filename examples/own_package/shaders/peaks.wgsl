// /// kernel
// doc = "The largest element of each row of x, and the column of the first such element."
// inputs.x = { dtype = "f32", axes = "r c", doc = "(rows, cols)" }
// outputs.largest = { dtype = "f32", axes = "r", doc = "(rows,)" }
// outputs.column = { dtype = "u32", axes = "r", doc = "(rows,)" }
// params.cols = { type = "u32", value = "x.shape[1]" }
// grid = "x.shape[0]"
// operations = "x.size"
// ///

// A workgroup for each row: each invocation takes every 64th column, and then the number of
// candidates is halved until one is left.
const LANES = 64u;
var<workgroup> values: array<f32, LANES>;
var<workgroup> columns: array<u32, LANES>;

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let row = group_id(wg);
  if (row >= p.groups) { return; }
  var value = -3.4028234e38f;
  var at = 0u;
  for (var c = lane; c < p.cols; c += LANES) {
    let next = x_load(p.x_off + row * p.x_rs + c * p.x_cs);
    if (next > value) {
      value = next;
      at = c;
    }
  }
  values[lane] = value;
  columns[lane] = at;
  for (var half = LANES / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (lane < half) {
      let other = values[lane + half];
      let first = (other == values[lane]) & (columns[lane + half] < columns[lane]);
      if ((other > values[lane]) | first) {
        values[lane] = other;
        columns[lane] = columns[lane + half];
      }
    }
  }
  if (lane == 0u) {
    largest_store(p.largest_off + row * p.largest_rs, values[0]);
    column_store(p.column_off + row * p.column_rs, columns[0]);
  }
}
