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
// params.heads = { type = "u32", value = "dst.shape[1]" }
// params.queries = { type = "u32", value = "dst.shape[2]" }
// params.value_depth = { type = "u32", value = "dst.shape[3]" }
// params.column_blocks = { type = "u32" }
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
// grid = "rows * column_blocks"
// ///

// One workgroup per row and 32 of its columns: 8 invocations across (four columns each) times 32 that
// share the slices. Each joins its own slices, then all count by the maximum of the 32.
const LOWEST = -0x1.fffffep+127f;
var<workgroup> tops: array<f32, 32>;
var<workgroup> shares: array<f32, 32>;
var<workgroup> sums4: array<vec4<f32>, 256>;

fn weight(d: f32) -> f32 { return select(exp(d), 0.0f, d < -87.0f); }
fn is_lost(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u; }

// a / b, at once where it is trivial: a division takes as long as a load.
fn quotient(a: u32, b: u32) -> u32 {
  if (b == 1u) { return a; }
  if (a < b) { return 0u; }
  return a / b;
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = quotient(g, p.column_blocks);
  let lane = li >> 3u;
  let column = (g - row * p.column_blocks) * 8u + (li & 7u);
  let columns = (p.value_depth + 3u) >> 2u;
  let column_near = min(column, max(columns, 1u) - 1u);
  // -inf (no key in the slice) becomes LOWEST; NaN and +inf spoil the row.
  var top = LOWEST;
  var acc = vec4<f32>();
  var share = 0.0f;
  var spoilt = false;
  for (var s0 = lane; s0 < p.slices; s0 += 128u) {
//% for u in range(4)
    let at${u} = min(s0 + ${32 * u}u, p.slices - 1u) * p.rows + row;
    let l${u} = sums_load(p.sums_off + at${u});
    let v${u} = parts_load(p.parts_off + at${u} * columns + column_near);
//% endfor
//% for u in range(4)
    let on${u} = !is_lost(l${u}) & (s0 + ${32 * u}u < p.slices);
    let f${u} = select(LOWEST, l${u}, on${u});
    spoilt |= is_lost(l${u}) & (bitcast<u32>(l${u}) != 0xff800000u);
//% endfor
    let higher = max(max(max(f0, f1), max(f2, f3)), top);
    let shrink = weight(top - higher);
    acc *= shrink;
    share *= shrink;
//% for u in range(4)
    let w${u} = select(0.0f, weight(f${u} - higher), on${u});
    acc += w${u} * select(vec4<f32>(), v${u}, on${u});
    share += w${u};
//% endfor
    top = higher;
  }
  if ((li & 7u) == 0u) {
    tops[lane] = top;
    shares[lane] = select(share, -1.0f, spoilt);
  }
  workgroupBarrier();
//% for i in range(32)
  let top${i} = tops[${i}];
//% endfor
  var highest = top0;
//% for i in range(1, 32)
  highest = max(highest, top${i});
//% endfor
  sums4[li] = acc * weight(top - highest);
  workgroupBarrier();
  if (li >= 8u) { return; }

  var sum = 0.0f;
  var whole = vec4<f32>();
  var lost = false;
//% for i in range(32)
  let share${i} = shares[${i}];
  lost |= share${i} < 0.0f;
  sum = fma(weight(top${i} - highest), share${i}, sum);
  whole += sums4[li + ${8 * i}u];
//% endfor
  let of_batch = quotient(row, p.queries);
  let query = row - of_batch * p.queries;
  let batch = quotient(of_batch, p.heads);
  let head = of_batch - batch * p.heads;
  let empty = sum == 0.0f;
  var total = sum;
  var with_sink = highest;
  if (p.has_sinks == 1u) {
    let sink = sinks_load(p.sinks_off + head * p.sink_step);
    let none = bitcast<u32>(sink) == 0xff800000u;
    lost |= is_lost(sink) & !none & !empty;
    with_sink = max(highest, select(sink, LOWEST, is_lost(sink)));
    total = sum * weight(highest - with_sink) + select(weight(sink - with_sink), 0.0f, none);
  }
  let factor = select(weight(highest - with_sink) / total, 0.0f, empty);
  let v = whole * factor;
  let nan = bitcast<f32>(p.nan);
  let to = p.dst_off + batch * p.dst_sb + head * p.dst_sh + query * p.dst_st;
//% for e in range(4)
  if (column * 4u + ${e}u < p.value_depth) {
    dst_store(to + (column * 4u + ${e}u) * p.dst_sd, select(v[${e}], nan, lost));
  }
//% endfor
  if (column == 0u) {
    let l = select(with_sink + log(total), bitcast<f32>(p.minus_inf), empty);
    lse_store(p.lse_off + batch * p.lse_sb + head * p.lse_sh + query * p.lse_st, select(l, nan, lost));
  }
}
