// /// kernel
// doc = "Packs the weights of conv2d in the order of its product: rows of taps and channels, with output channels last."
// part_of = "conv2d"
// axes.W = { values = ["f32", "f16"], pick = "dtype(w)" }
// axes.V = { values = [4], pick = "4" }
// inputs.w = { dtype = "W", axes = "g o c h w", doc = "(groups, O, C, KH, KW)" }
// outputs.dst = { dtype = "f32", vec = "V", doc = "(groups, KH * KW * C, O in whole vectors)" }
// params.rows = { type = "u32", value = "w.shape[1]" }
// params.depth = { type = "u32", value = "dst.shape[1]" }
// params.quads = { type = "u32", value = "dst.shape[2] // 4" }
// params.items = { type = "u32", value = "dst.shape[0] * dst.shape[1] * cdiv(dst.shape[2], 16) * 4" }
// params."n0 n1 e0 e1 e2 d0 d1 d2" = { type = "u32" }
// grid = "cdiv(dst.shape[0] * dst.shape[1] * cdiv(dst.shape[2], 16) * 4, 256)"
// ///

// One invocation writes one k of four output channels. Four neighbouring invocations have the same
// k and successive channels, so that they write whole sectors of dst. Further neighbours take
// neighbouring k in the order of the weights in memory. A k has three digits (n0 is the radix of the
// lowest); e0, e1, e2 are the steps of the digits in w, and d0, d1, d2 their steps in rows of dst.
// Channels beyond the last channel repeat the last channel.
//
// Bounds, for unchecked compilation: rows are clamped to their count; items beyond the last item, and
// items that pad the channels to four vectors, end early.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let item = g * 256u + li;
  if (item >= p.items) { return; }
  let across = (p.quads + 3u) / 4u;
  let many = item / 4u / p.depth;
  let k = item / 4u - many * p.depth;
  let group = many / across;
  let quad = (many - group * across) * 4u + (item & 3u);
  if (quad >= p.quads) { return; }
  let row = quad * 4u;
  let q = k / p.n0;
  let r = q / p.n1;
  let low = k - q * p.n0;
  let mid = q - r * p.n1;
  let start = p.w_off + group * p.w_gs + low * p.e0 + mid * p.e1 + r * p.e2;
  let rows = min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.rows - 1u)) * p.w_os;
  let v = vec4<f32>(w_load(start + rows.x), w_load(start + rows.y), w_load(start + rows.z), w_load(start + rows.w));
  let to = group * p.depth + low * p.d0 + mid * p.d1 + r * p.d2;
  dst_store(p.dst_off + to * p.quads + quad, v);
}
