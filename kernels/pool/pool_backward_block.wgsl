// /// kernel
// doc = "The gradient of pools with the usual windows, 2 x 2 and 3 x 3; each invocation computes a block of the image."
// part_of = "max_pool2d_backward"
// configs.k2s2p0 = { K = 2, S = 2, PAD = 0, R = 2 }
// configs.k3s2p1 = { K = 3, S = 2, PAD = 1, R = 2 }
// configs.k3s2p0 = { K = 3, S = 2, PAD = 0, R = 2 }
// configs.k3s1p1 = { K = 3, S = 1, PAD = 1, R = 2 }
// axes.OP = ["max", "avg"]
// include types
// axes.WINDOW = "configs"
// axes.V = { values = [1, 4], pick = "4 if dst.vectorizable(4) else 1" }
// pick.T = "dtype(dy)"
// inputs.dy = { dtype = "T", doc = "(..., OH, OW)" }
// inputs.index = { dtype = "i32", optional = true, when = "OP == 'max'", doc = "(..., OH, OW)" }
// outputs.dst = { dtype = "T", vec = "V", doc = "(..., H, W)" }
// params.height = { type = "u32", value = "dst.shape[-2]" }
// params.width = { type = "u32", value = "dst.shape[-1]" }
// params.down = { type = "u32", value = "cdiv(dst.shape[-2], CFG.R)" }
// params.across = { type = "u32", value = "cdiv(dst.shape[-1], 4)" }
// params.items = { type = "u32", value = "it.batches * cdiv(dst.shape[-2], CFG.R) * cdiv(dst.shape[-1], 4)" }
// params.rows = { type = "i32", value = "dy.shape[-2]" }
// params.cols = { type = "i32", value = "dy.shape[-1]" }
// include counted
// iterate = "tiles"
// uses = ["pool"]
// grid = "cdiv(it.batches * cdiv(dst.shape[-2], CFG.R) * cdiv(dst.shape[-1], 4), 256)"
// ///

// One invocation computes R rows of four neighbouring elements of the image, from all windows around
// them. The text knows which window may contain which element, because R and 4 are multiples of the
// stride. All loads come first, at clamped windows; windows that do not exist add nothing. Bytes:
// dst is written once; dy and index are read once, if the caches hold the windows that blocks
// share.
//% set K, S, R, PAD = CFG.K, CFG.S, CFG.R, CFG.PAD
//% set FIRST, LAST_Y, LAST_X = (PAD - K + S) // S, (R - 1 + PAD) // S, (3 + PAD) // S
//% if OP == "avg"
${pool.divisor()}
fn rows_of(o: i32) -> i32 { return min(o * ${S} + ${K - PAD}, p.high_h) - max(o * ${S} - ${PAD}, p.low_h); }
fn cols_of(o: i32) -> i32 { return min(o * ${S} + ${K - PAD}, p.high_w) - max(o * ${S} - ${PAD}, p.low_w); }
//% endif

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.items) { return; }
  let above = i / p.across;
  let block = i - above * p.across;
  let plane = above / p.down;
  let y = ${R}u * (above - plane * p.down);
  let x = 4u * block;
  let oy = i32(y / ${S}u);
  let ox = i32(x / ${S}u);
  let image = dy_batch(plane);
//% for b in range(FIRST, LAST_X + 1)
  let x${b - FIRST} = clamp(ox + ${b}, 0, p.cols - 1);
  let x${b - FIRST}_in = x${b - FIRST} == ox + ${b};
//% endfor
//% for a in range(FIRST, LAST_Y + 1)
  let y${a - FIRST} = clamp(oy + ${a}, 0, p.rows - 1);
  let y${a - FIRST}_in = y${a - FIRST} == oy + ${a};
//% endfor
//% if OP == "max"
  let index_image = index_batch(plane);
//% endif
//% for a in range(LAST_Y - FIRST + 1)
//% for b in range(LAST_X - FIRST + 1)
  let d${a}_${b} = dy_load(dy_at(image, u32(y${a}), u32(x${b})));
//% if OP == "max"
  let i${a}_${b} = index_load(index_at(index_image, u32(y${a}), u32(x${b})));
//% endif
//% endfor
//% endfor
//% for a in range(LAST_Y - FIRST + 1)
//% for b in range(LAST_X - FIRST + 1)
//% if OP == "max"
  let at${a}_${b} = select(-1, i${a}_${b}, y${a}_in & x${b}_in);
//% else
  let v${a}_${b} = select(0.0f, d${a}_${b} / divisor(rows_of(y${a}), cols_of(x${b})), y${a}_in & x${b}_in);
//% endif
//% endfor
//% endfor
//% for r in range(R)
//% for k in range(4)
  var s${r}_${k} = 0.0f;
//% if OP == "max"
  let here${r}_${k} = i32((y + ${r}u) * p.width + x + ${k}u);
//% endif
//% for a in range(LAST_Y - FIRST + 1)
//% for b in range(LAST_X - FIRST + 1)
//% if 0 <= r + PAD - (a + FIRST) * S < K and 0 <= k + PAD - (b + FIRST) * S < K
//% if OP == "max"
  s${r}_${k} += select(0.0f, d${a}_${b}, at${a}_${b} == here${r}_${k});
//% else
  s${r}_${k} += v${a}_${b};
//% endif
//% endif
//% endfor
//% endfor
//% endfor
//% endfor

  let there = dst_batch(plane);
//% for r in range(R)
  if (y + ${r}u < p.height) {
//% if V == 4
    dst_store(dst_at(there, y + ${r}u, block), vec4<f32>(s${r}_0, s${r}_1, s${r}_2, s${r}_3));
//% else
//% for k in range(4)
    if (x + ${k}u < p.width) { dst_store(dst_at(there, y + ${r}u, x + ${k}u), s${r}_${k}); }
//% endfor
//% endif
  }
//% endfor
}
