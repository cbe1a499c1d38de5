// /// kernel
// doc = """
// Attention: dst = softmax(cap(scale * q k^T) + slope * mask) v, without the matrix of scores in memory.
//
// q (B, H, S, D), k (B, Hkv, T, D), v (B, Hkv, T, Dv), any strides; each KV head serves H / Hkv
// neighbouring query heads; D up to 576, Dv up to 512. Sums are f32. Query i stands at key
// p = i + T - S: `causal` hides the keys behind p, `window` those outside of p - left .. p + right.
// cap(s) is softcap * tanh(s / softcap). A key is masked if it is hidden or its logit is -inf; what
// it holds does not matter. A row without a key is 0, and its lse -inf; a logit of NaN or +inf makes
// its row NaN. Values of keys that no query of a block of rows sees count as 0; a value that is not
// finite where only some of them see it may reach the others."""
// source = "Dao et al. 2022 and 2023 (tiles, slices of the keys); Milakov and Gimelshein 2018 (online softmax); ALiBi: Press et al. 2021"
// axes.T = ["f32", "f16"]
// axes.WIDE = [true, false]
// pick.T = "dtype(k)"
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(B, H, S, D)" }
// inputs.k = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>' if WIDE else 'u32'", doc = "(B, Hkv, T, D)" }
// inputs.v = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>' if WIDE else 'u32'", doc = "(B, Hkv, T, Dv)" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, doc = "Added to the logits, or True where a key may be seen; broadcasts to (B, H, S, T)." }
// inputs.sinks = { dtype = "f32", optional = true, doc = "(H,): one more logit per head, without a value." }
// outputs.lse = { dtype = "f32", optional = true, doc = "(B, H, S): logarithm of the sum of exp(logit), the sink's included." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, H, S, Dv)" }
// options.scale = { type = "float | None", doc = "Factor of q k^T; None is 1 / sqrt(D)." }
// options.causal = { type = "bool | Literal['top-left', 'bottom-right']", default = false, doc = "True or 'bottom-right': the last query sees the last key; 'top-left': the first sees the first (torch)." }
// options.window = { type = "tuple[int | None, int | None] | None", doc = "(left, right): keys before and after p; None is open." }
// options.max_bias = { type = "float", default = 0.0, doc = "ALiBi: the factor of the mask by head; 8 is usual, 0 is none (slope 1)." }
// options.softcap = { type = "float", default = 0.0, doc = "Bound of the scaled scores; 0 is none." }
// operations = "2 * (q.size + dst.size) * k.shape[2] // (2 if causal and q.shape[2] == k.shape[2] else 1)"
// params.kv_heads = { type = "u32" }
// params.group = { type = "u32" }
// params.queries = { type = "u32" }
// params.keys = { type = "u32" }
// params.depth = { type = "u32" }
// params.value_depth = { type = "u32" }
// params.matrices = { type = "u32" }
// params.row_groups = { type = "u32" }
// params.slices = { type = "u32" }
// params.slice_keys = { type = "u32" }
// params.first_key = { type = "u32" }
// params.last_key = { type = "u32" }
// params.column_bits = { type = "u32" }
// params.band_low = { type = "i32" }
// params.band_high = { type = "i32" }
// params.q_kind = { type = "u32", value = "q.dtype.itemsize" }
// params.q_sb = { type = "u32", value = "q.strides[0] // q.dtype.itemsize & 0xffffffff" }
// params.q_sh = { type = "u32", value = "q.strides[1] // q.dtype.itemsize & 0xffffffff" }
// params.q_st = { type = "u32", value = "q.strides[2] // q.dtype.itemsize & 0xffffffff" }
// params.q_sd = { type = "u32", value = "q.strides[3] // q.dtype.itemsize & 0xffffffff" }
// params.k_sb = { type = "u32", value = "k.strides[0] // (16 if WIDE else k.dtype.itemsize) & 0xffffffff" }
// params.k_sh = { type = "u32", value = "k.strides[1] // (16 if WIDE else k.dtype.itemsize) & 0xffffffff" }
// params.k_st = { type = "u32", value = "k.strides[2] // (16 if WIDE else k.dtype.itemsize) & 0xffffffff" }
// params.k_sd = { type = "u32", value = "k.strides[3] // k.dtype.itemsize & 0xffffffff" }
// params.v_sb = { type = "u32", value = "v.strides[0] // (16 if WIDE else v.dtype.itemsize) & 0xffffffff" }
// params.v_sh = { type = "u32", value = "v.strides[1] // (16 if WIDE else v.dtype.itemsize) & 0xffffffff" }
// params.v_st = { type = "u32", value = "v.strides[2] // (16 if WIDE else v.dtype.itemsize) & 0xffffffff" }
// params.v_sd = { type = "u32", value = "v.strides[3] // v.dtype.itemsize & 0xffffffff" }
// params.mask_kind = { type = "u32" }
// params.mask_sb = { type = "u32" }
// params.mask_sh = { type = "u32" }
// params.mask_ss = { type = "u32" }
// params.mask_st = { type = "u32" }
// params.alibi_heads = { type = "u32" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// params.scale = { type = "f32" }
// params.max_bias = { type = "f32" }
// params.softcap = { type = "f32" }
// uses = ["tile/mask", "tile/online_softmax"]
// grid = "matrices * row_groups * slices"
// ///

// A few query rows against all keys (decoding), for what attention_decode does not take: heads more
// than 256 deep, and k or v that cannot be read in vectors. One workgroup takes up to ROWS rows that
// share a KV head and a slice of the keys, so that k and v are read once. Three phases: scores (eight
// invocations a key), softmax of the slice, sum of the values (an invocation owns columns of v and
// every so many keys). attention_combine joins the slices: dst and lse are parts in scratch here.
//
// Bounds, for unchecked compilation: keys are clamped to their count, depths to theirs, rows to the
// last; scores beyond the slice are not read; stores are guarded or of clamped rows' own results.
//% set QD = 576
//% set ROWS = 4
//% set KEYS = 128
//% set E = 8 if WIDE and T == "f16" else 4
// Few loads a round: registers decide how many workgroups run beside each other.
//% set CH = 3 if E == 4 else 1
//% set HALVES = E // 4
//% set VU = 4
var<workgroup> q_tile: array<array<vec4<f32>, ${QD // 4}>, ${ROWS}>;
var<workgroup> scores: array<f32, ${KEYS * ROWS}>;
var<workgroup> red: array<vec4<f32>, 256>;

${online_softmax.functions(1)}
${mask.functions(1)}

fn half_of(word: u32, i: u32) -> f32 {
  let pair = unpack2x16float(word);
  return select(pair.x, pair.y, (i & 1u) == 1u);
}

fn q_value(i: u32) -> f32 {
  if (p.q_kind == 4u) { return bitcast<f32>(q_mem[i]); }
  return half_of(q_mem[i >> 1u], i);
}

// x: E elements of a row of k or v (from `base`), the vector `c` of its columns.
//% macro load(x, name, base, c, size)
//% if WIDE
    let ${x} = ${name}_mem[${base} + min(${c}, ${size} / ${E}u - 1u)];
//% else
    let ${x}_at = ${base} + min(vec4<u32>(${c} * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(${size} - 1u)) * p.${name}_sd;
//% if T == "f16"
    let ${x} = bitcast<vec4<u32>>(vec4<f32>(half_of(${name}_mem[${x}_at.x >> 1u], ${x}_at.x), half_of(${name}_mem[${x}_at.y >> 1u], ${x}_at.y),
      half_of(${name}_mem[${x}_at.z >> 1u], ${x}_at.z), half_of(${name}_mem[${x}_at.w >> 1u], ${x}_at.w)));
//% else
    let ${x} = vec4<u32>(${name}_mem[${x}_at.x], ${name}_mem[${x}_at.y], ${name}_mem[${x}_at.z], ${name}_mem[${x}_at.w]);
//% endif
//% endif
//% endmacro

// v0 .. : the values of every so many keys from key n of the slice on.
//% macro load_values(n)
  {
//% for u in range(VU)
    ${load("x" ~ u, "v", "(v_start + min(key0 + " ~ n ~ " + " ~ u ~ "u * apart, p.keys - 1u) * p.v_st)", "column", "p.value_depth")}
//% endfor
//% for u in range(VU)
    v${u} = x${u};
//% endfor
  }
//% endmacro

//% macro part(x, h)
${"vec4<f32>(unpack2x16float(" ~ x ~ "[" ~ (2 * h) ~ "]), unpack2x16float(" ~ x ~ "[" ~ (2 * h + 1) ~ "]))" if E == 8 else "bitcast<vec4<f32>>(" ~ x ~ ")"}
//% endmacro

// Over all invocations, for each row: value0, value1 and so on; all get the result.
//% macro over_all(value, op)
  red[li] = vec4<f32>(${value}0, ${value}1, ${value}2, ${value}3);
  workgroupBarrier();
  if (li < 16u) {
    var t = red[li];
    for (var n = 16u; n < 256u; n += 16u) { t = ${op % ("t", "red[li + n]")}; }
    red[li] = t;
  }
  workgroupBarrier();
  {
    var t = red[0];
    for (var n = 1u; n < 16u; n += 1u) { t = ${op % ("t", "red[n]")}; }
//% for r in range(ROWS)
    ${value}${r} = t[${r}];
//% endfor
  }
  workgroupBarrier();  // red has been read
//% endmacro

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let matrix = g / (p.row_groups * p.slices);
  let rest = g - matrix * p.row_groups * p.slices;
  let slice = rest / p.row_groups;
  let row0 = (rest - slice * p.row_groups) * ${ROWS}u;
  let batch = matrix / p.kv_heads;
  let kv_head = matrix - batch * p.kv_heads;
  let key0 = p.first_key + slice * p.slice_keys;
  let count = min(p.slice_keys, p.last_key - key0);
  let rows = p.group * p.queries;

  // q as f32, zero beyond its depth.
  for (var i = li; i < ${ROWS * QD // 4}u; i += 256u) {
    let r = i / ${QD // 4}u;
    let c = (i - r * ${QD // 4}u) * 4u;
    let row = min(row0 + r, rows - 1u);
    let member = row / p.queries;
    let start = p.q_off + batch * p.q_sb + (kv_head * p.group + member) * p.q_sh + (row - member * p.queries) * p.q_st;
    let at = vec4<u32>(c) + vec4<u32>(0u, 1u, 2u, 3u);
    let near = vec4<u32>(start) + min(at, vec4<u32>(p.depth - 1u)) * p.q_sd;
    let x = vec4<f32>(q_value(near.x), q_value(near.y), q_value(near.z), q_value(near.w));
    q_tile[r][i - r * ${QD // 4}u] = select(vec4<f32>(), x, at < vec4<u32>(p.depth));
  }
  workgroupBarrier();

  // The sum that an invocation finishes in each pass: row and key, and what the row's logits need.
  let which = li >> 5u;
  let own_key = li & 31u;
  let own_row = which & ${ROWS - 1}u;
  let mine = min(row0 + own_row, rows - 1u);
  let member = mine / p.queries;
  let query = mine - member * p.queries;
  let head = kv_head * p.group + member;
  let mask_at = p.mask_off + batch * p.mask_sb + head * p.mask_sh + query * p.mask_ss;
  let slope = alibi_slope(head);

  // Scores: 32 keys at a time, ${E} neighbouring depths a load.
  let lane = li & 7u;
  let k_start = p.k_off${" / " ~ E ~ "u" if WIDE else ""} + batch * p.k_sb + kv_head * p.k_sh;
  for (var pass0 = 0u; pass0 < count; pass0 += 32u) {
    let k_at = k_start + min(key0 + pass0 + (li >> 3u), p.keys - 1u) * p.k_st;
//% for r in range(ROWS)
    var s${r} = 0.0f;
//% endfor
    for (var c0 = 0u; c0 * ${8 * E}u < p.depth; c0 += ${CH}u) {
//% for c in range(CH)
      ${load("x" ~ c, "k", "k_at", "((c0 + " ~ c ~ "u) * 8u + lane)", "p.depth")}
//% endfor
//% for c in range(CH)
      {
        let at = ((c0 + ${c}u) * 8u + lane) * ${HALVES}u;  // q is zero beyond its depth
//% for h in range(HALVES)
        let y${h} = ${part("x" ~ c, h)};
//% for r in range(ROWS)
        s${r} += dot(y${h}, q_tile[${r}][at + ${h}u]);
//% endfor
//% endfor
      }
//% endfor
    }
    // Over the eight invocations of a key.
    red[li] = vec4<f32>(s0, s1, s2, s3);
    workgroupBarrier();
    if (which < ${ROWS}u) {
      var sum = 0.0f;
      for (var n = 0u; n < 8u; n += 1u) { sum += red[own_key * 8u + n][own_row]; }
      let n = pass0 + own_key;
      if (n < ${KEYS}u) { scores[n * ${ROWS}u + own_row] = logits(sum, query, key0 + n, mask_at, slope); }
    }
    workgroupBarrier();  // red has been read
  }

  // The first values are on their way during the softmax.
  let column = li & ((1u << p.column_bits) - 1u);
  let apart = 256u >> p.column_bits;
  let v_start = p.v_off${" / " ~ E ~ "u" if WIDE else ""} + batch * p.v_sb + kv_head * p.v_sh;
  let v_first = li >> p.column_bits;
//% for u in range(VU)
  var v${u}: vec4<u32>;
//% endfor
  ${load_values("v_first")}

  // Softmax of the slice.
//% for r in range(ROWS)
  var m${r} = LOWEST;
  var l${r} = 0.0f;
//% endfor
  for (var n = li; n < count; n += 256u) {
//% for r in range(ROWS)
    m${r} = max(m${r}, scores[n * ${ROWS}u + ${r}u]);
//% endfor
  }
  ${over_all("m", "max(%s, %s)")}
  for (var n = li; n < count; n += 256u) {
//% for r in range(ROWS)
    let w${r} = exp2_shifted(scores[n * ${ROWS}u + ${r}u] - m${r});
    scores[n * ${ROWS}u + ${r}u] = w${r};
    l${r} += w${r};
//% endfor
  }
  ${over_all("l", "%s + %s")}

  // Values. One that no row gives a weight counts as 0, whatever it is.
//% for n in range(ROWS * HALVES)
  var o${n} = vec4<f32>();
//% endfor
  for (var n0 = v_first; n0 < count; n0 += ${VU}u * apart) {
//% for u in range(VU)
    let now${u} = v${u};
//% endfor
    ${load_values("(n0 + " ~ VU ~ "u * apart)")}
//% for u in range(VU)
    {
      let n = n0 + ${u}u * apart;
      let at = min(n, ${KEYS - 1}u) * ${ROWS}u;
//% for r in range(ROWS)
      let w${r} = select(0.0f, scores[at + ${r}u], n < count);
//% endfor
      let weighs = (w0 != 0.0f) | (w1 != 0.0f) | (w2 != 0.0f) | (w3 != 0.0f);
//% for h in range(HALVES)
      let y${h} = select(vec4<f32>(), ${part("now" ~ u, h)}, weighs);
//% for r in range(ROWS)
      o${r * HALVES + h} = fma(vec4<f32>(w${r}), y${h}, o${r * HALVES + h});
//% endfor
//% endfor
    }
//% endfor
  }

  // Over the invocations that own the same columns.
  let columns = (p.value_depth + 3u) / 4u;
  let part_row = (slice * p.matrices + matrix) * rows + row0;
//% for n in range(ROWS * HALVES)
  red[li] = o${n} * ${"select(1.0f / l" ~ (n // HALVES) ~ ", 0.0f, l" ~ (n // HALVES) ~ " == 0.0f)"};
  workgroupBarrier();
  if (li < (1u << p.column_bits)) {
    var sum = red[column];
    for (var n = 1u; n < apart; n += 1u) { sum += red[(n << p.column_bits) + column]; }
    let c = column * ${HALVES}u + ${n % HALVES}u;
    if ((c < columns) & (row0 + ${n // HALVES}u < rows)) {
      dst_mem[p.dst_off / 4u + (part_row + ${n // HALVES}u) * columns + c] = bitcast<vec4<u32>>(sum);
    }
  }
  workgroupBarrier();  // red has been read
//% endfor
//% for r in range(ROWS)
  if ((li == ${r}u) & (row0 + ${r}u < rows)) {
    let l = select((m${r} + log2(l${r})) * LN2, bitcast<f32>(p.minus_inf), l${r} == 0.0f);
    lse_store(p.lse_off + part_row + ${r}u, select(l, bitcast<f32>(p.nan), is_lost(l${r}) | is_lost(m${r})));
  }
//% endfor
}
