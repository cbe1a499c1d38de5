// /// kernel
// doc = """
// Gradient of softmax over the last axis: dst = scale * y * (dy - sum(dy * y)), computed in f32.
//
// `y` is the result of the softmax, and `scale` its scale. `dst` may be `dy`."""
// configs.row4 = { LANES = 4, N = 1 }
// configs.row16 = { LANES = 4, N = 4 }
// configs.row32 = { LANES = 8, N = 4 }
// configs.row64 = { LANES = 16, N = 4 }
// configs.row128 = { LANES = 32, N = 4 }
// configs.row256 = { LANES = 64, N = 4 }
// configs.row512 = { LANES = 128, N = 4 }
// configs.row1024 = { LANES = 256, N = 4 }
// configs.row4096 = { LANES = 256, N = 16 }
// configs.any = { LANES = 256, N = 0 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(y)" }
// axes.VEC = { values = [1, 4], pick = "4 if it.vec(4) else 1" }
// axes.LENGTH = "configs"
// axes.WG = { values = [256], pick = "256" }
// pick.LENGTH = "'row4' if it.cols <= 4 * VEC else 'row16' if it.cols <= 16 * VEC else 'row32' if it.cols <= 32 * VEC else 'row64' if it.cols <= 64 * VEC else 'row128' if it.cols <= 128 * VEC else 'row256' if it.cols <= 256 * VEC else 'row512' if it.cols <= 512 * VEC else 'row1024' if it.cols <= 1024 * VEC else 'row4096' if it.cols <= 4096 * VEC else 'any'"
// inputs.y = { dtype = "T", vec = "VEC", doc = "(..., cols)" }
// inputs.dy = { dtype = "T", vec = "VEC", like = "y" }
// outputs.dst = { dtype = "T", vec = "VEC", like = "y", alias = "dy" }
// axis = { moves = ["y", "dy"] }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params.scale = { type = "f32", default = 1.0, doc = "The factor of the logits, as in `softmax`." }
// operations = "5 * y.size"
// uses = ["reduce"]
// grid = "cdiv(it.rows, WG // CFG.LANES)"
// ///

//% set LANES, N = CFG.LANES, CFG.N
// LANES invocations hold one row in registers, N vectors each. With N = 0, a row may have any
// length, and is read twice.
${reduce.memory(LANES, WG)}
//% set V = "vec4<f32>" if VEC == 4 else "f32"

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) slot: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lane = slot % ${LANES}u;
  let own_row = g * (WG / ${LANES}u) + slot / ${LANES}u;
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
  let y_base = y_row(row);
  let dy_base = dy_row(row);
//% for k in range(N)
  let c${k} = min(lane + ${k * LANES}u, p.cols - 1u);
  let y${k} = y_load(y_at(y_base, c${k}));
  let dy${k} = dy_load(dy_at(dy_base, c${k}));
//% endfor
  var acc = ${V}();
//% for k in range(N)
  acc = select(acc, fma(dy${k}, y${k}, acc), lane + ${k * LANES}u < p.cols);
//% endfor
//% if N == 0
  for (var c = lane; c < p.cols; c += ${LANES}u) {
    acc = fma(dy_load(dy_at(dy_base, c)), y_load(y_at(y_base, c)), acc);
  }
//% endif
//% if VEC == 4
  var sum = (acc.x + acc.y) + (acc.z + acc.w);
//% else
  var sum = acc;
//% endif
  ${reduce.lanes("sum", "+", LANES)}
  if (own_row >= p.rows) { return; }
  let dst_base = dst_row(row);
//% for k in range(N)
  if (lane + ${k * LANES}u < p.cols) {
    dst_store(dst_at(dst_base, lane + ${k * LANES}u), p.scale * (y${k} * (dy${k} - ${V}(sum))));
  }
//% endfor
//% if N == 0
  for (var c = lane; c < p.cols; c += ${LANES}u) {
    let y = y_load(y_at(y_base, c));
    dst_store(dst_at(dst_base, c), p.scale * (y * (dy_load(dy_at(dy_base, c)) - ${V}(sum))));
  }
//% endif
}
