// /// kernel
// doc = "Computes the weights of keys from scores of queries and keys: the softmax between two products."
// part_of = "flash_attn"
// configs.row64 = { threads = 64 }
// configs.row128 = { threads = 128 }
// configs.row256 = { threads = 256 }
// axes.P = { values = ["", "f16"], pick = "dtype(weights)" }
// axes.LENGTH = "configs"
// axes.VEC = { values = [4], pick = "4" }
// inputs.sinks = { dtype = "f32", optional = true, axes = "h" }
// outputs.scores = { dtype = "f32", vec = "VEC", axes = "b h s t", doc = "q k^T of some queries and keys, rows in whole vectors; replaced by the weights if `weights` is not given" }
// outputs.weights = { dtype = "P", vec = "VEC", when = "P != ''", optional = true, axes = "b h s t", doc = "2^15 times the weights" }
// outputs.lse = { dtype = "f32", axes = "b h s" }
// params."heads queries keys" = { type = "u32" }
// params.vectors = { type = "u32", value = "scores.shape[3] // 4" }
// params."band_low band_high" = { type = "i32", doc = "Query i may see key j if band_low <= j - i <= band_high" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params."scale softcap" = { type = "f32" }
// uses = ["online_softmax", "reduce", "tile/mask"]
// grid = "scores.shape[0] * heads * queries"
// ///

// One workgroup takes one row of scores. It reads the row once for the maximum and the sum of the
// weights. Then it reads the row again, from the cache, and stores the weights divided by their
// sum. Weights in halves are multiplied by 2^15, so that weights from 2^-29 on are normal numbers;
// the product with the values divides by 2^15 again. Keys that the query may not see get 0, and so
// do the columns that fill up the last vector.
//
// Bounds, for unchecked compilation: vectors are clamped to the last one of the row; stores are
// guarded.
//% set LANES, N = CFG.threads, 4
${online_softmax.functions(4)}
${mask.capped()}
${reduce.memory(LANES, LANES)}

// exp2_shifted for one number.
fn weight(d: f32) -> f32 { return select(exp2(d), 0.0f, d < -126.0f); }

// The logits of vector c of the row that begins at `start`; only the keys low .. high - 1 count.
fn logits_at(start: u32, c: u32, low: u32, high: u32) -> vec4<f32> {
  var s = scores_mem[start + min(c, p.vectors - 1u)] * p.scale;
  if (p.softcap != 0.0f) { s = capped(s); }
  let keys = vec4<u32>(c * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
  return select(s, vec4<f32>(bitcast<f32>(p.minus_inf)), (keys < vec4<u32>(low)) | (keys >= vec4<u32>(high)));
}

@compute @workgroup_size(${LANES})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let slot = li;
  let lane = li;
  let matrix = g / p.queries;
  let query = g - matrix * p.queries;
  let batch = matrix / p.heads;
  let head = matrix - batch * p.heads;
  let start = p.scores_off + batch * p.scores_bs + head * p.scores_hs + query * p.scores_ss;
  let low = u32(clamp(i32(query) + p.band_low, 0, i32(p.keys)));
  let high = u32(clamp(i32(query) + p.band_high + 1, i32(low), i32(p.keys)));

  // m: the maximum of this lane's logits; l: the sum of 2^(logit - m).
  var m = LOWEST;
  var l = 0.0f;
  for (var c0 = 0u; c0 < p.vectors; c0 += ${N * LANES}u) {
//% for n in range(N)
    let s${n} = logits_at(start, c0 + li + ${n * LANES}u, low, high);
//% endfor
    let top = max(${"max(s0, s1)"}, max(s2, s3));
    let next = max(m, max(max(top.x, top.y), max(top.z, top.w)));
    let e = ${"exp2_shifted(s0 - vec4<f32>(next)) + exp2_shifted(s1 - vec4<f32>(next))"}
      + exp2_shifted(s2 - vec4<f32>(next)) + exp2_shifted(s3 - vec4<f32>(next));
    l = l * weight(m - next) + ((e.x + e.y) + (e.z + e.w));
    m = next;
  }
  let own = m;
  ${reduce.lanes("m", "max", LANES)}
  l *= weight(own - m);
  ${reduce.lanes("l", "+", LANES, again=true)}

  let empty = (l == 0.0f) | (m == LOWEST);
  var lost = is_lost(l) | is_lost(m);
  var sum = l;
  var most = m;
  if (p.has_sinks == 1u) {
    let sink = sinks_load(p.sinks_off + head * p.sinks_hs) * LOG2E;
    lost |= is_lost(sink) & (bitcast<u32>(sink) != MINUS_INF) & !empty;
    most = max(m, sink);
    sum = l * weight(m - most) + weight(sink - most);
  }
  if (li == 0u) {
    let lse = select((most + log2(sum)) * LN2, bitcast<f32>(p.minus_inf), empty);
    lse_store(p.lse_off + batch * p.lse_bs + head * p.lse_hs + query * p.lse_ss, select(lse, bitcast<f32>(p.nan), lost));
  }
  let factor = select(select(${"0x1p15f" if P else "1.0f"} / sum, 0.0f, empty), bitcast<f32>(p.nan), lost);
//% if P
  let to = p.weights_off + batch * p.weights_bs + head * p.weights_hs + query * p.weights_ss;
//% endif
  for (var c0 = li; c0 < p.vectors; c0 += ${N * LANES}u) {
//% for n in range(N)
    let s${n} = logits_at(start, c0 + ${n * LANES}u, low, high);
//% endfor
//% for n in range(N)
    if (c0 + ${n * LANES}u < p.vectors) {
      let w = exp2_shifted(s${n} - vec4<f32>(most)) * factor;
//% if P
      weights_store(to + c0 + ${n * LANES}u, w);
//% else
      scores_store(start + c0 + ${n * LANES}u, w);
//% endif
    }
//% endfor
  }
}
