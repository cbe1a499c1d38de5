// Code that the bodies of cross_entropy share: the state of a row or of a piece of a row, and the
// results that follow from the state. Infinities and NaN are recognised by their bits, because
// comparisons with them are not portable.
//% import "kernels/lib/reductions.wgsl" as reductions

// The types of VEC logits, and exponentials of differences from a maximum.
//% macro functions(VEC)
//% for name, type in (("V", "f32"), ("VI", "i32"), ("VU", "u32"))
alias ${name} = ${"vec4<" ~ type ~ ">" if VEC == 4 else type};
//% endfor

// e^d for d <= 0; 0 if the true value is below 2^-150.
fn exp_shifted(d: V) -> V { return select(exp(d), V(), d < V(-104.0f)); }
//% if VEC == 4
fn exp_shifted_one(d: f32) -> f32 { return select(exp(d), 0.0f, d < -104.0f); }
//% else
fn exp_shifted_one(d: f32) -> f32 { return exp_shifted(d); }
//% endif
//% endmacro

// The sum of the components of a vector, or their maximum.
//% macro across(v, VEC, op)
//% if VEC == 1
${v}
//%- elif op == "+"
(${v}.x + ${v}.y) + (${v}.z + ${v}.w)
//%- else
max(max(${v}.x, ${v}.y), max(${v}.z, ${v}.w))
//%- endif
//%- endmacro

// The state of classes with logits x and targets t: `top` is the largest x, `sum` the sum of e^(x - top),
// `share` the sum of t, `cost` the sum of t (top - x); `weight` is the weight of the row in a mean; `bad`
// is true if a logit is NaN or +inf. All terms of `cost` have the same sign, so nothing cancels.
//% macro state()
const LOWEST = -0x1.fffffep+127f;
struct State { top: f32, sum: f32, share: f32, cost: f32, weight: f32, bad: u32 }

// The cost t (top - x) for a top that is higher by `up`. Without targets (share is 0), the cost
// does not change, even if `up` overflows.
fn raised(cost: f32, share: f32, up: f32) -> f32 {
  return cost + select(share * up, 0.0f, share == 0.0f);
}

fn combine(a: State, b: State) -> State {
  let top = max(a.top, b.top);
  return State(
    top,
    a.sum * exp_shifted_one(a.top - top) + b.sum * exp_shifted_one(b.top - top),
    a.share + b.share,
    raised(a.cost, a.share, top - a.top) + raised(b.cost, b.share, top - b.top),
    a.weight + b.weight,
    a.bad | b.bad,
  );
}
//% endmacro

// Stores the results of a row: its loss and, in a second column, its weight; and for the gradient
// `top` and share / sum.
//% macro store(state, row)
  {
    let s = ${state};
    // The largest logit adds 1 to the sum, unless all are -inf.
    let lost = (s.bad != 0u) | (s.sum == 0.0f);
    let nan = bitcast<f32>(p.nan);
    let to = dst_row(${row});
    dst_store(dst_at(to, 0u), select(fma(s.share, log(max(s.sum, 1.0f)), s.cost), nan, lost));
    if (p.weighted == 1u) { dst_store(dst_at(to, 1u), s.weight); }
    if (p.has_stats == 1u) {
      let at = stats_row(${row});
      stats_store(stats_at(at, 0u), s.top);
      stats_store(stats_at(at, 1u), select(s.share / max(s.sum, 1.0f), nan, lost));
    }
  }
//% endmacro

// The class of a row: `found` is the class, and `ignored` is true if it is ignore_index.
//% macro target()
struct Target { found: u32, high: u32, inside: bool, ignored: bool }

fn target_of(row: u32) -> Target {
  let i = target_row(row) * p.target_words;
  let lo = target_mem[i];
  // An int32 has no second word, so its sign takes the place of that word.
  let hi = select(target_mem[i + p.target_words - 1u], select(0u, 0xffffffffu, lo >= 0x80000000u), p.target_words == 1u);
  return Target(lo, hi, (hi == 0u) & (lo < p.classes), (lo == p.ignore_lo) & (hi == p.ignore_hi));
}
//% endmacro

// The weight of class c.
//% macro class_weight()
fn class_weight(c: u32) -> f32 {
  if (p.has_weight == 0u) { return 1.0f; }
  return weight_load(p.weight_off + c * p.weight_cs);
}
//% endmacro

// The weight of class c, and the weights of vector c of the classes.
//% macro class_weights(VEC)
${class_weight()}
//% if VEC == 4
fn class_weights(c: u32) -> V {
  if (p.has_weight == 0u) { return V(1.0f); }
  let at = p.weight_off + 4u * c * p.weight_cs;
  return V(weight_load(at), weight_load(at + p.weight_cs), weight_load(at + 2u * p.weight_cs),
           weight_load(at + 3u * p.weight_cs));
}
//% else
fn class_weights(c: u32) -> V { return class_weight(c); }
//% endif
//% endmacro

// The body that reads rows. Targets are classes, or weights of all classes (PROBS).
//
// 2^lane_bits invocations (lanes) take a row, or a piece of `depth` vectors of it. Each lane loads N
// vectors at once and keeps its own maximum and sum; workgroup memory combines the states of the lanes.
// If rows lie closer together than columns, neighbouring invocations take neighbouring rows. Bytes: each
// logit is read once.
//% macro rows(PROBS, VEC, N, WG)
${functions(VEC)}
${state()}
${class_weights(VEC)}
//% if not PROBS
${target()}
//% endif
var<workgroup> states: array<State, ${WG}>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
//% if not PROBS
  fault_started((g | li) == 0u);
//% endif
  if (g >= p.groups) { return; }
  let lanes = 1u << p.lane_bits;
  let rows = ${WG}u >> p.lane_bits;
  let apart = p.lanes_apart == 1u;
  let lane = select(li & (lanes - 1u), li >> (${WG.bit_length() - 1}u - p.lane_bits), apart);
  let inside = select(li >> p.lane_bits, li & (rows - 1u), apart);
  let slot = inside * lanes + lane;
  let tile = g / p.pieces;
  let piece = g - tile * p.pieces;
  let own_row = tile * rows + inside;
  let row = min(own_row, p.rows - 1u);  // lanes past the end repeat the last row and store nothing
  let base = x_row(row);
//% if PROBS
  let target_base = target_row(row);
//% else
  let goal = target_of(row);
//% endif

  let none = V(bitcast<f32>(p.minus_inf));
  let end = min((piece + 1u) * p.depth, p.cols);
  var top = LOWEST;
  var sum = V();
  var share = V();
  var cost = V();
  // The largest bit pattern, compared as a signed number, shows +inf and NaN; compared as an
  // unsigned number, it shows NaN with its sign set.
  var high_s = VI();
  var high_u = VU();
//% macro take(whole)
//% for u in range(N)
//% set c = "c" if u == 0 else "c + " ~ u ~ "u * lanes"
    let c${u} = ${c if whole or u == 0 else "min(" ~ c ~ ", end - 1u)"};
    let in${u} = x_load(x_at(base, c${u}));
//% if PROBS
    let p${u} = target_load(target_at(target_base, c${u}));
//% endif
//% endfor
//% for u in range(N)
    let x${u} = ${"in" ~ u if whole or u == 0 else "select(none, in" ~ u ~ ", c + " ~ u ~ "u * lanes < end)"};
    let s${u} = bitcast<VI>(x${u});
    let u${u} = bitcast<VU>(x${u});
//% endfor
    high_s = max(high_s, ${reductions.tree("max", "s", N)});
    high_u = max(high_u, ${reductions.tree("max", "u", N)});
    let tops = ${reductions.tree("max", "x", N)};
    let higher = max(top, ${across("tops", VEC, "max")});
    let down = exp_shifted_one(top - higher);
//% for u in range(N)
    let e${u} = exp_shifted(x${u} - V(higher));
//% endfor
    sum = sum * down + ${reductions.plus("e", N)};
//% if not PROBS
    if (p.spread != 0.0f) {
//% else
    {
//% endif
      cost += select(share * (higher - top), V(), share == V());
//% for u in range(N)
      // The sums over all classes, without the part of the target class.
//% set t = "class_weights(c" ~ u ~ ")" ~ (" * fma(p" ~ u ~ ", V(p.hard), V(p.spread))" if PROBS else "")
      let t${u} = ${t};
//% set d = "t" ~ u ~ " * (V(higher) - in" ~ u ~ ")"
      let d${u} = ${d if whole or u == 0 else "select(V(), " ~ d ~ ", c + " ~ u ~ "u * lanes < end)"};
      let w${u} = ${"t" ~ u if whole or u == 0 else "select(V(), t" ~ u ~ ", c + " ~ u ~ "u * lanes < end)"};
//% endfor
      cost += ${reductions.plus("d", N)};
      share += ${reductions.plus("w", N)};
    }
    top = higher;
//% endmacro
  var c = piece * p.depth + lane;
  for (; c + ${N - 1}u * lanes < end; c += ${N}u * lanes) {
    ${take(true)}
  }
//% if N > 1
  if (c < end) {
    ${take(false)}
  }
//% endif

  let bad = ${"any" if VEC == 4 else ""}(high_s >= VI(0x7f800000)) | ${"any" if VEC == 4 else ""}(high_u > VU(0xff800000u));
  var state = State(
    top, ${across("sum", VEC, "+")}, ${across("share", VEC, "+")},
    ${across("cost", VEC, "+")}, 0.0f, select(0u, 1u, bad),
  );
//% if not PROBS
  // This is loaded while the lanes' states are combined, because by then the class has been loaded.
  let own_class = min(goal.found, p.classes - 1u);
  let own = f32(x_load(x_at(base, own_class / VEC))${"[own_class & 3u]" if VEC == 4 else ""});
  let own_weight = class_weight(own_class);
//% endif
  states[slot] = state;
  workgroupBarrier();
  for (var half = lanes >> 1u; half > 0u; half >>= 1u) {
    if (lane < half) {
      state = combine(state, states[slot + half]);
      states[slot] = state;
    }
    workgroupBarrier();
  }
  if ((lane > 0u) | (own_row >= p.rows)) { return; }
//% if PROBS
  state.weight = select(0.0f, 1.0f, piece == 0u);
//% else
  if (goal.ignored | !goal.inside) {
    if ((piece == 0u) & !goal.ignored) { fault(row, goal.found, goal.high); }
    state = State(LOWEST, 1.0f, 0.0f, 0.0f, 0.0f, 0u);  // the row has no cost and no gradient
  } else {
    state.share *= p.spread;
    state.cost *= p.spread;
    if (piece == 0u) {
      let part = p.hard * own_weight;
      state.share += part;
      state.cost += part * (state.top - own);
      state.weight = own_weight;
    }
  }
//% endif
  if (p.pieces > 1u) {
    let at = dst_at(dst_row(row), piece * 6u);
    dst_store(at, state.top);
    dst_store(at + 1u, state.sum);
    dst_store(at + 2u, state.share);
    dst_store(at + 3u, state.cost);
    dst_store(at + 4u, state.weight);
    dst_store(at + 5u, select(0.0f, 1.0f, state.bad != 0u));
    return;
  }
  ${store("state", "row")}
}
//% endmacro
