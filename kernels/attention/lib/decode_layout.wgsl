// How a workgroup of attention_decode divides a split of the keys, and how it loads. A lane group
// of LANES lanes reads a key together; each lane reads DEPTHS depths, and ROWS query rows share the
// key. WG: invocations. Other libraries get this module as their argument L.
//% set LANES, ROWS, WG = CFG.LANES, CFG.ROWS, CFG.threads
//% set GROUPS = WG // LANES
// Keys and values in blocks (docs/design/quant.md): a lane reads 8 numbers of a block, from words
// that it shares with no other lane.
//% set BLOCKS = TYPE is defined
//% set MASKED = not BLOCKS
// The number of elements in a vector, and the number of vectors of a key that a lane loads.
//% set E = 8 if BLOCKS or T == "f16" else 4
//% set E_BITS = 3 if E == 8 else 2
//% set OWN_WORDS = quant.BITS // 4 if BLOCKS else 0
//% set LOADS = CFG.DEPTHS // E
// A group takes KEYS keys at a time, and U times this number in a round. So CFG.LOADS loads of k,
// and as many loads of v, are under way at once. More loads would take more registers, so fewer
// workgroups would run at once.
//% set KEYS = [LANES // ROWS, CFG.LOADS // LOADS] | min
//% set U = [CFG.LOADS // LOADS // KEYS, 2] | min
//% set STEP = U * KEYS * GROUPS
// Vectors of each lane in `exchange`. Four workgroups, or two of 256 lanes, have to fit into 48 KiB
// of workgroup memory.
//% set PER = 2 if LANES == 32 else 4
// The number of sums over the lanes of a group; after the reduction each sum belongs to SHARE of
// its lanes.
//% set VALUES = KEYS * ROWS
//% set SHARE = LANES // VALUES
// Rounds in which the workgroup loads its rows of q.
//% set Q_LOADS = [ROWS * LANES * 2 // WG, 1] | max

//% macro memory()
var<workgroup> q_tile: array<array<vec4<f32>, ${2 * LANES}>, ${ROWS}>;
var<workgroup> exchange: array<vec4<f32>, ${PER * WG}>;
// m and l of each row, for each group (or each subgroup of 32, which holds several groups).
var<workgroup> row_max: array<array<f32, ${ROWS}>, ${GROUPS}>;
var<workgroup> row_sum: array<array<f32, ${ROWS}>, ${GROUPS}>;
//% endmacro

//% macro functions()
// Loads four elements of q at once, because loads one after the other would take microseconds.
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
//% endmacro

// `q_at0`, `q_at1`: the two vectors of four depths, or columns of v, that this lane holds. Also the
// positions from which it loads k and v.
//% macro loader_init()
  let lane_group = li / ${LANES}u;
  let lane = li & ${LANES - 1}u;
//% if E == 8
  let q_at0 = lane * 2u;
  let q_at1 = lane * 2u + 1u;
//% else
  let q_at0 = lane;
  let q_at1 = lane + ${LANES}u;
//% endif
//% if BLOCKS
//% for x, depth in (("k", "p.depth"), ("v", "p.value_depth"))
  let ${x}_lane = min(lane, (${depth} >> 3u) - 1u);
  let ${x}_word = (${x}_lane & 3u) * ${OWN_WORDS}u;
  let ${x}_start0 = (p.${x}_low_off + batch * p.${x}_low_bs + kv_head * p.${x}_low_hs + (${x}_lane >> 2u) * p.${x}_low_gs + (${x}_word >> 2u) * p.${x}_low_ps + (${x}_word & 3u)) >> ${OWN_WORDS - 1}u;
  let ${x}_scale = 2u * (p.${x}_scales_off + batch * p.${x}_scales_bs + kv_head * p.${x}_scales_hs + (${x}_lane >> 2u) * p.${x}_scales_gs);
//% endfor
//% else
//% for c in range(LOADS)
  let k_start${c} = (p.k_off >> ${E_BITS}u) + batch * p.k_sb + kv_head * p.k_sh + min(${"lane" if E == 8 else "q_at" ~ c}, (p.depth >> ${E_BITS}u) - 1u);
  let v_start${c} = (p.v_off >> ${E_BITS}u) + batch * p.v_sb + kv_head * p.v_sh + min(${"lane" if E == 8 else "q_at" ~ c}, (p.value_depth >> ${E_BITS}u) - 1u);
//% endfor
//% endif
  let first = key0 + lane_group * ${KEYS}u;
//% endmacro

//% macro load_q()
//% for n in range(Q_LOADS)
  let q_r${n} = (li + ${n * WG}u) / ${LANES * 2}u;
  let q_c${n} = (li & ${LANES * 2 - 1}u) * 4u;
  let q_row${n} = min(row0 + q_r${n}, rows - 1u);
  let q_member${n} = quotient(q_row${n}, p.queries);
  let q_start${n} = p.q_off + batch * p.q_bs + (kv_head * p.group + q_member${n}) * p.q_hs + (q_row${n} - q_member${n} * p.queries) * p.q_ss;
  let q_pos${n} = vec4<u32>(q_c${n}) + vec4<u32>(0u, 1u, 2u, 3u);
  let qx${n} = q_values(vec4<u32>(q_start${n}) + min(q_pos${n}, vec4<u32>(p.depth - 1u)) * p.q_ds);
//% endfor
//% endmacro

// q as f32, zero beyond its depth.
//% macro store_q()
//% for n in range(Q_LOADS)
  if (q_r${n} < ${ROWS}u) { q_tile[q_r${n}][li & ${LANES * 2 - 1}u] = select(vec4<f32>(), qx${n}, q_pos${n} < vec4<u32>(p.depth)); }
//% endfor
//% endmacro

// x0_0 .. : the elements of k or v for the group's keys, from key `offset` of the split on.
//% macro load_keys(x, offset, declare="")
//% for u in range(U)
//% for j in range(KEYS)
//% if BLOCKS
//% set n = u * KEYS + j
//% set key = "min(first + " ~ offset ~ " + " ~ (u * KEYS * GROUPS + j) ~ "u, " ~ key_range.COUNT ~ " - 1u)"
      ${declare}${x}${n}_0 = ${x}_low_mem[${x}_start0 + ${key} * ${4 // OWN_WORDS}u];
      ${declare}${x}${n}_at = ${x}_scale + ${key};
      ${declare}${x}${n}_scale = ${x}_scales_mem[${x}${n}_at >> 1u];
//% else
//% for c in range(LOADS)
      ${declare}${x}${u * KEYS + j}_${c} = ${x}_mem[${x}_start${c} + min(first + ${offset} + ${u * KEYS * GROUPS + j}u, ${key_range.COUNT} - 1u) * p.${x}_st];
//% endfor
//% endif
//% endfor
//% endfor
//% endmacro

// The values of this round's keys.
//% macro load_values()
//% if E == 4
//% for n in range(U * KEYS)
//% for c in range(LOADS)
      var v${n}_${c} = vec4<u32>();
//% endfor
//% endfor
      // The condition is always true; without it, the driver waits for k before it loads v.
      if (p.value_depth != 0u) {
        ${load_keys("v", "offset")}
      }
//% else
      ${load_keys("v", "offset", "var ")}
//% endif
//% endmacro

// Elements 4 h to 4 h + 3 of the eight elements of key n that this lane holds.
//% macro part(x, n, h)
//% if BLOCKS
${block_part(x ~ n, h)|trim}
//%- elif E == 8
vec4<f32>(unpack2x16float(${x}${n}_0[${2 * h}]), unpack2x16float(${x}${n}_0[${2 * h + 1}]))
//%- else
bitcast<vec4<f32>>(${x}${n}_${h})
//%- endif
//% endmacro

// The same four elements if keys and values are in blocks, in the order of a block's couples.
//% macro block_part(x, h)
//% set word = x ~ "_0" ~ ("[%d]" % h if OWN_WORDS == 2 else "")
//% set at = 0 if OWN_WORDS == 2 else 8 * h
(unpack2x16float(${x}_scale >> ((${x}_at & 1u) << 4u)).x * (vec4<f32>((vec4<u32>(${word}) >> vec4<u32>(${at}u, ${at + 16}u, ${at + quant.BITS}u, ${at + 16 + quant.BITS}u)) & vec4<u32>(${2 ** quant.BITS - 1}u)) - ${quant.BIAS}.0f))
//% endmacro

// The value of key n counts as 0 unless the row sees the key; for blocks, the scale is set to 0.
//% macro drop_value(n, seen)
//% if BLOCKS
        v${n}_scale = select(0u, v${n}_scale, ${seen});
//% else
//% for c in range(LOADS)
        v${n}_${c} = select(vec4<u32>(), v${n}_${c}, ${seen});
//% endfor
//% endif
//% endmacro
