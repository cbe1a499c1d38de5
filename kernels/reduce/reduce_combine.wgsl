// /// kernel
// doc = "Combines the states of pieces of a reduction into results, or into the states of fewer pieces."
// part_of = "sum"
// configs.batch4 = { N = 4, threads = 256 }
// axes.OP = "reductions"
// axes.T = ["f32", "i32", "u32"]
// axes.PACKED = { values = [false, true], pick = "dst.dtype.itemsize < 4" }
// axes.BATCH = { values = "configs", pick = "'batch4'" }
// when = ["T in ROW.dtypes", "not PACKED or ROW.packed(T) or (T == 'f32' and ROW.packed('f16'))"]
// inputs.states = { dtype = "u32", readonly = true, doc = "(..., words of a state * count)" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if PACKED else 'u32'", doc = "(..., 1), or for pieces (..., words of a state * pieces)" }
// iterate = "rows"
// params."count lane_bits pieces depth is_partial apart finish kind" = { type = "u32" }
// params.divisor = { type = "f32" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.plus_inf = { type = "u32", value = "0x7f800000" }
// uses = ["words", "convert", "reductions"]
// grid = "cdiv(it.rows, CFG.threads >> lane_bits) * pieces"
// ///

//% set N, WG = CFG.N, CFG.threads
// The states of neighbouring results for the same piece are contiguous, and neighbouring
// invocations take neighbouring results. 2^lane_bits invocations share the states of a result, or a
// piece of `depth` states. If there are no states, the invocations write the result of no elements.
var<workgroup> shared_states: array<Z, ${WG}>;
${ROW.functions(T, 1, false)}
//% if PACKED
${convert.half()}
//% endif

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let across = ${WG}u >> p.lane_bits;
  let lane = li / across;
  let tile = g / p.pieces;
  let piece = g - tile * p.pieces;
  let own_row = tile * across + li - lane * across;
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
  let base = states_row(row);
  let end = min((piece + 1u) * p.depth, p.count);
  var state = init();
  for (var k = piece * p.depth + lane; k < end; k += ${N}u * lanes) {
//% for u in range(N)
    let k${u} = ${"k" if u == 0 else "min(k + " ~ u ~ "u * lanes, end - 1u)"};
//% for name, type in ROW.fields(T)
    let ${name}${u} = bitcast<${type}>(states_load(states_at(base, ${loop.index0}u * p.count + k${u})));
//% endfor
    var s${u} = Z(
//% for name, _ in ROW.fields(T)
      ${name}${u},
//% endfor
    );
//% endfor
//% for u in range(1, N)
    if (k + ${u}u * lanes >= end) { s${u} = init(); }
//% endfor
    state = combine(state, ${reductions.tree("combine", "s", N)});
  }
  shared_states[li] = state;
  workgroupBarrier();
  for (var apart = lanes >> 1u; apart > 0u; apart >>= 1u) {
    if (lane < apart) {
      state = combine(state, shared_states[li + apart * across]);
      shared_states[li] = state;
    }
    workgroupBarrier();
  }
  if ((lane > 0u) | (own_row >= p.rows)) { return; }
  let at = dst_row(row);
//% if not PACKED
  if (p.is_partial == 1u) {
//% for name, _ in ROW.fields(T)
    dst_mem[dst_at(at, ${loop.index0}u * p.apart + piece)] = bitcast<u32>(state.${name});
//% endfor
    return;
  }
//% endif
  ${reductions.store("dst_at(at, 0u)", "finish(state)", PACKED)}
}
