// y = A x for a sparse matrix A in CSR: row r has the elements starts[r] to starts[r + 1] of values
// and columns. One invocation computes a row.

struct Params {
  starts_offset: u32, columns_offset: u32, values_offset: u32, x_offset: u32, y_offset: u32,
  rows: u32,
}

@group(0) @binding(0) var<storage, read> starts: array<u32>;
@group(0) @binding(1) var<storage, read> columns: array<u32>;
@group(0) @binding(2) var<storage, read> values: array<f32>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> p: Params;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.rows) { return; }
  let end = starts[p.starts_offset + id.x + 1u];
  var sum = 0.0;
  for (var k = starts[p.starts_offset + id.x]; k < end; k++) {
    sum += values[p.values_offset + k] * x[p.x_offset + columns[p.columns_offset + k]];
  }
  y[p.y_offset + id.x] = sum;
}
