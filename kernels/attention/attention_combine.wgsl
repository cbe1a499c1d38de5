// /// kernel
// doc = "Combines splits of the keys by their lse, and adds the sinks."
// part_of = "flash_attn"
// configs.cols32 = { COLS = 32, threads = 256 }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.BLOCK = { values = "configs", pick = "'cols32'" }
// inputs.partials = { dtype = "f32", vec = "VEC", doc = "(splits, batch, heads, queries, padded value depth)" }
// inputs.sums = { dtype = "f32", doc = "(splits, batch, heads, queries): lse of each split" }
// inputs.sinks = { dtype = "f32", optional = true, axes = "h" }
// outputs.lse = { dtype = "f32", axes = "b h s" }
// outputs.dst = { dtype = "D", axes = "b h s d" }
// axes.VEC = { values = [4], pick = "4" }
// params.splits = { type = "u32", value = "partials.shape[0]" }
// params."rows column_bits row_step" = { type = "u32" }
// params.heads = { type = "u32", value = "dst.shape[1]" }
// params.queries = { type = "u32", value = "dst.shape[2]" }
// params.value_depth = { type = "u32", value = "dst.shape[3]" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// uses = ["scalar", "combine"]
// grid = "rows << column_bits"
// ///

// One workgroup per row and COLS = 32 of its columns. ACROSS = 8 invocations take four columns
// each, and DOWN = 32 invocations of the same columns share the splits. Each invocation finds the
// maximum of its own values; then four of the 32 invocations combine eight values each, and one
// invocation combines the four results. The text is short and has few barriers, because a dispatch
// this small spends most of its time on latency and on the first fetch of instructions.
//% set WG, ACROSS = CFG.threads, CFG.COLS // 4
//% set DOWN, ACROSS_BITS = WG // ACROSS, ACROSS.bit_length() - 1
${combine.functions()}

var<workgroup> row_max: array<f32, ${WG}>;
var<workgroup> row_sum: array<f32, ${WG}>;
var<workgroup> row_out: array<vec4<f32>, ${WG}>;

${scalar.quotient()}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g >> p.column_bits;
  let block = g - (row << p.column_bits);
  let columns = (p.value_depth + 3u) >> 2u;
  if ((block != 0u) & (block * ${ACROSS}u >= columns)) { return; }
  let column = block * ${ACROSS}u + (li & ${ACROSS - 1}u);
  let column_near = min(column, max(columns, 1u) - 1u);
  // If neighbouring rows of dst are always the same distance apart, row_step is this distance, and
  // the position of a row needs no division. Otherwise row_step is 0.
  var to = p.dst_off + row * p.row_step;
  var lse_at = p.lse_off + row;
  var head = 0u;
  var step = 1u;
  if (p.row_step == 0u) {
    let of_batch = quotient(row, p.queries);
    let query = row - of_batch * p.queries;
    let batch = quotient(of_batch, p.heads);
    head = of_batch - batch * p.heads;
    to = p.dst_off + batch * p.dst_bs + head * p.dst_hs + query * p.dst_ss;
    lse_at = p.lse_off + batch * p.lse_bs + head * p.lse_hs + query * p.lse_ss;
    step = p.dst_ds;
  }
  // lse is -inf if the split has no key (from here on it is LOWEST); NaN and +inf make the row NaN.
  var m = LOWEST;
  var o = vec4<f32>();
  var l = 0.0f;
  var nan_seen = 0.0f;
  for (var s0 = li >> ${ACROSS_BITS}u; s0 < p.splits; s0 += ${2 * DOWN}u) {
//% for u in range(2)
    let at${u} = min(s0 + ${DOWN * u}u, p.splits - 1u) * p.rows + row;
    let lse${u} = sums_load(p.sums_off + at${u});
    let v${u} = partials_load(p.partials_off + at${u} * columns + column_near);
//% endfor
//% for u in range(2)
    let on${u} = !is_lost(lse${u}) & (s0 + ${DOWN * u}u < p.splits);
    let m${u} = select(LOWEST, lse${u}, on${u});
    if (is_lost(lse${u}) & (bitcast<u32>(lse${u}) != 0xff800000u)) { nan_seen = 1.0f; }
//% endfor
    let new_max = max(max(m0, m1), m);
    let shrink = exp_shifted(m - new_max);
    o *= shrink;
    l *= shrink;
//% for u in range(2)
    let w${u} = select(0.0f, exp_shifted(m${u} - new_max), on${u});
    o += w${u} * select(vec4<f32>(), v${u}, on${u});
    l += w${u};
//% endfor
    m = new_max;
  }
  row_max[li] = m;
  row_out[li] = o;
  row_sum[li] = select(l, -1.0f, nan_seen > 0.0f);  // -1 means that the row is NaN
  workgroupBarrier();
//% for n, step in ((8, WG // 8), (4, ACROSS))
  if (li < ${step}u) {
//% for i in range(n)
    let m${i} = row_max[li + ${i * step}u];
    let l${i} = row_sum[li + ${i * step}u];
    let o${i} = row_out[li + ${i * step}u];
//% endfor
    var new_max = m0;
    var bad = l0 < 0.0f;
//% for i in range(1, n)
    new_max = max(new_max, m${i});
    bad |= l${i} < 0.0f;
//% endfor
    o = vec4<f32>();
    l = 0.0f;
//% for i in range(n)
    let w${i} = exp_shifted(m${i} - new_max);
    o = fma(o${i}, vec4<f32>(w${i}), o);
    l = fma(l${i}, w${i}, l);
//% endfor
    m = new_max;
    l = select(l, -1.0f, bad);
//% if n == 8
    row_max[li] = m;
    row_out[li] = o;
    row_sum[li] = l;
//% endif
  }
//% if n == 8
  workgroupBarrier();
//% endif
//% endfor
  if (li >= ${ACROSS}u) { return; }

  let sum = l;
  var lost = sum < 0.0f;
  ${combine.add_sink("sum")}
  let v = o * factor;
  let nan = bitcast<f32>(p.nan);
//% for e in range(4)
  if (column * 4u + ${e}u < p.value_depth) {
    dst_store(to + (column * 4u + ${e}u) * step, select(v[${e}], nan, lost));
  }
//% endfor
  if (column == 0u) {
    let lse = select(new_max + log(total), bitcast<f32>(p.minus_inf), empty);
    lse_store(lse_at, select(lse, nan, lost));
  }
}
