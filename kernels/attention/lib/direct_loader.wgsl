// The loads of flash_attn: E neighbouring elements of a row of k or v at a time, in one load if
// rows are whole vectors (VECTORIZED), else element by element. The numbers of rows, keys and
// depths are clamped to existing ones.
//% set QD = 576
//% set ROWS, KEYS, LANES, WG = CFG.ROWS, CFG.KEYS, CFG.LANES, CFG.threads
// The number of keys in one pass over k; LANES lanes share a key.
//% set PASS = WG // LANES
//% set LANE_BITS, PASS_BITS = LANES.bit_length() - 1, PASS.bit_length() - 1
//% set E = 8 if VECTORIZED and T == "f16" else 4
// There are few loads in a round, because registers decide how many workgroups run at once.
//% set K_LOADS = 3 if E == 4 else 1
//% set V_LOADS = 4
// Vectors of four elements in one load.
//% set HALVES = E // 4

//% macro memory()
var<workgroup> q_tile: array<array<vec4<f32>, ${QD // 4}>, ${ROWS}>;
var<workgroup> scores: array<f32, ${KEYS * ROWS}>;
var<workgroup> red: array<vec4<f32>, ${WG}>;
//% endmacro

//% macro functions()
fn q_value(i: u32) -> f32 {
  if (p.q_kind == 4u) { return bitcast<f32>(q_mem[i]); }
  return half_of(q_mem[i >> 1u], i);
}
//% endmacro

// q as f32, zero beyond its depth.
//% macro load_q()
  for (var i = li; i < ${ROWS * QD // 4}u; i += ${WG}u) {
    let r = i / ${QD // 4}u;
    let c = (i - r * ${QD // 4}u) * 4u;
    let row = min(row0 + r, rows - 1u);
    let member = row / p.queries;
    let start = p.q_off + batch * p.q_bs + (kv_head * p.group + member) * p.q_hs + (row - member * p.queries) * p.q_ss;
    let at = vec4<u32>(c) + vec4<u32>(0u, 1u, 2u, 3u);
    let near = vec4<u32>(start) + min(at, vec4<u32>(p.depth - 1u)) * p.q_ds;
    let x = vec4<f32>(q_value(near.x), q_value(near.y), q_value(near.z), q_value(near.w));
    q_tile[r][i - r * ${QD // 4}u] = select(vec4<f32>(), x, at < vec4<u32>(p.depth));
  }
//% endmacro

// x: E elements of the row of k or v that begins at `base`, vector `c` of its columns.
//% macro load(x, name, base, c, size)
//% if VECTORIZED
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

// v0 .. : the values of key n of the split, and of further keys at distances of `apart` keys.
//% macro load_values(n)
  {
//% for u in range(V_LOADS)
    ${load("x" ~ u, "v", "(v_start + min(key0 + " ~ n ~ " + " ~ u ~ "u * apart, " ~ key_range.COUNT ~ " - 1u) * p.v_st)", "column", "p.value_depth")}
//% endfor
//% for u in range(V_LOADS)
    v${u} = x${u};
//% endfor
  }
//% endmacro

//% macro part(x, h)
${"vec4<f32>(unpack2x16float(" ~ x ~ "[" ~ (2 * h) ~ "]), unpack2x16float(" ~ x ~ "[" ~ (2 * h + 1) ~ "]))" if E == 8 else "bitcast<vec4<f32>>(" ~ x ~ ")"}
//% endmacro
