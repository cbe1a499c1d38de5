// /// kernel
// doc = "The median of sorted rows."
// part_of = "median"
// configs.one = { threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.SHARE = { values = "configs", pick = "'one'" }
// inputs.x = { dtype = "T", doc = "(..., cols), sorted" }
// outputs.dst = { dtype = "T", doc = "(..., 1)" }
// iterate = "rows"
// params.cols = { type = "u32", value = "x.shape[-1]" }
// grid = "cdiv(it.rows, CFG.threads)"
// ///

// One invocation takes one row. NaN is last in a sorted row.
@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let row = group_id(wg) * ${CFG.threads}u + li;
  if (row >= p.rows) { return; }
  let base = x_row(row);
  let a = x_load(x_at(base, (p.cols - 1u) / 2u));
  let b = x_load(x_at(base, p.cols / 2u));
  let last = x_load(x_at(base, p.cols - 1u));
  let middle = select((a + b) * 0.5f, a, (p.cols & 1u) == 1u);
  let is_nan = (bitcast<u32>(last) & 0x7fffffffu) > 0x7f800000u;
  dst_store(dst_at(dst_row(row), 0u), select(middle, last, is_nan));
}
