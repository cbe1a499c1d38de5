// /// kernel
// doc = "Weights of conv2d in the order of its product: rows of taps and channels, output channels last."
// part_of = "conv2d"
// axes.W = ["f32", "f16"]
// pick.W = "dtype(w)"
// inputs.w = { dtype = "W", doc = "(groups, O, C, KH, KW)" }
// outputs.dst = { dtype = "f32", doc = "(groups, KH * KW * C, wide)" }
// params.rows = { type = "u32", value = "w.shape[1]" }
// params.depth = { type = "u32", value = "dst.shape[1]" }
// params.wide = { type = "u32", value = "dst.shape[2]" }
// params.across = { type = "u32", value = "cdiv(dst.shape[2], 32)" }
// params.down = { type = "u32", value = "cdiv(dst.shape[1], 32)" }
// params.n0 = { type = "u32" }
// params.n1 = { type = "u32" }
// params.e0 = { type = "u32" }
// params.e1 = { type = "u32" }
// params.e2 = { type = "u32" }
// params.d0 = { type = "u32" }
// params.d1 = { type = "u32" }
// params.d2 = { type = "u32" }
// params.w_gs = { type = "u32" }
// params.w_rs = { type = "u32" }
// grid = "dst.shape[0] * cdiv(dst.shape[1], 32) * cdiv(dst.shape[2], 32)"
// ///

// One workgroup turns 32 output channels x 32 k in workgroup memory. The k are counted in the order
// of the weights in memory, as three digits (n0: radix of the lowest): e0, e1, e2 are a digit's
// steps in w, d0, d1, d2 its steps in rows of dst. What lies behind the last channel repeats it.
//
// Bounds, for unchecked compilation: loads are clamped to the counts, stores guarded.
var<workgroup> tile: array<array<f32, 33>, 32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let group = g / (p.across * p.down);
  let t = g - group * p.across * p.down;
  let row0 = (t / p.down) * 32u;
  let k0 = (t % p.down) * 32u;
  let low = li & 31u;
  let high = li >> 5u;

  let k = min(k0 + low, p.depth - 1u);
  let q = k / p.n0;
  let r = q / p.n1;
  let start = p.w_off + group * p.w_gs + (k - q * p.n0) * p.e0 + (q - r * p.n1) * p.e1 + r * p.e2;
//% for u in range(4)
  tile[high + ${8 * u}u][low] = w_load(start + min(row0 + high + ${8 * u}u, p.rows - 1u) * p.w_rs);
//% endfor
  workgroupBarrier();
  let dst_start = p.dst_off + group * p.depth * p.wide + row0 + low;
//% for u in range(4)
  {
    let k = k0 + high + ${8 * u}u;
    let q = k / p.n0;
    let r = q / p.n1;
    let row = (k - q * p.n0) * p.d0 + (q - r * p.n1) * p.d1 + r * p.d2;
    if ((k < p.depth) & (row0 + low < p.wide)) {
      dst_store(dst_start + row * p.wide, tile[low][high + ${8 * u}u]);
    }
  }
//% endfor
}
