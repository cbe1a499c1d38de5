// /// kernel
// doc = "conv2d_backward_weight for groups of few channels, with one sum for each weight."
// part_of = "conv2d_backward_weight"
// configs.taps9 = { TAPS = 9, threads = 256 }
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.CHUNK = { values = "configs", pick = "'taps9'" }
// inputs.dy = { dtype = "T", axes = "n g o h w" }
// inputs.x = { dtype = "T", axes = "n g c h w" }
// outputs.partials = { dtype = "f32", doc = "(splits, groups, O of a group, KH, KW, C of a group)" }
// params."rows channels kernel_w taps depth split_depth members" = { type = "u32" }
// include pixels
// include windows
// params."tap_h tap_w" = { type = "u32" }
// uses = ["pixels"]
// grid = "cdiv(depth, split_depth) * members * rows * channels * cdiv(taps, CFG.TAPS)"
// ///

// One workgroup computes the sums of TAPS taps (all taps of a 3 x 3 kernel) of one pair of channels over
// one split of pixels: its invocations take pixels in turn, then a tree adds up their sums.
//% set TAPS, WG = CFG.TAPS, CFG.threads
var<workgroup> shared_sums: array<array<f32, ${WG}>, ${TAPS}>;

${pixels.functions()}

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let chunks = (p.taps + ${TAPS - 1}u) / ${TAPS}u;
  let pair = g / chunks;
  let first_tap = (g - pair * chunks) * ${TAPS}u;
  let line = pair / p.channels;  // over splits, groups and output channels
  let channel = pair - line * p.channels;
  let part = line / p.rows;
  let row = line - part * p.rows;
  let split = part / p.members;
  let member = part - split * p.members;
  let k_first = split * p.split_depth;
  let k_end = min(k_first + p.split_depth, p.depth);

  let x_start = p.x_off + member * p.x_gs + channel * p.x_cs;
  let dy_start = p.dy_off + member * p.dy_gs + row * p.dy_os;
//% for t in range(TAPS)
  let n${t} = min(first_tap + ${t}u, p.taps - 1u);
  let y${t} = (n${t} / p.kernel_w) * p.tap_h + p.y_first;
  let x${t} = (n${t} % p.kernel_w) * p.tap_w + p.x_first;
  let from${t} = x_start + y${t} * p.x_hs + x${t} * p.x_ws;
  var sum${t} = 0.0f;
//% endfor
  var at = pixel(k_first + li);
  for (var k = k_first + li; k < k_end; k += ${WG}u) {
    let row_y = at.y * p.stride_h;
    let row_x = at.x * p.stride_w;
    let x_at = at.z * p.x_ns + row_y * p.x_hs + row_x * p.x_ws;
    let d = dy_load(dy_start + at.z * p.dy_ns + at.y * p.dy_hs + at.x * p.dy_ws);
//% for t in range(TAPS)
    let ok${t} = (y${t} + row_y < p.height) & (x${t} + row_x < p.width);
    let v${t} = x_load(select(x_start, from${t} + x_at, ok${t}));
//% endfor
//% for t in range(TAPS)
    sum${t} = fma(d, select(0.0f, v${t}, ok${t}), sum${t});
//% endfor
    at = next_pixel(at);
  }
//% for t in range(TAPS)
  shared_sums[${t}][li] = sum${t};
//% endfor
  workgroupBarrier();
//% for half in (128, 64, 32, 16, 8, 4, 2, 1)
  if (li < ${half}u) {
//% for t in range(TAPS)
    shared_sums[${t}][li] += shared_sums[${t}][li + ${half}u];
//% endfor
  }
  workgroupBarrier();
//% endfor
  if ((li < ${TAPS}u) & (first_tap + li < p.taps)) {
    partials_store(p.partials_off + (line * p.taps + first_tap + li) * p.channels + channel, shared_sums[li][0]);
  }
}
