// /// kernel
// doc = "Running sums of short rows; a workgroup takes one row or several."
// part_of = "cumsum"
// configs.row16 = { LANES = 4, N4 = 1, N1 = 4 }
// configs.row64 = { LANES = 4, N4 = 4, N1 = 8 }
// configs.row256 = { LANES = 16, N4 = 4, N1 = 8 }
// configs.row1024 = { LANES = 64, N4 = 4, N1 = 8 }
// axes.T = { values = ["f32", "f16", "u32"], pick = "dtype(x)" }
// axes.VEC = { values = [1, 4], pick = "4 if it.vec(4) else 1" }
// axes.LENGTH = "configs"
// axes.WG = { values = [256], pick = "256" }
// inputs.x = { dtype = "T", vec = "VEC" }
// outputs.dst = { dtype = "T", vec = "VEC", alias = "x" }
// iterate = "rows"
// params.cols = { type = "u32", value = "it.cols // VEC" }
// params.product = { type = "u32" }
// uses = ["scan"]
// grid = "cdiv(it.rows, WG // CFG.LANES)"
// ///

//% set LANES, N = CFG.LANES, (CFG.N4 if VEC == 4 else CFG.N1)
// LANES invocations hold one row in registers, N vectors each.
${scan.functions()}
${scan.memory(LANES, WG, N)}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let lane = li % ${LANES}u;
  let row = group_id(wg) * ${WG // LANES}u + li / ${LANES}u;
  let near = min(row, p.rows - 1u);
  let x_base = x_row(near);
  ${scan.load(LANES, N, VEC, "0u")}
  ${scan.tile(LANES, N, VEC, "neutral()")}
  let dst_base = dst_row(near);
  ${scan.store(N, "(row < p.rows) & ")}
}
