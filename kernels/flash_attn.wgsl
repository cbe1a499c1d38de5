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
// axes.ROWS = [1, 4, 8]
// axes.QD = [128, 256, 576]
// axes.SG = [true, false]
// pick.T = "dtype(k)"
// pick.SG = "caps.subgroups and WIDE"
// when = [
//   "(ROWS, QD) in ((1, 128), (4, 128), (8, 128), (4, 256), (4, 576))",
//   "WIDE or (ROWS, QD, SG) == (4, 576, False)",
// ]
// subgroups = "SG"
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
// uses = ["attention"]
// grid = "matrices * row_groups * slices"
// ///

// A few query rows against all keys (decoding): one workgroup takes up to ROWS rows that share a KV
// head and a slice of the keys, so that k and v are read once. Three phases: scores (eight
// invocations a key), softmax of the slice, sum of the values (an invocation owns columns of v and
// every so many keys). flash_attn_merge joins the slices: dst and lse are parts in scratch here.
//
// Bounds, for unchecked compilation: keys are clamped to their count, depths to theirs, rows to the
// last; scores beyond the slice are not read; stores are guarded or of clamped rows' own results.
//% set KU = 1 if QD == 576 else {1: 4, 4: 2, 8: 1}[ROWS]
//% set KEYS = {1: 1024, 4: 512, 8: 128}[ROWS] if QD == 128 else (512 if QD == 576 else 1024) // ROWS
//% set E = 8 if WIDE and T == "f16" else 4
// Few loads a round: registers decide how many workgroups run beside each other.
//% set CH = (2 if QD < 576 else 3) if E == 4 else 1
//% set HALVES = E // 4
//% set VALUES = KU * ROWS
//% set RV = (ROWS + 3) // 4
//% set BITS = {1: 0, 4: 2, 8: 3}[ROWS]
//% set VU = 4
var<workgroup> q_tile: array<array<vec4<f32>, ${QD // 4}>, ${ROWS}>;
var<workgroup> scores: array<f32, ${KEYS * ROWS}>;
var<workgroup> red: array<vec4<f32>, ${256 * RV}>;

${attention.rules(1)}

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
//% for h in range(RV)
  red[${256 * h}u + li] = ${"vec4<f32>(" ~ value ~ "0)" if ROWS == 1 else "vec4<f32>(" ~ value ~ (4 * h) ~ ", " ~ value ~ (4 * h + 1) ~ ", " ~ value ~ (4 * h + 2) ~ ", " ~ value ~ (4 * h + 3) ~ ")"};
//% endfor
  workgroupBarrier();
  if (li < 16u) {
//% for h in range(RV)
    var t${h} = red[${256 * h}u + li];
    for (var n = 16u; n < 256u; n += 16u) { t${h} = ${"max(t" ~ h ~ ", red[" ~ (256 * h) ~ "u + li + n])" if op == "max" else "t" ~ h ~ " + red[" ~ (256 * h) ~ "u + li + n]"}; }
    red[${256 * h}u + li] = t${h};
//% endfor
  }
  workgroupBarrier();
//% for h in range(RV)
  {
    var t = red[${256 * h}u];
    for (var n = 1u; n < 16u; n += 1u) { t = ${"max(t, red[" ~ (256 * h) ~ "u + n])" if op == "max" else "t + red[" ~ (256 * h) ~ "u + n]"}; }
//% for r in range(4 * h, [4 * h + 4, ROWS] | min)
    ${value}${r} = t[${r - 4 * h}];
//% endfor
  }
//% endfor
  workgroupBarrier();  // red has been read
//% endmacro

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>,
//% if SG
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_size) subgroup_width: u32,
        @builtin(subgroup_invocation_id) subgroup_lane: u32,
//% else
        @builtin(local_invocation_index) li: u32,
//% endif
) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
//% if SG
  let li = min(subgroup * subgroup_width + subgroup_lane, 255u);
//% endif
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
//% if SG
  let by_lane = subgroup_width >= 8u;
  let which = select(li >> 5u, (li & 7u)${"" if VALUES == 8 else " >> 1u"}, by_lane);
  let own_key = select(li & 31u, li >> 3u, by_lane) + (which >> ${BITS}u) * 32u;
//% else
  let which = li >> 5u;
  let own_key = (li & 31u) + (which >> ${BITS}u) * 32u;
//% endif
  let own_row = which & ${ROWS - 1}u;
  let mine = min(row0 + own_row, rows - 1u);
  let member = mine / p.queries;
  let query = mine - member * p.queries;
  let head = kv_head * p.group + member;
  let mask_at = p.mask_off + batch * p.mask_sb + head * p.mask_sh + query * p.mask_ss;
  let slope = slope_of(head);

  // Scores: ${32 * KU} keys at a time, ${E} neighbouring depths a load.
  let lane = li & 7u;
  let k_start = p.k_off${" / " ~ E ~ "u" if WIDE else ""} + batch * p.k_sb + kv_head * p.k_sh;
  for (var pass0 = 0u; pass0 < count; pass0 += ${32 * KU}u) {
//% for u in range(KU)
    let k_at${u} = k_start + min(key0 + pass0 + ${32 * u}u + (li >> 3u), p.keys - 1u) * p.k_st;
//% for r in range(ROWS)
    var s${u}_${r} = 0.0f;
//% endfor
//% endfor
    for (var c0 = 0u; c0 * ${8 * E}u < p.depth; c0 += ${CH}u) {
//% for c in range(CH)
//% for u in range(KU)
      ${load("x" ~ u ~ "_" ~ c, "k", "k_at" ~ u, "((c0 + " ~ c ~ "u) * 8u + lane)", "p.depth")}
//% endfor
//% endfor
//% for c in range(CH)
      {
        let at = ((c0 + ${c}u) * 8u + lane) * ${HALVES}u;  // q is zero beyond its depth
//% for h in range(HALVES)
//% for r in range(ROWS)
        let q${r}_${h} = q_tile[${r}][at + ${h}u];
//% endfor
//% for u in range(KU)
        let y${u}_${h} = ${part("x" ~ u ~ "_" ~ c, h)};
//% for r in range(ROWS)
        s${u}_${r} += dot(y${u}_${h}, q${r}_${h});
//% endfor
//% endfor
//% endfor
      }
//% endfor
    }
    // Over the eight invocations of a key.
    var sum = 0.0f;
//% if SG
    if (by_lane) {
      // Each step halves what a lane holds: it keeps the values that its bit chooses.
//% for n in range(VALUES)
      let z0_${n} = s${n // ROWS}_${n % ROWS};
//% endfor
//% set ns = namespace(n=VALUES)
//% for bit in (4, 2, 1)
//% set old, new = "z" ~ loop.index0 ~ "_", "z" ~ loop.index ~ "_"
      let up${bit} = (lane & ${bit}u) != 0u;
//% if ns.n > 1
//% set ns.n = ns.n // 2
//% for n in range(ns.n)
      let ${new}${n} = select(${old}${n}, ${old}${n + ns.n}, up${bit})
        + subgroupShuffleXor(select(${old}${n + ns.n}, ${old}${n}, up${bit}), ${bit}u);
//% endfor
//% else
      let ${new}0 = ${old}0 + subgroupShuffleXor(${old}0, ${bit}u);
//% endif
//% endfor
      sum = z3_0;
    } else {
//% else
    {
//% endif
//% for h in range(VALUES // 4)
      red[li] = vec4<f32>(
//% for n in range(4 * h, 4 * h + 4)
        s${n // ROWS}_${n % ROWS},
//% endfor
      );
      workgroupBarrier();
      if ((which >> 2u) == ${h}u) {
        for (var n = 0u; n < 8u; n += 1u) { sum += red[(li & 31u) * 8u + n][which & 3u]; }
      }
      workgroupBarrier();  // red has been read
//% endfor
    }
    let n = pass0 + own_key;
    if (n < ${KEYS}u) { scores[n * ${ROWS}u + own_row] = logits(sum, query, key0 + n, mask_at, slope); }
  }
  workgroupBarrier();

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
  ${over_all("m", "max")}
  for (var n = li; n < count; n += 256u) {
//% for r in range(ROWS)
    let w${r} = weight(scores[n * ${ROWS}u + ${r}u] - m${r});
    scores[n * ${ROWS}u + ${r}u] = w${r};
    l${r} += w${r};
//% endfor
  }
  ${over_all("l", "+")}

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
      let weighs = ${"w0 != 0.0f" if ROWS == 1 else ""}
//% for r in range(ROWS if ROWS > 1 else 0)
        ${"| " if r else ""}(w${r} != 0.0f)
//% endfor
      ;
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
//% set PER = RV
//% for n0 in range(0, ROWS * HALVES, PER)
//% for n in range(n0, n0 + PER)
  red[${256 * (n - n0)}u + li] = o${n} * ${"select(1.0f / l" ~ (n // HALVES) ~ ", 0.0f, l" ~ (n // HALVES) ~ " == 0.0f)"};
//% endfor
  workgroupBarrier();
  if (li < (${PER}u << p.column_bits)) {
    let which = li >> p.column_bits;
    var sum = red[which * 256u + column];
    for (var n = 1u; n < apart; n += 1u) { sum += red[which * 256u + (n << p.column_bits) + column]; }
    let r = (${n0}u + which) / ${HALVES}u;
    let c = column * ${HALVES}u + (${n0}u + which) % ${HALVES}u;
    if ((c < columns) & (row0 + r < rows)) { dst_mem[p.dst_off / 4u + (part_row + r) * columns + c] = bitcast<vec4<u32>>(sum); }
  }
//% if n0 + PER < ROWS * HALVES
  workgroupBarrier();  // red has been read
//% endif
//% endfor
//% for r in range(ROWS)
  if ((li == ${r}u) & (row0 + ${r}u < rows)) {
    let l = select((m${r} + log2(l${r})) * LN2, bitcast<f32>(p.minus_inf), l${r} == 0.0f);
    lse_store(p.lse_off + part_row + ${r}u, select(l, bitcast<f32>(p.nan), is_lost(l${r}) | is_lost(m${r})));
  }
//% endfor
}
