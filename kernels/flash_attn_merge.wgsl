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
// share the slices. Each finds the maximum of its own; then a fixed tree joins them.
const LOWEST = -0x1.fffffep+127f;
var<workgroup> tops: array<f32, 256>;
var<workgroup> shares: array<f32, 256>;
var<workgroup> sums4: array<vec4<f32>, 256>;

fn weight(d: f32) -> f32 { return select(exp(d), 0.0f, d < -87.0f); }
fn is_lost(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u; }

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let row = g / p.column_blocks;
  let column = (g - row * p.column_blocks) * 8u + (li & 7u);
  let columns = (p.value_depth + 3u) >> 2u;
  let column_near = min(column, max(columns, 1u) - 1u);
  // -inf (no key in the slice) becomes LOWEST; NaN and +inf spoil the row.
  var top = LOWEST;
  var acc = vec4<f32>();
  var share = 0.0f;
  var spoilt = 0.0f;
  for (var s0 = li >> 3u; s0 < p.slices; s0 += 128u) {
//% for u in range(4)
    let at${u} = min(s0 + ${32 * u}u, p.slices - 1u) * p.rows + row;
    let l${u} = sums_load(p.sums_off + at${u});
    let v${u} = parts_load(p.parts_off + at${u} * columns + column_near);
//% endfor
//% for u in range(4)
    let on${u} = !is_lost(l${u}) & (s0 + ${32 * u}u < p.slices);
    let f${u} = select(LOWEST, l${u}, on${u});
    if (is_lost(l${u}) & (bitcast<u32>(l${u}) != 0xff800000u)) { spoilt = 1.0f; }
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
  tops[li] = top;
  sums4[li] = acc;
  shares[li] = select(share, -1.0f, spoilt > 0.0f);
  workgroupBarrier();
  for (var h = WG >> 1u; h >= 8u; h >>= 1u) {
    if (li < h) {
      let higher = max(top, tops[li + h]);
      let here = weight(top - higher);
      let there = weight(tops[li + h] - higher);
      let other = shares[li + h];
      let bad = (shares[li] < 0.0f) | (other < 0.0f);  // a share of -1: the row is spoilt
      sums4[li] = sums4[li] * here + sums4[li + h] * there;
      shares[li] = select(shares[li] * here + other * there, -1.0f, bad);
      top = higher;
      tops[li] = top;
    }
    workgroupBarrier();
  }
  if (li >= 8u) { return; }

  let sum = shares[li];
  var lost = sum < 0.0f;
  let of_batch = row / p.queries;
  let query = row - of_batch * p.queries;
  let batch = of_batch / p.heads;
  let head = of_batch - batch * p.heads;
  let empty = sum == 0.0f;
  var total = sum;
  var top2 = top;
  if (p.has_sinks == 1u) {
    let sink = sinks_load(p.sinks_off + head * p.sink_step);
    let none = bitcast<u32>(sink) == 0xff800000u;
    lost |= is_lost(sink) & !none & !empty;
    top2 = max(top, select(sink, LOWEST, is_lost(sink)));
    total = sum * weight(top - top2) + select(weight(sink - top2), 0.0f, none);
  }
  let factor = select(weight(top - top2) / total, 0.0f, empty);
  let v = sums4[li] * factor;
  let nan = bitcast<f32>(p.nan);
  let to = p.dst_off + batch * p.dst_sb + head * p.dst_sh + query * p.dst_st;
//% for e in range(4)
  if (column * 4u + ${e}u < p.value_depth) {
    dst_store(to + (column * 4u + ${e}u) * p.dst_sd, select(v[${e}], nan, lost));
  }
//% endfor
  if (column == 0u) {
    let l = select(top2 + log(total), bitcast<f32>(p.minus_inf), empty);
    lse_store(p.lse_off + batch * p.lse_sb + head * p.lse_sh + query * p.lse_st, select(l, nan, lost));
  }
}
