// /// kernel
// doc = "Computes the losses of rows of logits from the states of the rows' pieces."
// part_of = "cross_entropy"
// configs.row64 = { LANES = 64, threads = 256 }
// axes.ROW_LANES = { values = "configs", pick = "'row64'" }
// inputs.states = { dtype = "u32", doc = "(..., 6 * pieces), the bits of cross_entropy_rows" }
// outputs.stats = { dtype = "f32", optional = true, doc = "(..., 2)" }
// outputs.dst = { dtype = "f32", doc = "(..., 1), or (..., 2) with the weights" }
// iterate = "rows"
// params.pieces = { type = "u32" }
// params.weighted = { type = "u32", value = "1 if dst.shape[-1] == 2 else 0" }
// params.has_stats = { type = "u32", value = "1 if stats else 0" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// uses = ["cross_entropy"]
// grid = "cdiv(it.rows, CFG.threads // CFG.LANES)"
// ///

//% set LANES, WG = CFG.LANES, CFG.threads
// LANES invocations take a row.
${cross_entropy.functions(1)}
${cross_entropy.state()}
var<workgroup> shared_states: array<State, ${WG}>;

fn state_of(at: u32) -> State {
  return State(
    bitcast<f32>(states_load(at)), bitcast<f32>(states_load(at + 1u)),
    bitcast<f32>(states_load(at + 2u)), bitcast<f32>(states_load(at + 3u)),
    bitcast<f32>(states_load(at + 4u)), states_load(at + 5u),
  );
}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lane = li % ${LANES}u;
  let own_row = g * ${WG // LANES}u + li / ${LANES}u;
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
  let base = states_row(row);
  var state = State(LOWEST, 0.0f, 0.0f, 0.0f, 0.0f, 0u);
  for (var i = lane; i < p.pieces; i += ${LANES}u) {
    state = combine(state, state_of(states_at(base, i * 6u)));
  }
  shared_states[li] = state;
  workgroupBarrier();
  for (var half = ${LANES // 2}u; half > 0u; half >>= 1u) {
    if (lane < half) {
      state = combine(state, shared_states[li + half]);
      shared_states[li] = state;
    }
    workgroupBarrier();
  }
  if ((lane > 0u) | (own_row >= p.rows)) { return; }
  ${cross_entropy.store("state", "row")}
}
