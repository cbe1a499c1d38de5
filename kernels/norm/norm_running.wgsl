// /// kernel
// doc = "The running statistics of batch_norm_training, and the statistics that its gradient needs."
// part_of = "batch_norm_training"
// axes.WG = { values = [256], pick = "256" }
// inputs.pivot = { dtype = "f32", axes = "c", doc = "(C,): the mean is pivot + offset" }
// inputs."offset squares" = { dtype = "f32", axes = "c", doc = "(C,)" }
// outputs."running_mean running_variance" = { dtype = "f32", in_place = true, axes = "c", doc = "(C,)" }
// outputs.saved = { dtype = "f32", axes = "w c", doc = "(3, C): mean, rounding error of the mean, squares" }
// params.channels = { type = "u32", value = "pivot.shape[0]" }
// params."has_running has_saved" = { type = "u32" }
// params."degrees momentum" = { type = "f32" }
// grid = "cdiv(pivot.shape[0], WG)"
// ///

// One invocation takes one channel.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let c = group_id(wg) * WG + li;
  if (c >= p.channels) { return; }
  let pivot = pivot_load(p.pivot_off + c * p.pivot_cs);
  let offset = offset_load(p.offset_off + c * p.offset_cs);
  let squares = squares_load(p.squares_off + c * p.squares_cs);
  let mean = pivot + offset;
  if (p.has_running == 1u) {
    let m = p.running_mean_off + c * p.running_mean_cs;
    let v = p.running_variance_off + c * p.running_variance_cs;
    running_mean_mem[m] = running_mean_mem[m] * (1.0f - p.momentum) + mean * p.momentum;
    running_variance_mem[v] = running_variance_mem[v] * (1.0f - p.momentum) + squares / p.degrees * p.momentum;
  }
  if (p.has_saved == 1u) {
    let at = p.saved_off + c * p.saved_cs;
    saved_store(at, mean);
    saved_store(at + p.saved_ws, (pivot - mean) + offset);
    saved_store(at + 2u * p.saved_ws, squares);
  }
}
