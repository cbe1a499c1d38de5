// /// kernel
// doc = "Computes the weights P and the gradients dS of the scores, for a window of queries x keys of some heads."
// part_of = "flash_attn_backward"
// configs.tile32 = { BM = 32, BN = 32, BK = 16, TM = 4, TN = 4, LM = 4, LN = 8, threads = 64 }
// configs.tile128 = { BM = 64, BN = 128, BK = 16, TM = 8, TN = 8, LM = 4, LN = 8, threads = 128 }
// axes.VEC = [4]
// axes.TILE = "configs"
// inputs.a = { dtype = "f32", vec = "VEC", index = false, readonly = true, doc = "(KV heads, D + Dv, keys): k over v" }
// inputs.b = { dtype = "f32", vec = "VEC", index = false, readonly = true, doc = "(heads, D + Dv, queries): q over do" }
// inputs.stats = { dtype = "f32", index = false, readonly = true, doc = "(heads, queries, 2): lse and delta" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, axes = "b h s t", index = false, readonly = true }
// outputs.weights = { dtype = "f32", vec = "VEC", index = false, doc = "(window's heads, queries, keys): P" }
// outputs.grads = { dtype = "f32", vec = "VEC", index = false, doc = "The same: dS" }
// outputs.grads_t = { dtype = "f32", vec = "VEC", index = false, doc = "(window's heads, keys, queries): dS transposed" }
// params."a_rs b_rs depth value_depth down across first_head first_query first_key" = { type = "u32" }
// params."queries keys heads group" = { type = "u32" }
// params."lowest highest" = { type = "i32" }
// params.mask_kind = { type = "u32", value = "0 if mask is None else 3 if mask.dtype.name == 'bool' else 1 if mask.dtype.itemsize == 4 else 2" }
// params.head_rows = { type = "u32", value = "1" }
// params."alibi_heads alibi_first" = { type = "u32" }
// params."max_bias scale softcap" = { type = "f32" }
// uses = ["tile/loader", "tile/mask", "tile/outer_product"]
// grid = "grads_t.shape[0] * down * across"
// ///

// One workgroup computes BM x BN scores of the window: q.k over D, then do.v over Dv, in one run
// over the rows of both panels. Between the two products, an invocation stores its results in the
// outputs, and after the second product it reads them back. Registers for the sums of both products
// would leave room for fewer workgroups. Keys and queries past the end, and keys that a query may
// not see, get weight and gradient 0 by selection, so that a NaN or infinity there has no effect. A
// tile that causality or the window hides is not written, because it is never read.
//
// Bounds, for unchecked compilation: panels and windows consist of whole tiles; indices of the mask
// are clamped to the last key and query; indices of workgroup memory are lane numbers.
//% set BM, BN, BK, TM, TN, LM, LN = CFG.BM, CFG.BN, CFG.BK, CFG.TM, CFG.TN, CFG.LM, CFG.LN
//% set A_TILE = {"x": "a", "storage": "f32", "V": 4, "K_ROWS": true, "EXTENT": BN, "BK": BK, "threads": CFG.threads}
//% set B_TILE = {"x": "b", "storage": "f32", "V": 4, "K_ROWS": true, "EXTENT": BM, "BK": BK, "threads": CFG.threads}
${outer_product.memory(BM, BN, BK)}
var<workgroup> stat: array<vec2<f32>, ${BM}>;
${mask.alibi_slope("row: u32", "(row / p.head_rows) % p.heads")}

struct Probability {
  p: vec4<f32>,  // weights of four keys
  d: vec4<f32>,  // derivatives of the weights with respect to q.k, without the factor dP - delta
}

fn mask_value(i: u32) -> f32 {
  let word = mask_mem[i >> (p.mask_kind - 1u)];
  let pair = unpack2x16float(word);
  let half = select(pair.x, pair.y, (i & 1u) == 1u);
  let byte = f32((word >> ((i & 3u) * 8u)) & 0xffu);
  return select(select(bitcast<f32>(word), half, p.mask_kind == 2u), byte, p.mask_kind == 3u);
}

// e^d for d <= 0 (apart from rounding). NaN stays NaN, which exp alone does not promise.
fn exp_shifted(d: vec4<f32>) -> vec4<f32> {
  let lost = (bitcast<vec4<u32>>(d) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
  let e = select(exp(min(d, vec4<f32>(88.0f))), vec4<f32>(), d < vec4<f32>(-104.0f));
  return select(e, d, lost);
}

// Turns the scores q.k of query i and keys j .. j + 3 into weights: scale, soft cap, ALiBi, mask,
// band, e^(x - lse).
fn probability(qk: vec4<f32>, slope: f32, mask_base: u32, lse: f32, i: u32, j: u32) -> Probability {
  let key = vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u);
  let ahead = vec4<i32>(key) - vec4<i32>(i32(i));
  var hidden = (ahead < vec4<i32>(p.lowest)) | (ahead > vec4<i32>(p.highest));
  hidden |= (key >= vec4<u32>(p.keys)) | vec4<bool>(i >= p.queries);
  var x = qk * p.scale;
  var derivative = vec4<f32>(p.scale);
  if (p.softcap != 0.0f) {
    // tanh and its derivative are computed from e^-2|u|, so that nothing cancels in the derivative.
    let e = exp(-2.0f * min(abs(x / p.softcap), vec4<f32>(40.0f)));
    let inverse = 1.0f / (1.0f + e);
    x = p.softcap * sign(x) * ((1.0f - e) * inverse);
    derivative *= 4.0f * e * inverse * inverse;
  }
  if (p.mask_kind != 0u) {
    let at = vec4<u32>(mask_base + min(i, p.queries - 1u) * p.mask_ss) + min(key, vec4<u32>(p.keys - 1u)) * p.mask_ts;
    let m = vec4<f32>(mask_value(at.x), mask_value(at.y), mask_value(at.z), mask_value(at.w));
    let flags = p.mask_kind == 3u;
    hidden |= select(bitcast<vec4<u32>>(m) == vec4<u32>(0xff800000u), m == vec4<f32>(), flags);
    x += select(slope * m, vec4<f32>(), flags);
  }
  let e = select(exp_shifted(x - vec4<f32>(lse)), vec4<f32>(), hidden);
  return Probability(e, select(e * derivative, vec4<f32>(), hidden));
}

// P = e^(x - lse), with x from the sums c. With a soft cap, the derivatives of P are kept in
// `grads` until `store_grads` reads them.
//% macro store_weights()
  let step = p.across * ${BN // 4}u;
  let row0 = tile_row * ${BM}u + at_row * 4u;  // in the window
  let col0 = tile_col * ${BN // 4}u + at_col;
  let base = (inside * p.down * ${BM}u + row0) * step + col0;
  let ahead = i32(key0) - i32(query0);
  let whole = (ahead - ${BM - 1} >= p.lowest) & (ahead + ${BN - 1} <= p.highest) & (key0 + ${BN}u <= p.keys) & (query0 + ${BM}u <= p.queries);
  if (whole & (p.mask_kind == 0u) & (p.softcap == 0.0f)) {
//% for i in range(TM)
    {
      let at = base + ${i // 4 * 4 * LM + i % 4}u * step;
      let lse = vec4<f32>(stat[(at_row + ${i // 4 * LM}u) * 4u + ${i % 4}u].x);
//% for j in range(TN // 4)
      weights_store(p.weights_off + at + ${j * LN}u, exp_shifted(c${i}_${j} * p.scale - lse));
//% endfor
    }
//% endfor
  } else {
    // This is a loop over an array, because unrolled code would be larger than the product.
    var c = array<vec4<f32>, ${TM * TN // 4}>(
//% for i in range(TM)
//% for j in range(TN // 4)
      c${i}_${j},
//% endfor
//% endfor
    );
    let slope = alibi_slope(p.alibi_first + own_head);
    let mask_base = p.mask_off + (own_head / p.heads) * p.mask_bs + (own_head % p.heads) * p.mask_hs;
    for (var n = 0u; n < ${TM * TN // 4}u; n += 1u) {
      let row = (n / ${TN}u) * ${4 * LM}u + ((n / ${TN // 4}u) & 3u);
      let col = (n % ${TN // 4}u) * ${LN}u;
      let lse = stat[at_row * 4u + row].x;
      let w = probability(c[n], slope, mask_base, lse, p.first_query + row0 + row, p.first_key + (col0 + col) * 4u);
      weights_store(p.weights_off + base + row * step + col, w.p);
      if (p.softcap != 0.0f) { grads_store(p.grads_off + base + row * step + col, w.d); }
    }
  }
//% endmacro

// dS = dP/dx * (dP - delta), with dP in the sums c; stored in rows of queries and in rows of keys.
//% macro store_grads()
  let high = p.down * ${BM // 4}u;  // vectors of a row of `grads_t`
  let under = p.grads_t_off + (inside * p.across * ${BN}u + col0 * 4u) * high + row0 / 4u;
//% for i in range(TM // 4)
  {
    let at = base + ${i * 4 * LM}u * step;
//% for r in range(4)
//% for j in range(TN // 4)
    var d${r}_${j} = weights_mem[p.weights_off + at + ${r}u * step + ${j * LN}u];
//% endfor
    let delta${r} = stat[(at_row + ${i * LM}u) * 4u + ${r}u].y;
//% endfor
    if (p.softcap != 0.0f) {
//% for r in range(4)
//% for j in range(TN // 4)
      d${r}_${j} = grads_mem[p.grads_off + at + ${r}u * step + ${j * LN}u];
//% endfor
//% endfor
    } else {
//% for r in range(4)
//% for j in range(TN // 4)
      d${r}_${j} *= p.scale;
//% endfor
//% endfor
    }
//% for r in range(4)
//% for j in range(TN // 4)
    let s${r}_${j} = select(d${r}_${j} * (c${i * 4 + r}_${j} - vec4<f32>(delta${r})), vec4<f32>(), d${r}_${j} == vec4<f32>());
//% endfor
//% endfor
//% for r in range(4)
//% for j in range(TN // 4)
    grads_store(p.grads_off + at + ${r}u * step + ${j * LN}u, s${r}_${j});
//% endfor
//% endfor
//% for j in range(TN // 4)
//% for e in range(4)
    grads_t_store(under + ${j * LN * 4 + e}u * high + ${i * LM}u, vec4<f32>(s0_${j}[${e}], s1_${j}[${e}], s2_${j}[${e}], s3_${j}[${e}]));
//% endfor
//% endfor
  }
//% endfor
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let inside = g / (p.down * p.across);
  let tile = g - inside * (p.down * p.across);
  let tile_row = tile / p.across;
  let tile_col = tile - tile_row * p.across;
  let query0 = p.first_query + tile_row * ${BM}u;
  let key0 = p.first_key + tile_col * ${BN}u;
  // flash_attn_backward_sums reads tiles of BN queries, so a tile is written completely or not at
  // all.
  let lead = i32(key0) - i32(query0 & ${2 ** 32 - BN}u);
  if ((lead + ${BN - 1} < p.lowest) | (lead - ${BN - 1} > p.highest)) { return; }
  let own_head = p.first_head + inside;
  let rows = (p.depth + p.value_depth) * ${BK}u;

  let k_prologue = ${BK}u;  // all tiles are whole
  let a_start = p.a_off + (own_head / p.group) * rows * p.a_rs;
  let b_start = p.b_off + own_head * rows * p.b_rs;
  ${loader.init(A_TILE, "key0", "(p.a_rs * 4u)")}
  ${loader.init(B_TILE, "query0", "(p.b_rs * 4u)")}
  ${loader.load_prologue(A_TILE)}
  ${loader.load_prologue(B_TILE)}
  let stat_at = p.stats_off + (own_head * p.b_rs * 4u + query0 + li % ${BM}u) * 2u;
  let own_stat = vec2<f32>(stats_load(stat_at), stats_load(stat_at + 1u));
  ${outer_product.lane_layout(TM, TN, LM, LN, BN)}
  ${outer_product.accumulators(TM, TN)}
  for (var left = p.depth; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
    ${loader.store_stage(A_TILE)}
    ${loader.store_stage(B_TILE)}
    workgroupBarrier();
    ${loader.load_next(A_TILE)}
    ${loader.load_next(B_TILE)}
    ${outer_product.multiply(TM, TN, LM, LN, BK)}
  }

  if (li < ${BM}u) { stat[li] = own_stat; }
  workgroupBarrier();
  ${store_weights()}
//% for i in range(TM)
//% for j in range(TN // 4)
  c${i}_${j} = vec4<f32>();
//% endfor
//% endfor

  for (var left = p.value_depth; left > 0u; left -= 1u) {
    workgroupBarrier();
    ${loader.store_stage(A_TILE)}
    ${loader.store_stage(B_TILE)}
    workgroupBarrier();
    if (left > 1u) {
      ${loader.load_next(A_TILE)}
      ${loader.load_next(B_TILE)}
    }
    ${outer_product.multiply(TM, TN, LM, LN, BK)}
  }

  ${store_grads()}
}
