// /// kernel
// doc = "The loss of rows of logarithms of probabilities, from the logarithm of each row's class."
// part_of = "nll_loss"
// configs.rows = { threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.SIZE = { values = "configs", pick = "'rows'" }
// inputs.x = { dtype = "T", doc = "(..., classes)" }
// inputs.target = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", doc = "(..., 1)" }
// inputs.weight = { dtype = "T", optional = true, index = false, axes = "c", doc = "(classes,)" }
// outputs.dst = { dtype = "f32", doc = "(..., 1): loss; or (..., 2): loss and weight" }
// iterate = "rows"
// params.classes = { type = "u32", value = "x.shape[-1]" }
// params.weighted = { type = "u32", value = "1 if dst.shape[-1] == 2 else 0" }
// params.has_weight = { type = "u32", value = "1 if weight else 0" }
// params.target_words = { type = "u32", value = "target.dtype.itemsize // 4" }
// params."ignore_lo ignore_hi" = { type = "u32" }
// faults = true
// uses = ["cross_entropy"]
// grid = "cdiv(it.rows, CFG.threads)"
// ///

// One invocation takes a row.
${cross_entropy.target()}
${cross_entropy.class_weight()}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let row = group_id(wg) * ${CFG.threads}u + li;
  fault_started(row == 0u);
  if (row >= p.rows) { return; }
  let goal = target_of(row);
  let own_class = min(goal.found, p.classes - 1u);
  let counts = goal.inside & !goal.ignored;
  let weight = select(0.0f, class_weight(own_class), counts);
  let loss = select(0.0f, -weight * x_load(x_at(x_row(row), own_class)), counts);
  let to = dst_row(row);
  dst_store(dst_at(to, 0u), loss);
  if (p.weighted == 1u) { dst_store(dst_at(to, 1u), weight); }
  if (!goal.inside & !goal.ignored) { fault(row, goal.found, goal.high); }
}
