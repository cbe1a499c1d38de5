// /// kernel
// doc = "flash_attn of a few rows, heads up to 256 deep: teams of lanes read keys in one pass."
// part_of = "flash_attn"
// axes.T = ["f32", "f16"]
// axes.TEAM = [8, 16, 32]
// axes.SG = [true, false]
// axes.NT = [128, 256]
// pick.T = "dtype(k)"
// pick.SG = "caps.subgroups"
// when = ["SG or TEAM == 16", "NT == 128 or (SG and TEAM == 16)"]
// workgroup_bytes = "16384 if NT == 128 else 25600"
// subgroups = "SG"
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", doc = "(B, H, S, D)" }
// inputs.k = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, Hkv, T, D)" }
// inputs.v = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, Hkv, T, Dv)" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true }
// outputs.sums = { dtype = "f32", doc = "(slices, B, H, S): lse of each part" }
// outputs.parts = { dtype = "*", dtypes = ["float32"], bind = "'vec4<u32>'", doc = "(slices, B, H, S, padded Dv)" }
// params.kv_heads = { type = "u32" }
// params.group = { type = "u32" }
// params.queries = { type = "u32" }
// params.keys = { type = "u32" }
// params.depth = { type = "u32" }
// params.value_depth = { type = "u32" }
// params.matrices = { type = "u32" }
// params.row_groups = { type = "u32" }
// params.slices = { type = "u32" }
// params.first_key = { type = "u32" }
// params.last_key = { type = "u32" }
// params.band_low = { type = "i32" }
// params.band_high = { type = "i32" }
// params.q_kind = { type = "u32", value = "q.dtype.itemsize" }
// params.q_sb = { type = "u32", value = "q.strides[0] // q.dtype.itemsize & 0xffffffff" }
// params.q_sh = { type = "u32", value = "q.strides[1] // q.dtype.itemsize & 0xffffffff" }
// params.q_st = { type = "u32", value = "q.strides[2] // q.dtype.itemsize & 0xffffffff" }
// params.q_sd = { type = "u32", value = "q.strides[3] // q.dtype.itemsize & 0xffffffff" }
// params.k_sb = { type = "u32", value = "k.strides[0] // 16 & 0xffffffff" }
// params.k_sh = { type = "u32", value = "k.strides[1] // 16 & 0xffffffff" }
// params.k_st = { type = "u32", value = "k.strides[2] // 16 & 0xffffffff" }
// params.v_sb = { type = "u32", value = "v.strides[0] // 16 & 0xffffffff" }
// params.v_sh = { type = "u32", value = "v.strides[1] // 16 & 0xffffffff" }
// params.v_st = { type = "u32", value = "v.strides[2] // 16 & 0xffffffff" }
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
// uses = ["tile/lane_group", "tile/mask", "tile/online_softmax"]
// grid = "matrices * row_groups * slices"
// ///

// A few query rows against all keys (decoding): one workgroup takes up to ROWS rows that share a KV
// head and a slice of the keys, so that k and v are read once. TEAM lanes read a key together, 8
// depths each. A team takes KEYS keys at a time and has a running maximum of its own: the products
// of its keys and rows are added across its lanes so that each lane ends with one logit, which
// becomes a weight there and goes back to all of them. No barrier until the teams are joined, but
// where subgroups have fewer lanes than a team: there workgroup memory carries what lanes exchange.
//
// Bounds, for unchecked compilation: keys are clamped to their count, depths to theirs, rows to the
// last; stores are guarded.
//% set ROWS = 4
//% set TEAMS = NT // TEAM
//% set E = 8 if T == "f16" else 4
//% set E_BITS = 3 if E == 8 else 2
//% set LOADS = 8 // E
// Four loads of k and four of v on their way: more take registers, and with them workgroups.
//% set KEYS = [TEAM // ROWS, 4 // LOADS] | min
//% set U = [4 // LOADS // KEYS, 2] | min
//% set STEP = U * KEYS * TEAMS
// Vectors of each lane in `red`. Four of these workgroups have to fit 48 KiB, or two of 256 lanes.
//% set PER = 2 if TEAM == 32 else 4
//% set VALUES = KEYS * ROWS
//% set SHARE = TEAM // VALUES
var<workgroup> q_tile: array<array<vec4<f32>, ${2 * TEAM}>, ${ROWS}>;
var<workgroup> red: array<vec4<f32>, ${PER * NT}>;
// Of each team (or subgroup of 32, which holds several) and row: its maximum and its sum of weights.
var<workgroup> tops: array<array<f32, ${ROWS}>, ${TEAMS}>;
var<workgroup> shares: array<array<f32, ${ROWS}>, ${TEAMS}>;

${online_softmax.functions(1)}
${mask.functions(1, false)}

// a / b, at once where it is trivial: a division takes as long as a load.
fn quotient(a: u32, b: u32) -> u32 {
  if (b == 1u) { return a; }
  if (a < b) { return 0u; }
  return a / b;
}

fn half_of(word: u32, i: u32) -> f32 {
  let pair = unpack2x16float(word);
  return select(pair.x, pair.y, (i & 1u) == 1u);
}

// Four elements of q, loaded at once: one after the other would take microseconds.
fn q_values(at: vec4<u32>) -> vec4<f32> {
  let whole = p.q_kind == 4u;
  let i = select(at >> vec4<u32>(1u), at, whole);
  let x = vec4<u32>(q_mem[i.x], q_mem[i.y], q_mem[i.z], q_mem[i.w]);
  let halves = vec4<f32>(half_of(x.x, at.x), half_of(x.y, at.y), half_of(x.z, at.z), half_of(x.w, at.w));
  return select(halves, bitcast<vec4<f32>>(x), whole);
}

fn dot8(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>) -> f32 {
  let near = fma(a.w, c.w, fma(a.z, c.z, fma(a.y, c.y, a.x * c.x)));
  return fma(b.w, d.w, fma(b.z, d.z, fma(b.y, d.y, fma(b.x, d.x, near))));
}

// Elements 4 h .. of the eight that key n holds in this lane.
//% macro part(x, n, h)
//% if E == 8
vec4<f32>(unpack2x16float(${x}${n}_0[${2 * h}]), unpack2x16float(${x}${n}_0[${2 * h + 1}]))
//%- else
bitcast<vec4<f32>>(${x}${n}_${h})
//%- endif
//% endmacro

// x0_0 .. : what the team's keys from `past` of the slice on hold in k or v.
//% macro load(x, past, declare)
//% for u in range(U)
//% for j in range(KEYS)
//% for c in range(LOADS)
      ${declare}${x}${u * KEYS + j}_${c} = ${x}_mem[${x}_start${c} + min(first + ${past} + ${u * KEYS * TEAMS + j}u, p.keys - 1u) * p.${x}_st];
//% endfor
//% endfor
//% endfor
//% endmacro

//% macro loop(by_lanes)
    for (var past = 0u; past < count; past += stride) {
//% if T == "f32"
//% for n in range(U * KEYS)
//% for c in range(LOADS)
      var v${n}_${c} = vec4<u32>();
//% endfor
//% endfor
      if (p.value_depth != 0u) {  // always; or the driver waits for k before it loads v
        ${load("v", "past", "")}
      }
//% else
      ${load("v", "past", "var ")}
//% endif
//% for u in range(U)
//% for j in range(KEYS)
//% for h in range(2)
      let y${u}_${j}_${h} = ${part("k", u * KEYS + j, h)};
//% endfor
//% for r in range(ROWS)
      let s${u}_${j * ROWS + r} = dot8(y${u}_${j}_0, y${u}_${j}_1, q_tile[${r}][q_at0], q_tile[${r}][q_at1]);
//% endfor
//% endfor
//% if u == U - 1
      if (past + stride < count) {  // behind `if`, or the driver moves it to the end of the loop
        ${load("k", "past + stride", "")}
      }
//% endif
      ${lane_group.across("s" ~ u ~ "_", by_lanes, NT, TEAM, VALUES, PER)}
      let n${u} = past + own_key + ${u * KEYS * TEAMS}u;
      let x${u} = select(none, logits(s${u}_, key0 + n${u}, mask_at, slope), n${u} - seen0 < seen);
//% endfor
//% if by_lanes
      // The maximum of each row follows only where a logit is far above it: weights up to 2^8 are
      // as good. Teams that shuffles will join have one.
      var top = x0;
//% for u in range(1, U)
      top = max(top, x${u});
//% endfor
      ${lane_group.over_keys("top", "max(%s, %s)", TEAM, SHARE * ROWS)}
//% if TEAM < 32
      top = max(top, subgroupShuffleXor(top, apart16));
//% if TEAM < 16
      top = max(top, subgroupShuffleXor(top, apart8));
//% endif
//% endif
      let higher = select(m, top, top > m + 8.0f);
      let shrink = exp2_shifted(m - higher);
      m = higher;
      l *= shrink;
//% for r in range(ROWS)
      let f${r} = subgroupShuffle(shrink, lane0 + ${r * SHARE}u);
//% endfor
      if (subgroupAny(shrink != 1.0f)) {
//% for r in range(ROWS)
        o${r}_0 *= f${r};
        o${r}_1 *= f${r};
//% endfor
      }
//% else
      // The running maximum of each row; what it grows by shrinks the sums.
      var top = x0;
//% for u in range(1, U)
      top = max(top, x${u});
//% endfor
      red[li] = vec4<f32>(top);
      workgroupBarrier();
      top = max(top, m);
      for (var i = own & ${ROWS - 1}u; i < ${VALUES}u; i += ${ROWS}u) { top = max(top, red[team * ${TEAM}u + i * ${SHARE}u].x); }
      let shrink = exp2_shifted(m - top);
      m = top;
      l *= shrink;
      workgroupBarrier();  // red has been read
//% endif
//% for u in range(U)
      let w${u} = exp2_shifted(x${u} - m);
      l += w${u};
//% endfor
//% if by_lanes
      // Values of keys that no row sees count as 0, whatever they are.
//% for u in range(U)
      let sees${u} = subgroupBallot(x${u} != none)[subgroup_lane >> 5u] >> (lane0 & 31u);
//% endfor
      if (subgroupAny(${"(x0 == none) | (x1 == none)" if U == 2 else "x0 == none"})) {
//% for u in range(U)
//% for j in range(KEYS)
        let seen${u}_${j} = (sees${u} & ${(2 ** (SHARE * ROWS) - 1) * 2 ** (j * SHARE * ROWS)}u) != 0u;
//% for c in range(LOADS)
        v${u * KEYS + j}_${c} = select(vec4<u32>(), v${u * KEYS + j}_${c}, seen${u}_${j});
//% endfor
//% endfor
//% endfor
      }
//% else
      // -1: a weight of 0 whose value counts as 0, whatever it is.
      red[li] = vec4<f32>(shrink
//% for u in range(2)
        , ${"select(w" ~ u ~ ", -1.0f, x" ~ u ~ " == none)" if u < U else "0.0f"}
//% endfor
        , 0.0f);
      workgroupBarrier();
//% for r in range(ROWS)
      let f${r} = red[lane0 + ${r * SHARE}u].x;
//% for h in range(2)
      o${r}_${h} *= f${r};
//% endfor
//% endfor
//% endif
//% for u in range(U)
//% for j in range(KEYS)
//% set n = u * KEYS + j
      {
//% for r in range(ROWS)
//% if by_lanes
        let c${r} = vec4<f32>(subgroupShuffle(w${u}, lane0 + ${(j * ROWS + r) * SHARE}u));
//% else
        let t${r} = red[lane0 + ${(j * ROWS + r) * SHARE}u][${u + 1}];
        let c${r} = vec4<f32>(select(t${r}, 0.0f, t${r} == -1.0f));
//% endif
//% endfor
//% if not by_lanes
        let seen = !(
//% for r in range(ROWS)
          ${"& " if r else ""}(t${r} == -1.0f)
//% endfor
        );
//% for c in range(LOADS)
        v${n}_${c} = select(vec4<u32>(), v${n}_${c}, seen);
//% endfor
//% endif
//% for h in range(2)
        let z${h} = ${part("v", n, h)};
//% endfor
//% for r in range(ROWS)
//% for h in range(2)
        o${r}_${h} = fma(c${r}, z${h}, o${r}_${h});
//% endfor
//% endfor
      }
//% endfor
//% endfor
//% if not by_lanes
      workgroupBarrier();  // red has been read
//% endif
    }
//% endmacro

@compute @workgroup_size(${NT})
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
  let li = min(subgroup * subgroup_width + subgroup_lane, ${NT - 1}u);
//% endif
  let matrix = quotient(g, p.row_groups * p.slices);
  let rest = g - matrix * p.row_groups * p.slices;
  let slice = quotient(rest, p.row_groups);
  let row0 = (rest - slice * p.row_groups) * ${ROWS}u;
  let batch = quotient(matrix, p.kv_heads);
  let kv_head = matrix - batch * p.kv_heads;
  let key0 = p.first_key + slice * ${STEP}u;
  let stride = p.slices * ${STEP}u;
  let count = p.last_key - key0;
  let rows = p.group * p.queries;

  let team = li / ${TEAM}u;
  let lane = li & ${TEAM - 1}u;
  // The two vectors of four depths, or columns of v, that this lane holds.
//% if E == 8
  let q_at0 = lane * 2u;
  let q_at1 = lane * 2u + 1u;
//% else
  let q_at0 = lane;
  let q_at1 = lane + ${TEAM}u;
//% endif
//% for c in range(LOADS)
  let k_start${c} = (p.k_off >> ${E_BITS}u) + batch * p.k_sb + kv_head * p.k_sh + min(${"lane" if E == 8 else "q_at" ~ c}, (p.depth >> ${E_BITS}u) - 1u);
  let v_start${c} = (p.v_off >> ${E_BITS}u) + batch * p.v_sb + kv_head * p.v_sh + min(${"lane" if E == 8 else "q_at" ~ c}, (p.value_depth >> ${E_BITS}u) - 1u);
//% endfor
  let first = key0 + team * ${KEYS}u;

  // q as f32, zero beyond its depth; the first keys are on their way meanwhile.
//% for n in range([ROWS * TEAM * 2 // NT, 1] | max)
  let q_r${n} = (li + ${n * NT}u) / ${TEAM * 2}u;
  let q_c${n} = (li & ${TEAM * 2 - 1}u) * 4u;
  let q_row${n} = min(row0 + q_r${n}, rows - 1u);
  let q_member${n} = quotient(q_row${n}, p.queries);
  let q_start${n} = p.q_off + batch * p.q_sb + (kv_head * p.group + q_member${n}) * p.q_sh + (q_row${n} - q_member${n} * p.queries) * p.q_st;
  let q_pos${n} = vec4<u32>(q_c${n}) + vec4<u32>(0u, 1u, 2u, 3u);
  let qx${n} = q_values(vec4<u32>(q_start${n}) + min(q_pos${n}, vec4<u32>(p.depth - 1u)) * p.q_sd);
//% endfor
  ${load("k", "0u", "var ")}
//% for n in range([ROWS * TEAM * 2 // NT, 1] | max)
  if (q_r${n} < ${ROWS}u) { q_tile[q_r${n}][li & ${TEAM * 2 - 1}u] = select(vec4<f32>(), qx${n}, q_pos${n} < vec4<u32>(p.depth)); }
//% endfor
  workgroupBarrier();

//% for bit in (1, 2, 4, 8, 16)
//% if SG and bit < TEAM
  let up${bit} = (lane & ${bit}u) != 0u;
//% endif
//% endfor
  // The logit that this lane ends with: number `own` of its team, of one row and key.
  let own = lane / ${SHARE}u;
  let own_row = own & ${ROWS - 1}u;
  let own_key = own / ${ROWS}u + team * ${KEYS}u;
  let mine = min(row0 + own_row, rows - 1u);
  let member = quotient(mine, p.queries);
  let query = mine - member * p.queries;
  let head = kv_head * p.group + member;
  let mask_at = p.mask_off + batch * p.mask_sb + head * p.mask_sh + query * p.mask_ss;
  let slope = alibi_slope(head);
  let none = bitcast<f32>(p.minus_inf);
  // The keys from key0 on that this query may see: `seen` of them from `seen0` on.
  let from_here = i32(query) - i32(key0);
  let seen0 = u32(max(from_here + p.band_low, 0));
  let seen = u32(max(min(from_here + p.band_high + 1, i32(count)) - i32(seen0), 0));

  var m = LOWEST;  // of the keys of this lane's row that the team has seen
  var l = 0.0f;  // weights that this lane has given
//% for r in range(ROWS)
//% for h in range(2)
  var o${r}_${h} = vec4<f32>();
//% endfor
//% endfor
//% if SG
  if (subgroup_width >= ${TEAM}u) {
    let lane0 = subgroup_lane & ~${TEAM - 1}u;
//% for bit in (8, 16)
//% if TEAM <= bit
    let apart${bit} = select(0u, ${bit}u, subgroup_width >= 32u);  // 0: the lane itself
//% endif
//% endfor
    ${loop(true)}
    ${lane_group.over_keys("l", "%s + %s", TEAM, SHARE * ROWS)}
  } else {
//% else
  {
//% endif
    let lane0 = team * ${TEAM}u;
    ${loop(false)}
    red[li] = vec4<f32>(l);
    workgroupBarrier();
    if (lane == own_row * ${SHARE}u) {
      for (var i = lane + ${SHARE * ROWS}u; i < ${TEAM}u; i += ${SHARE * ROWS}u) { l += red[lane0 + i].x; }
    }
    workgroupBarrier();  // red has been read
  }

  let part_row = (slice * p.matrices + matrix) * rows + row0;
  let columns = (p.value_depth + 3u) >> 2u;
//% if SG and TEAM < 32
  if (subgroup_width >= 32u) {
    ${lane_group.join(32, NT, TEAM, ROWS, SHARE, PER)}
  } else {
    ${lane_group.join(TEAM, NT, TEAM, ROWS, SHARE, PER)}
  }
//% else
  {
    ${lane_group.join(TEAM, NT, TEAM, ROWS, SHARE, PER)}
  }
//% endif
}
