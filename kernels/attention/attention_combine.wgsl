// /// kernel
// doc = "Joins the results of slices of the keys by their lse, and adds the sinks."
// part_of = "flash_attn"
// axes.D = ["f32", "f16"]
// axes.WG = [256]
// pick.D = "dtype(dst)"
// pick.WG = "256"
// inputs.parts = { dtype = "f32", vec = "VEC", doc = "(slices, batch, heads, queries, padded value depth)" }
// inputs.sums = { dtype = "f32", doc = "(slices, batch, heads, queries): lse of each part" }
// inputs.sinks = { dtype = "f32", optional = true }
// outputs.lse = { dtype = "f32" }
// outputs.dst = { dtype = "D" }
// axes.VEC = [4]
// pick.VEC = "4"
// params.slices = { type = "u32", value = "parts.shape[0]" }
// params.rows = { type = "u32" }
// params.column_bits = { type = "u32" }
// params.row_step = { type = "u32" }
// params.heads = { type = "u32", value = "dst.shape[1]" }
// params.queries = { type = "u32", value = "dst.shape[2]" }
// params.value_depth = { type = "u32", value = "dst.shape[3]" }
// params.sink_step = { type = "u32", value = "(sinks.strides[0] // 4 if sinks else 0) & 0xffffffff" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// params.lse_sb = { type = "u32", value = "lse.strides[0] // 4 & 0xffffffff" }
// params.lse_sh = { type = "u32", value = "lse.strides[1] // 4 & 0xffffffff" }
// params.lse_st = { type = "u32", value = "lse.strides[2] // 4 & 0xffffffff" }
// params.dst_sb = { type = "u32", value = "dst.strides[0] // dst.dtype.itemsize & 0xffffffff" }
// params.dst_sh = { type = "u32", value = "dst.strides[1] // dst.dtype.itemsize & 0xffffffff" }
// params.dst_st = { type = "u32", value = "dst.strides[2] // dst.dtype.itemsize & 0xffffffff" }
// params.dst_sd = { type = "u32", value = "dst.strides[3] // dst.dtype.itemsize & 0xffffffff" }
// params.minus_inf = { type = "u32", value = "0xff800000" }
// params.nan = { type = "u32", value = "0x7fc00000" }
// uses = ["tile/combine"]
// grid = "rows << column_bits"
// ///

// One workgroup per row and 32 of its columns: 8 invocations across (four columns each) times 32 that
// share the slices. Each finds the maximum of its own; then 4 of the 32 join eight each, and one
// these four. Short and with few barriers: at this size latency and cold instructions are all.
${combine.rules()}

var<workgroup> tops: array<f32, 256>;
var<workgroup> shares: array<f32, 256>;
var<workgroup> sums4: array<vec4<f32>, 256>;

// a / b, at once where it is trivial.
fn quotient(a: u32, b: u32) -> u32 {
  if (b == 1u) { return a; }
  if (a < b) { return 0u; }
  return a / b;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g >> p.column_bits;
  let block = g - (row << p.column_bits);
  let columns = (p.value_depth + 3u) >> 2u;
  if ((block != 0u) & (block * 8u >= columns)) { return; }
  let column = block * 8u + (li & 7u);
  let column_near = min(column, max(columns, 1u) - 1u);
  // Where rows of dst and lse follow each other: not one division. Else row_step is 0.
  var to = p.dst_off + row * p.row_step;
  var lse_at = p.lse_off + row;
  var head = 0u;
  var step = 1u;
  if (p.row_step == 0u) {
    let of_batch = quotient(row, p.queries);
    let query = row - of_batch * p.queries;
    let batch = quotient(of_batch, p.heads);
    head = of_batch - batch * p.heads;
    to = p.dst_off + batch * p.dst_sb + head * p.dst_sh + query * p.dst_st;
    lse_at = p.lse_off + batch * p.lse_sb + head * p.lse_sh + query * p.lse_st;
    step = p.dst_sd;
  }
  // -inf (no key in the slice) becomes LOWEST; NaN and +inf spoil the row.
  var top = LOWEST;
  var acc = vec4<f32>();
  var share = 0.0f;
  var spoilt = 0.0f;
  for (var s0 = li >> 3u; s0 < p.slices; s0 += 64u) {
//% for u in range(2)
    let at${u} = min(s0 + ${32 * u}u, p.slices - 1u) * p.rows + row;
    let l${u} = sums_load(p.sums_off + at${u});
    let v${u} = parts_load(p.parts_off + at${u} * columns + column_near);
//% endfor
//% for u in range(2)
    let on${u} = !is_lost(l${u}) & (s0 + ${32 * u}u < p.slices);
    let f${u} = select(LOWEST, l${u}, on${u});
    if (is_lost(l${u}) & (bitcast<u32>(l${u}) != 0xff800000u)) { spoilt = 1.0f; }
//% endfor
    let higher = max(max(f0, f1), top);
    let shrink = weight(top - higher);
    acc *= shrink;
    share *= shrink;
//% for u in range(2)
    let w${u} = select(0.0f, weight(f${u} - higher), on${u});
    acc += w${u} * select(vec4<f32>(), v${u}, on${u});
    share += w${u};
//% endfor
    top = higher;
  }
  tops[li] = top;
  sums4[li] = acc;
  shares[li] = select(share, -1.0f, spoilt > 0.0f);  // -1: the row is spoilt
  workgroupBarrier();
//% for n, step in ((8, 32), (4, 8))
  if (li < ${step}u) {
//% for i in range(n)
    let t${i} = tops[li + ${i * step}u];
    let s${i} = shares[li + ${i * step}u];
    let a${i} = sums4[li + ${i * step}u];
//% endfor
    var higher = t0;
    var bad = s0 < 0.0f;
//% for i in range(1, n)
    higher = max(higher, t${i});
    bad |= s${i} < 0.0f;
//% endfor
    acc = vec4<f32>();
    share = 0.0f;
//% for i in range(n)
    let w${i} = weight(t${i} - higher);
    acc = fma(a${i}, vec4<f32>(w${i}), acc);
    share = fma(s${i}, w${i}, share);
//% endfor
    top = higher;
    share = select(share, -1.0f, bad);
//% if n == 8
    tops[li] = top;
    sums4[li] = acc;
    shares[li] = share;
//% endif
  }
//% if n == 8
  workgroupBarrier();
//% endif
//% endfor
  if (li >= 8u) { return; }

  let sum = share;
  var lost = sum < 0.0f;
  ${combine.finish()}
  let v = acc * factor;
  let nan = bitcast<f32>(p.nan);
//% for e in range(4)
  if (column * 4u + ${e}u < p.value_depth) {
    dst_store(to + (column * 4u + ${e}u) * step, select(v[${e}], nan, lost));
  }
//% endfor
  if (column == 0u) {
    let l = select(higher + log(total), bitcast<f32>(p.minus_inf), empty);
    lse_store(lse_at, select(l, nan, lost));
  }
}
