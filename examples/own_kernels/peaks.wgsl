// The largest element of each row, and the column of the first such element: two outputs of two
// types. One workgroup computes a row: each invocation takes every 64th column; then pairs of
// candidates are compared until one is left.

struct Params { x_offset: u32, largest_offset: u32, column_offset: u32, cols: u32 }

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> largest: array<f32>;
@group(0) @binding(2) var<storage, read_write> column: array<u32>;
@group(0) @binding(3) var<uniform> p: Params;

const T = 64u;
var<workgroup> values: array<f32, T>;
var<workgroup> columns: array<u32, T>;

@compute @workgroup_size(T)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) t: u32) {
  let row = p.x_offset + group.x * p.cols;
  var value = x[row];
  var at = 0u;
  for (var c = t; c < p.cols; c += T) {
    let next = x[row + c];
    if (next > value) {
      value = next;
      at = c;
    }
  }
  values[t] = value;
  columns[t] = at;
  for (var half = T / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (t < half) {
      let other = values[t + half];
      let first = other == values[t] && columns[t + half] < columns[t];
      if (other > values[t] || first) {
        values[t] = other;
        columns[t] = columns[t + half];
      }
    }
  }
  if (t == 0u) {
    largest[p.largest_offset + group.x] = values[0];
    column[p.column_offset + group.x] = columns[0];
  }
}
