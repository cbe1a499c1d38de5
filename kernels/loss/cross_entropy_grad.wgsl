// /// kernel
// doc = "The gradient of the input of cross_entropy and of nll_loss."
// part_of = "cross_entropy_backward"
// configs.batch1 = { N = 1, threads = 256 }
// configs.batch4 = { N = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.TARGETS = ["class", "probs", "nll"]
// axes.VEC = [1, 4]
// axes.BATCH = "configs"
// when = ["TARGETS != 'nll' or BATCH == 'batch1'"]
// inputs.x = { dtype = "T", vec = "VEC", when = "TARGETS != 'nll'", optional = true, doc = "(..., classes)" }
// inputs.target = { dtype = "*", dtypes = ["int32", "int64"], bind = "'u32'", when = "TARGETS != 'probs'", optional = true, doc = "(..., 1)" }
// inputs.probs = { dtype = "T", vec = "VEC", when = "TARGETS == 'probs'", optional = true, doc = "(..., classes)" }
// inputs.stats = { dtype = "f32", when = "TARGETS != 'nll'", optional = true, doc = "(..., 2), the stats that cross_entropy wrote" }
// inputs.dy = { dtype = "T", doc = "(..., 1)" }
// inputs.total = { dtype = "f32", optional = true, index = false, doc = "()" }
// inputs.weight = { dtype = "T", optional = true, index = false, axes = "c", doc = "(classes,)" }
// outputs.dst = { dtype = "T", vec = "VEC", alias = "x", doc = "(..., classes)" }
// iterate = "rows"
// params.classes = { type = "u32", value = "dst.shape[-1]" }
// params.cols = { type = "u32", value = "dst.shape[-1] // VEC" }
// params."lanes_apart lane_bits pieces" = { type = "u32" }
// params.has_total = { type = "u32", value = "1 if total else 0" }
// params.has_weight = { type = "u32", value = "1 if weight else 0" }
// params.target_words = { type = "u32", value = "target.dtype.itemsize // 4 if target else 1" }
// params."ignore_lo ignore_hi" = { type = "u32" }
// params."hard spread" = { type = "f32" }
// uses = ["cross_entropy"]
// grid = "cdiv(it.rows, CFG.threads >> lane_bits) * pieces"
// ///

//% set N, WG = CFG.N, CFG.threads
// 2^lane_bits invocations take a row, or a piece of a row; each takes N vectors. An element of the
// gradient depends on its own logit and on a few numbers of its row, so there is one read and one
// write.
${cross_entropy.functions(VEC)}
${cross_entropy.class_weights(VEC)}
//% if TARGETS != "probs"
${cross_entropy.target()}
//% endif

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let rows = ${WG}u >> p.lane_bits;
  let apart = p.lanes_apart == 1u;
  let lane = select(li & (lanes - 1u), li >> (${WG.bit_length() - 1}u - p.lane_bits), apart);
  let inside = select(li >> p.lane_bits, li & (rows - 1u), apart);
  let tile = g / p.pieces;
  let row = tile * rows + inside;
  if (row >= p.rows) { return; }
  let first = (g - tile * p.pieces) * ${N}u * lanes + lane;
//% if TARGETS != "nll"
  let base = x_row(row);
//% endif
//% if TARGETS == "probs"
  let probs_base = probs_row(row);
//% endif
//% for u in range(N)
  let c${u} = min(first + ${u}u * lanes, p.cols - 1u);
//% if TARGETS != "nll"
  let x${u} = x_load(x_at(base, c${u}));
//% endif
//% if TARGETS == "probs"
  let p${u} = probs_load(probs_at(probs_base, c${u}));
//% endif
//% endfor
//% if TARGETS != "nll"
  let stats_base = stats_row(row);
  let top = stats_load(stats_at(stats_base, 0u));
  let share = stats_load(stats_at(stats_base, 1u));
//% endif
  var k = dy_load(dy_at(dy_row(row), 0u));
  if (p.has_total == 1u) { k /= total_load(p.total_off); }
//% if TARGETS != "probs"
  let goal = target_of(row);
  let own_class = min(goal.found, p.classes - 1u);
  let counts = goal.inside & !goal.ignored;
  let part = p.hard * class_weight(own_class);
  // `part` in the component of the class, 0 in the other components.
//% if VEC == 4
  let own = select(V(), V(part), vec4<u32>(0u, 1u, 2u, 3u) == vec4<u32>(own_class & 3u));
//% else
  let own = part;
//% endif
//% endif
  let to = dst_row(row);
//% for u in range(N)
//% set mine = "select(V(), own, c" ~ u ~ " == own_class / " ~ VEC ~ "u)"
//% if TARGETS == "probs"
  let y${u} = k * (exp_shifted(x${u} - V(top)) * share - class_weights(c${u}) * fma(p${u}, V(p.hard), V(p.spread)));
//% elif TARGETS == "nll"
  let y${u} = select(V(), -k * ${mine}, counts);
//% else
  var t${u} = ${mine};
  if (p.spread != 0.0f) { t${u} += p.spread * class_weights(c${u}); }
  let y${u} = select(V(), k * (exp_shifted(x${u} - V(top)) * share - t${u}), counts);
//% endif
  if (first + ${u}u * lanes < p.cols) { dst_store(dst_at(to, c${u}), y${u}); }
//% endfor
}
