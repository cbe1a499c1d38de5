// /// kernel
// doc = """
// Attention: dst = softmax(cap(scale * q k^T) + slope * mask) v, without the whole matrix of scores in memory.
//
// q (B, H, S, D), k (B, Hkv, T, D), v (B, Hkv, T, Dv), any strides; each KV head serves H / Hkv
// neighbouring query heads; D up to 576, Dv up to 512. Sums are f32. Query i has the position p = i
// + T - S among the keys: `causal` hides the keys after p; `window` hides the keys before p - left
// and the keys after p + right. cap(s) is softcap * tanh(s / softcap). A key is masked if it is
// hidden or its logit is -inf; its values do not matter. A row without a key is 0, and its lse is
// -inf; a logit of NaN or +inf makes its row NaN. Rows are computed in blocks. The value of a key
// that no row of a block sees counts as 0; if some rows of a block see a value that is not finite,
// it may also reach the block's other rows."""
// source = "Dao et al. 2022 and 2023 (tiles, split-KV); Milakov and Gimelshein 2018 (online softmax); ALiBi: Press et al. 2021"
// configs.keys128 = { ROWS = 4, KEYS = 128, LANES = 8, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(k)" }
// axes.VECTORIZED = [true, false]
// axes.SPLIT = { values = "configs", pick = "'keys128'" }
// axes.LENGTHS = { values = ["", "i32"], pick = "dtype(lengths)" }
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "b h s d", doc = "(B, H, S, D)" }
// inputs.k = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>' if VECTORIZED else 'u32'", doc = "(B, Hkv, T, D)" }
// inputs.v = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>' if VECTORIZED else 'u32'", doc = "(B, Hkv, T, Dv)" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, axes = "b h s t", doc = "Added to the logits, or True where a key may be seen; broadcasts to (B, H, S, T)." }
// inputs.sinks = { dtype = "f32", optional = true, doc = "(H,): one more logit per head, without a value." }
// inputs.lengths = { dtype = "LENGTHS", when = "LENGTHS != ''", optional = true, readonly = true, axes = "b", doc = "(B,): the number of keys of each batch that count, as if k, v and mask ended after these keys; it is clamped to [0, T] and read on the device." }
// outputs.lse = { dtype = "f32", optional = true, doc = "(B, H, S): the logarithm of the sum of exp(logit), including the sink." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, H, S, Dv)" }
// options.scale = { type = "float | None", doc = "Factor of q k^T; None is 1 / sqrt(D)." }
// options.causal = { type = "bool | Literal['top-left', 'bottom-right']", default = false, doc = "With True or 'bottom-right', query i sees the keys up to i + T - S; with 'top-left', the keys up to i (torch)." }
// options.window = { type = "tuple[int | None, int | None] | None", doc = "(left, right): the numbers of keys that count before and after p; None is no limit." }
// options.max_bias = { type = "float", default = 0.0, doc = "For ALiBi, which multiplies the mask by a slope for each head; 8 is usual, 0 is no ALiBi." }
// options.softcap = { type = "float", default = 0.0, doc = "The bound of the scaled scores; 0 is no bound." }
// options.precision = { type = "Literal['fast', 'high'] | None", doc = "On matrix units, 'fast' sums float16 values in one piece; 'high' and None keep the bound of float32 sums." }
// bytes = "touched(q, mask, sinks, lengths, lse, dst) + touched(k, v) * seen_keys(q.shape[2], k.shape[2], causal, window) // max(k.shape[2], 1)"
// operations = "2 * (q.size + dst.size) // max(q.shape[2], 1) * seen_pairs(q.shape[2], k.shape[2], causal, window)"
// include sizes
// params."matrices row_groups splits split_keys first_key last_key column_bits" = { type = "u32" }
// params."band_low band_high" = { type = "i32" }
// params.q_kind = { type = "u32", value = "q.dtype.itemsize" }
// params.k_sb = { type = "u32", value = "k.strides[0] // (16 if VECTORIZED else k.dtype.itemsize) & 0xffffffff" }
// params.k_sh = { type = "u32", value = "k.strides[1] // (16 if VECTORIZED else k.dtype.itemsize) & 0xffffffff" }
// params.k_st = { type = "u32", value = "k.strides[2] // (16 if VECTORIZED else k.dtype.itemsize) & 0xffffffff" }
// params.k_sd = { type = "u32", value = "k.strides[3] // k.dtype.itemsize & 0xffffffff" }
// params.v_sb = { type = "u32", value = "v.strides[0] // (16 if VECTORIZED else v.dtype.itemsize) & 0xffffffff" }
// params.v_sh = { type = "u32", value = "v.strides[1] // (16 if VECTORIZED else v.dtype.itemsize) & 0xffffffff" }
// params.v_st = { type = "u32", value = "v.strides[2] // (16 if VECTORIZED else v.dtype.itemsize) & 0xffffffff" }
// params.v_sd = { type = "u32", value = "v.strides[3] // v.dtype.itemsize & 0xffffffff" }
// params.mask_kind = { type = "u32", value = "0 if mask is None else 3 if mask.dtype.name == 'bool' else 1 if mask.dtype.itemsize == 4 else 2" }
// include scores
// uses = ["scalar", "key_range", "direct_loader", "tile/mask", "online_softmax"]
// grid = "matrices * row_groups * splits"
// ///

// Few query rows and all keys (decoding), for calls that attention_decode does not support:
// heads more than 256 deep, and k or v that cannot be read in vectors. One workgroup takes up to
// ROWS rows that share a KV head and a split of the keys, so that k and v are read once. There are
// three phases. First come the scores: LANES invocations share a key, so there are PASS keys at a
// time. Then comes the softmax of the split. Last comes the sum of the values, where an invocation
// takes some columns of v, for keys at a fixed distance from each other. attention_combine combines
// the splits; here dst and lse are scratch and have a part for each split.
//
// Bounds, for unchecked compilation: keys and depths are clamped to their counts, rows to the last
// row; scores beyond the split are not read; stores are guarded, or repeat the result of the clamped
// row.
//% set L = direct_loader
${L.memory()}

${online_softmax.functions(1)}
${mask.functions(1)}
${scalar.half_of()}
${L.functions()}

// s0 ..: this lane's part of q k^T, for the key whose row begins at `k_at`.
//% macro multiply_qk()
//% for r in range(L.ROWS)
    var s${r} = 0.0f;
//% endfor
    for (var c0 = 0u; c0 * ${L.LANES * L.E}u < p.depth; c0 += ${L.K_LOADS}u) {
//% for c in range(L.K_LOADS)
      ${L.load("x" ~ c, "k", "k_at", "((c0 + " ~ c ~ "u) * " ~ L.LANES ~ "u + lane)", "p.depth")}
//% endfor
//% for c in range(L.K_LOADS)
      {
        let at = ((c0 + ${c}u) * ${L.LANES}u + lane) * ${L.HALVES}u;  // beyond its depth, q is zero
//% for h in range(L.HALVES)
        let y${h} = ${L.part("x" ~ c, h)};
//% for r in range(L.ROWS)
        s${r} += dot(y${h}, q_tile[${r}][at + ${h}u]);
//% endfor
//% endfor
      }
//% endfor
    }
//% endmacro

// Reduces value0, value1 and so on, one for each row, over all invocations; all of them get the result.
//% macro all_reduce(value, op)
  red[li] = vec4<f32>(${value}0, ${value}1, ${value}2, ${value}3);
  workgroupBarrier();
  if (li < 16u) {
    var t = red[li];
    for (var n = 16u; n < ${L.WG}u; n += 16u) { t = ${op % ("t", "red[li + n]")}; }
    red[li] = t;
  }
  workgroupBarrier();
  {
    var t = red[0];
    for (var n = 1u; n < 16u; n += 1u) { t = ${op % ("t", "red[n]")}; }
//% for r in range(L.ROWS)
    ${value}${r} = t[${r}];
//% endfor
  }
  workgroupBarrier();  // red has been read
//% endmacro

// o += p v for the loaded values of key n0, and of further keys that lie `apart` keys from each
// other. A value that has no weight in any row counts as 0, even if it is NaN.
//% macro multiply_pv()
//% for u in range(L.V_LOADS)
    {
      let n = n0 + ${u}u * apart;
      let at = min(n, ${L.KEYS - 1}u) * ${L.ROWS}u;
//% for r in range(L.ROWS)
      let w${r} = select(0.0f, scores[at + ${r}u], n < count);
//% endfor
      let weighs = (w0 != 0.0f) | (w1 != 0.0f) | (w2 != 0.0f) | (w3 != 0.0f);
//% for h in range(L.HALVES)
      let y${h} = select(vec4<f32>(), ${L.part("now" ~ u, h)}, weighs);
//% for r in range(L.ROWS)
      o${r * L.HALVES + h} = fma(vec4<f32>(w${r}), y${h}, o${r * L.HALVES + h});
//% endfor
//% endfor
    }
//% endfor
//% endmacro

@compute @workgroup_size(${L.WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let matrix = g / (p.row_groups * p.splits);
  let rest = g - matrix * p.row_groups * p.splits;
  let split = rest / p.row_groups;
  let row0 = (rest - split * p.row_groups) * ${L.ROWS}u;
  let batch = matrix / p.kv_heads;
  let kv_head = matrix - batch * p.kv_heads;
  ${key_range.ends()}
  let key0 = ${key_range.FIRST} + split * p.split_keys;
  let count = min(p.split_keys, ${key_range.LAST} - key0);
  let rows = p.group * p.queries;
  ${key_range.leave_without_keys("lse", L.ROWS)}
  ${L.load_q()}
  workgroupBarrier();

  // In each pass, an invocation finishes the sum of one row and one key. The first variables name
  // the row and the key; the others are inputs of the row's logits.
  let which = li >> ${L.PASS_BITS}u;
  let own_key = li & ${L.PASS - 1}u;
  let own_row = which & ${L.ROWS - 1}u;
  let mine = min(row0 + own_row, rows - 1u);
  let member = mine / p.queries;
  let query = mine - member * p.queries;
  let head = kv_head * p.group + member;
  let mask_at = p.mask_off + batch * p.mask_bs + head * p.mask_hs + query * p.mask_ss;
  let slope = alibi_slope(p.alibi_first + head);

  // s = q k^T for ${L.PASS} keys at a time; a load has ${L.E} neighbouring depths.
  let lane = li & ${L.LANES - 1}u;
  let k_start = p.k_off${" / " ~ L.E ~ "u" if VECTORIZED else ""} + batch * p.k_sb + kv_head * p.k_sh;
  for (var pass0 = 0u; pass0 < count; pass0 += ${L.PASS}u) {
    let k_at = k_start + min(key0 + pass0 + (li >> ${L.LANE_BITS}u), ${key_range.COUNT} - 1u) * p.k_st;
    ${multiply_qk()}
    // Adds the parts of the invocations that share a key.
    red[li] = vec4<f32>(s0, s1, s2, s3);
    workgroupBarrier();
    if (which < ${L.ROWS}u) {
      var sum = 0.0f;
      for (var n = 0u; n < ${L.LANES}u; n += 1u) { sum += red[own_key * ${L.LANES}u + n][own_row]; }
      let n = pass0 + own_key;
      if (n < ${L.KEYS}u) { scores[n * ${L.ROWS}u + own_row] = logits(sum, query, key0 + n, mask_at, slope${key_range.ARGUMENTS}); }
    }
    workgroupBarrier();  // red has been read
  }

  // The first values are loaded during the softmax.
  let column = li & ((1u << p.column_bits) - 1u);
  let apart = ${L.WG}u >> p.column_bits;
  let v_start = p.v_off${" / " ~ L.E ~ "u" if VECTORIZED else ""} + batch * p.v_sb + kv_head * p.v_sh;
  let v_first = li >> p.column_bits;
//% for u in range(L.V_LOADS)
  var v${u}: vec4<u32>;
//% endfor
  ${L.load_values("v_first")}

  // Softmax of the split: m = row_max(s), p = 2^(s - m), l = row_sum(p).
//% for r in range(L.ROWS)
  var m${r} = LOWEST;
  var l${r} = 0.0f;
//% endfor
  for (var n = li; n < count; n += ${L.WG}u) {
//% for r in range(L.ROWS)
    m${r} = max(m${r}, scores[n * ${L.ROWS}u + ${r}u]);
//% endfor
  }
  ${all_reduce("m", "max(%s, %s)")}
  for (var n = li; n < count; n += ${L.WG}u) {
//% for r in range(L.ROWS)
    let w${r} = exp2_shifted(scores[n * ${L.ROWS}u + ${r}u] - m${r});
    scores[n * ${L.ROWS}u + ${r}u] = w${r};
    l${r} += w${r};
//% endfor
  }
  ${all_reduce("l", "%s + %s")}

  // o = p v
//% for n in range(L.ROWS * L.HALVES)
  var o${n} = vec4<f32>();
//% endfor
  for (var n0 = v_first; n0 < count; n0 += ${L.V_LOADS}u * apart) {
//% for u in range(L.V_LOADS)
    let now${u} = v${u};
//% endfor
    ${L.load_values("(n0 + " ~ L.V_LOADS ~ "u * apart)")}
    ${multiply_pv()}
  }

  // o / l, with o summed over the invocations that have the same columns; and lse.
  let columns = (p.value_depth + 3u) / 4u;
  let part_row = (split * p.matrices + matrix) * rows + row0;
//% for n in range(L.ROWS * L.HALVES)
//% set r = n // L.HALVES
  red[li] = o${n} * select(1.0f / l${r}, 0.0f, l${r} == 0.0f);
  workgroupBarrier();
  if (li < (1u << p.column_bits)) {
    var sum = red[column];
    for (var n = 1u; n < apart; n += 1u) { sum += red[(n << p.column_bits) + column]; }
    let c = column * ${L.HALVES}u + ${n % L.HALVES}u;
    if ((c < columns) & (row0 + ${r}u < rows)) {
      dst_mem[p.dst_off / 4u + (part_row + ${r}u) * columns + c] = bitcast<vec4<u32>>(sum);
    }
  }
  workgroupBarrier();  // red has been read
//% endfor
//% for r in range(L.ROWS)
  if ((li == ${r}u) & (row0 + ${r}u < rows)) {
    let l = select((m${r} + log2(l${r})) * LN2, bitcast<f32>(p.minus_inf), l${r} == 0.0f);
    lse_store(p.lse_off + part_row + ${r}u, select(l, bitcast<f32>(p.nan), is_lost(l${r}) | is_lost(m${r})));
  }
//% endfor
}
