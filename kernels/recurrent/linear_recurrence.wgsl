// /// kernel
// doc = """
// A linear recurrence: each head has a state S (K, V) that every step of time updates and reads.
//
// With f = decay[t], or exp(decay[t] * rate) where `rate` is given:
// S = f * S + pair[t, 1] (pair[t, 0]^T S) + k[t] v[t]^T, and dst[t] = q[t]^T S. f multiplies the
// rows of S, and pair[t, 0]^T S uses the S from before the step. With `before`, dst[t] = q[t]^T S
// uses the S from before the step. `states` gets S after every `every` steps and after the last
// step. All arithmetic is f32. K is at most 1,024."""
// source = "ggml SSM_SCAN, GATED_LINEAR_ATTN, RWKV_WKV6, RWKV_WKV7, GATED_DELTA_NET"
// configs.lanes1 = { LANES = 1, threads = 64 }
// configs.lanes2 = { LANES = 2, threads = 64 }
// configs.lanes4 = { LANES = 4, threads = 64 }
// configs.lanes8 = { LANES = 8, threads = 64 }
// configs.lanes16 = { LANES = 16, threads = 128 }
// configs.lanes64 = { LANES = 64, threads = 256 }
// axes.GROUP = "configs"
// axes."PAIR RATE" = [false, true]
// pick.PAIR = "pair is not None"
// pick.RATE = "rate is not None"
// when = ["not (PAIR and RATE)"]
// inputs.q = { dtype = "f32", axes = "b t h k", doc = "(B, T, H, K): the vectors that read the state" }
// inputs.k = { dtype = "f32", axes = "b t h k", doc = "(B, T, H, K)" }
// inputs.v = { dtype = "f32", axes = "b t h v", doc = "(B, T, H, V)" }
// inputs.decay = { dtype = "f32", axes = "b t h k", doc = "(B, T, H, K): factors of the rows of the state" }
// inputs.state = { dtype = "f32", axes = "b h k v", doc = "(B, H, K, V): the state before the first step" }
// inputs.pair = { dtype = "f32", when = "PAIR", optional = true, axes = "b t h p k", doc = "(B, T, H, 2, K): the vectors that read the old state, and the vectors that write the result back" }
// inputs.rate = { dtype = "f32", when = "RATE", optional = true, axes = "h k", doc = "(H, K): the factor is exp(decay * rate). It excludes `pair`." }
// outputs.dst = { dtype = "f32", axes = "b t h v", doc = "(B, T, H, V)" }
// outputs.states = { dtype = "f32", axes = "b n h k v", doc = "(B, ceil(T / every), H, K, V)" }
// options.every = { type = "int", default = 0, doc = "Steps from a stored state to the next; 0 stores the last state only." }
// options.before = { type = "bool", default = false, doc = "True reads the state from before each step, not from after it." }
// iterate = "none"
// params.columns = { type = "u32", value = "dst.shape[0] * dst.shape[2] * dst.shape[3]" }
// params.steps = { type = "u32", value = "dst.shape[1]" }
// params.heads = { type = "u32", value = "dst.shape[2]" }
// params.width = { type = "u32", value = "dst.shape[3]" }
// params.depth = { type = "u32", value = "q.shape[3]" }
// params."span early" = { type = "u32" }
// uses = ["exponentials"]
// grid = "cdiv(dst.shape[0] * dst.shape[2] * dst.shape[3], CFG.threads // CFG.LANES)"
// operations = "(8 if pair is not None else 5) * v.size * q.shape[3]"
// ///

// A column of a state depends on no other column. LANES invocations hold one column in registers,
// 16 rows each, and process the time steps in order; neighbouring invocations hold neighbouring
// columns. Sums over rows go through workgroup memory. Rows past the end are 0.
//% set LANES, WG = CFG.LANES, CFG.threads
//% set COLS = WG // LANES
//% if RATE
alias V = f32;
alias I = i32;
alias U = u32;
${exponentials.accurate_exp()}
//% endif
//% if LANES > 1
//% if PAIR
var<workgroup> reads: array<f32, ${WG}>;
//% endif
var<workgroup> sums: array<f32, ${2 * WG}>;
//% endif

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let col = li % ${COLS}u;
  let lane = li / ${COLS}u;
  let own = g * ${COLS}u + col;
  let c = min(own, p.columns - 1u);  // columns past the end repeat the last one and store nothing
  let head_of_all = c / p.width;
  let j = c - head_of_all * p.width;
  let b = head_of_all / p.heads;
  let h = head_of_all - b * p.heads;
  var q_at = p.q_off + b * p.q_bs + h * p.q_hs;
  var k_at = p.k_off + b * p.k_bs + h * p.k_hs;
  var v_at = p.v_off + b * p.v_bs + h * p.v_hs + j * p.v_vs;
  var decay_at = p.decay_off + b * p.decay_bs + h * p.decay_hs;
//% if PAIR
  var pair_at = p.pair_off + b * p.pair_bs + h * p.pair_hs;
//% endif
  var dst_at = p.dst_off + b * p.dst_bs + h * p.dst_hs + j * p.dst_vs;
  let state_base = p.state_off + b * p.state_bs + h * p.state_hs + j * p.state_vs;
  var states_at = p.states_off + b * p.states_bs + h * p.states_hs + j * p.states_vs;
//% for r in range(16)
  let in${r} = lane + ${r * LANES}u < p.depth;
  let k${r} = min(lane + ${r * LANES}u, p.depth - 1u);
  var s${r} = select(0.0f, state_load(state_base + k${r} * p.state_ks), in${r});
//% if RATE
  let rate${r} = rate_load(p.rate_off + h * p.rate_hs + k${r} * p.rate_ks);
//% endif
//% endfor
  var left = p.span;  // number of steps until the next stored state
  for (var t = 0u; t < p.steps; t += 1u) {
    let value = v_load(v_at);
//% if PAIR
    var read = 0.0f;
//% for r in range(16)
    if (${r * LANES}u < p.depth) {
      read += select(0.0f, pair_load(pair_at + k${r} * p.pair_ks) * s${r}, in${r});
    }
//% endfor
//% if LANES > 1
    reads[li] = read;
    workgroupBarrier();
    read = 0.0f;
//% for l in range(LANES)
    read += reads[${l * COLS}u + col];
//% endfor
//% endif
//% endif
    var sum = 0.0f;
//% for r in range(16)
    if (${r * LANES}u < p.depth) {
      let q = q_load(q_at + k${r} * p.q_ks);
//% if RATE
      let f = accurate_exp(decay_load(decay_at + k${r} * p.decay_ks) * rate${r});
//% else
      let f = decay_load(decay_at + k${r} * p.decay_ks);
//% endif
      var next = fma(k_load(k_at + k${r} * p.k_ks), value, f * s${r});
//% if PAIR
      next = fma(pair_load(pair_at + p.pair_ps + k${r} * p.pair_ks), read, next);
//% endif
      sum += select(0.0f, q * select(next, s${r}, p.early != 0u), in${r});
      s${r} = select(0.0f, next, in${r});
    }
//% endfor
//% if LANES > 1
    // Two halves are used in turn, because other invocations may still read the sums of the
    // previous step.
    let half = (t & 1u) * ${WG}u;
    sums[half + li] = sum;
    workgroupBarrier();
    if (lane == 0u) {
      sum = 0.0f;
//% for l in range(LANES)
      sum += sums[half + ${l * COLS}u + col];
//% endfor
    }
//% endif
    if ((lane == 0u) & (own < p.columns)) { dst_store(dst_at, sum); }
    left -= 1u;
    if ((left == 0u) | (t + 1u == p.steps)) {
      left = p.span;
//% for r in range(16)
      if (in${r} & (own < p.columns)) { states_store(states_at + k${r} * p.states_ks, s${r}); }
//% endfor
      states_at += p.states_ns;
    }
    q_at += p.q_ts;
    k_at += p.k_ts;
    v_at += p.v_ts;
    decay_at += p.decay_ts;
//% if PAIR
    pair_at += p.pair_ts;
//% endif
    dst_at += p.dst_ts;
  }
}
