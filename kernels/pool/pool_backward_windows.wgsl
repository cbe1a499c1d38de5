// /// kernel
// doc = "The gradient of pools with any windows; each invocation computes one element of the image, or this element of four channels."
// part_of = "max_pool2d_backward"
// axes.OP = ["max", "avg"]
// include types
// axes.V = [1, 4]
// pick.T = "dtype(dy)"
// inputs.dy = { dtype = "T", vec = "V", axes = "n c h w", doc = "(N, C, OH, OW)" }
// inputs.index = { dtype = "i32", vec = "V", axes = "n c h w", optional = true, when = "OP == 'max'", doc = "(N, C, OH, OW)" }
// outputs.dst = { dtype = "T", vec = "V", axes = "n c h w", doc = "(N, C, H, W)" }
// params.channels = { type = "u32", value = "dst.shape[1]" }
// params.height = { type = "u32", value = "dst.shape[2]" }
// params.width = { type = "u32", value = "dst.shape[3]" }
// params.rows = { type = "u32", value = "dy.shape[2]" }
// params.cols = { type = "u32", value = "dy.shape[3]" }
// params.items = { type = "u32", value = "dst.size" }
// params."channels_first step_h step_w last_h last_w unit_h unit_w" = { type = "u32" }
// params."pad_h pad_w" = { type = "i32" }
// params."back_step_h back_step_w back_unit_h back_unit_w before_h before_w reach_h" = { type = "u32" }
// params."reach_w after_h after_w" = { type = "u32" }
// include counted
// uses = ["pool"]
// grid = "cdiv(dst.size, 256)"
// ///

// One invocation adds the gradients of the windows around one element of the image, in the order of
// rows. For a maximum, it adds the gradients of windows whose index is this element; for a mean,
// the element's share of each window's gradient. V is the number of contiguous channels.
// Neighbouring invocations take neighbouring columns, or channels if these are neighbours in memory
// (channels_first). Bytes: dst is written once, dy and index are read once if the caches hold the
// windows of neighbours.
//% set F, I = ("f32", "i32") if V == 1 else ("vec4<f32>", "vec4<i32>")
//% if OP == "avg"
${pool.windows(true)}
${pool.divisor()}
//% else
${pool.quotient()}
//% endif

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.items) { return; }
  // (n, y, x, c) or (n, c, y, x), where the last digit runs fastest.
  let channels_first = p.channels_first == 1u;
  let size_a = select(p.width, p.channels, channels_first);
  let size_b = select(p.height, p.width, channels_first);
  let size_c = select(p.channels, p.height, channels_first);
  let i_b = i / size_a;
  let a = i - i_b * size_a;
  let i_c = i_b / size_b;
  let b = i_b - i_c * size_b;
  let image = i_c / size_c;
  let c = i_c - image * size_c;
  let channel = select(c, a, channels_first);
  let y = select(b, c, channels_first);
  let x = select(a, b, channels_first);

  // Windows [first, end) reach around the element.
//% for a, o, size in (("h", "y", "rows"), ("w", "x", "cols"))
  let before_${o} = max(${o} * p.back_step_${a} + p.before_${a}, p.reach_${a}) - p.reach_${a};
  let first_${o} = quotient(before_${o}, p.back_unit_${a});
  let end_${o} = min(quotient(${o} * p.back_step_${a} + p.after_${a}, p.back_unit_${a}), p.${size});
//% endfor
  let base = p.dy_off + image * p.dy_ns + channel * p.dy_cs;
//% if OP == "max"
  let index_base = p.index_off + image * p.index_ns + channel * p.index_cs;
  let here = ${I}(i32(y * p.width + x));
//% endif
  var sum = ${F}();
  for (var oy = first_y; oy < end_y; oy += 1u) {
    for (var ox = first_x; ox < end_x; ox += 1u) {
      let v = dy_load(base + oy * p.dy_hs + ox * p.dy_ws);
//% if OP == "max"
      let from_here = index_load(index_base + oy * p.index_hs + ox * p.index_ws) == here;
      sum += select(${F}(), v, from_here);
//% else
      sum += v / divisor(length_h(oy), length_w(ox));
//% endif
    }
  }
  dst_store(p.dst_off + image * p.dst_ns + channel * p.dst_cs + y * p.dst_hs + x * p.dst_ws, sum);
}
