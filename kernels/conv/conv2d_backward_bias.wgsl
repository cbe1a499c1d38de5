// /// kernel
// doc = """
// The gradient of conv2d's bias: dst[o] is the sum of dy[n, o, y, x] over images and pixels.
//
// Sums are f32, added as trees; their order depends only on shapes, strides and device."""
// source = "torch.nn.functional.conv2d (meaning)"
// configs.sum256 = { UNROLL = 4, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(dy)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.V = [1, 4]
// axes.SUM = { values = "configs", pick = "'sum256'" }
// when = ["T == 'f16' or D == 'f32'"]
// inputs.dy = { dtype = "T", vec = "V", axes = "n h w o", doc = "(N, O, OH, OW)" }
// outputs.dst = { dtype = "D", index = false, axes = "s o", doc = "(O,)" }
// options.layout = { type = "Literal['NCHW', 'NHWC']", default = "NCHW", doc = "Axes of dy." }
// iterate = "rows"
// params."channels lane_bits across split_depth is_partial" = { type = "u32" }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of the sums." }
// operations = "dy.size"
// grid = "across * cdiv(it.rows, split_depth)"
// ///

// Rows of the index space are pixels of all images (or vectors of V pixels), columns are channels.
// One workgroup sums 2^lane_bits channels over one split of the pixels. Neighbouring invocations
// take neighbouring channels, or neighbouring pixels if lane_bits is 0; then a tree adds up their
// sums.
//% set UNROLL, WG = CFG.UNROLL, CFG.threads
//% set kind = "f32" if V == 1 else "vec4<f32>"
var<workgroup> shared_sums: array<f32, ${WG}>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let split = g / p.across;
  let lanes = 1u << p.lane_bits;
  let c = ((g - split * p.across) << p.lane_bits) + (li & (lanes - 1u));
  let step = ${WG}u >> p.lane_bits;
  let column = min(c, p.channels - 1u) * p.dy_os;
  let first = split * p.split_depth;
  let end = min(first + p.split_depth, p.rows);
//% for u in range(UNROLL)
  var sum${u} = ${kind}();
//% endfor
  for (var k = first + (li >> p.lane_bits); k < end; k += ${UNROLL}u * step) {
//% for u in range(UNROLL)
    let v${u} = dy_load(dy_row(min(k + ${u}u * step, end - 1u)) + column);
//% endfor
    sum0 += v0;
//% for u in range(1, UNROLL)
    sum${u} += select(${kind}(), v${u}, k + ${u}u * step < end);
//% endfor
  }
  let sum = (sum0 + sum1) + (sum2 + sum3);
//% if V == 4
  shared_sums[li] = (sum.x + sum.y) + (sum.z + sum.w);
//% else
  shared_sums[li] = sum;
//% endif
  workgroupBarrier();
//% for half in (128, 64, 32, 16, 8, 4, 2, 1)
  if ((${half}u >= lanes) & (li < ${half}u)) { shared_sums[li] += shared_sums[li + ${half}u]; }
  workgroupBarrier();
//% endfor
  if ((li < lanes) & (c < p.channels)) {
    let factor = select(p.scale, 1.0f, p.is_partial == 1u);
    dst_store(p.dst_off + split * p.dst_ss + c * p.dst_os, shared_sums[li] * factor);
  }
}
