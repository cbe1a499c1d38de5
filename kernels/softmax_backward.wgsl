// /// kernel
// doc = """
// Gradient of softmax over the last axis: dst = y * (dy - sum(dy * y)), computed in f32.
//
// `y` is the result of the softmax. `dst` may be `dy`."""
// axes.T = ["f32", "f16"]
// axes.VEC = [1, 4]
// axes.LANES = [32, 256]
// axes.WG = [256]
// pick.T = "dtype(y)"
// pick.VEC = "4 if it.vec(4) else 1"
// pick.LANES = "32 if it.cols <= 256 * VEC else 256"
// pick.WG = "256"
// inputs.y = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs.dy = { dtype = "T", vec = "VEC", like = "y" }
// outputs.dst = { dtype = "T", vec = "VEC", like = "y", alias = "dy" }
// axis = { moves = ["y", "dy"] }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// operations = "4 * y.size"
// uses = ["reduce"]
// grid = "cdiv(it.rows, WG // LANES) if it.cols else 0"
// ///

// LANES invocations per row: one pass for the sum, one for the result.
${reduce.memory(LANES, WG)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) slot: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lane = slot % LANES;
  let row = g * (WG / LANES) + slot / LANES;
  let cols = select(0u, p.cols, row < p.rows);
  let y_base = y_row(row);
  let dy_base = dy_row(row);
  let dst_base = dst_row(row);
//% set V = "vec4<f32>" if VEC == 4 else "f32"
  var acc = ${V}();
  for (var c = lane; c < cols; c += LANES) {
    acc = fma(dy_load(dy_at(dy_base, c)), y_load(y_at(y_base, c)), acc);
  }
//% if VEC == 4
  var sum = (acc.x + acc.y) + (acc.z + acc.w);
//% else
  var sum = acc;
//% endif
  ${reduce.lanes("sum", "+", LANES)}
  for (var c = lane; c < cols; c += LANES) {
    let y = y_load(y_at(y_base, c));
    dst_store(dst_at(dst_base, c), y * (dy_load(dy_at(dy_base, c)) - ${V}(sum)));
  }
}
