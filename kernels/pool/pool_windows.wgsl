// /// kernel
// doc = "Pools with any windows, and adaptive pools; each invocation computes one result, or this result for four channels."
// part_of = "max_pool2d"
// axes.OP = ["max", "index", "avg"]
// include types
// axes.V = [1, 4]
// pick.T = "dtype(x)"
// inputs.x = { dtype = "T", vec = "V", axes = "n c h w", doc = "(N, C, H, W)" }
// outputs.index = { dtype = "i32", vec = "V", axes = "n c h w", optional = true, when = "OP == 'index'", doc = "(N, C, OH, OW)" }
// outputs.dst = { dtype = "T", vec = "V", axes = "n c h w", doc = "(N, C, OH, OW)" }
// params.channels = { type = "u32", value = "dst.shape[1]" }
// params.rows = { type = "u32", value = "dst.shape[2]" }
// params.cols = { type = "u32", value = "dst.shape[3]" }
// params.height = { type = "i32", value = "x.shape[2]" }
// params.width = { type = "i32", value = "x.shape[3]" }
// params.items = { type = "u32", value = "dst.size" }
// params."channels_first step_h step_w last_h last_w unit_h unit_w" = { type = "u32" }
// params."pad_h pad_w dilation_h dilation_w" = { type = "i32" }
// include counted
// uses = ["pool"]
// grid = "cdiv(dst.size, 256)"
// ///

// One invocation visits all elements of one window that lie in the image, in the order of rows. V is
// the number of contiguous channels. Neighbouring invocations take neighbouring columns, or channels
// if these are neighbours in memory (channels_first). Bytes: x is read once, if the caches hold the
// elements that windows share, and dst is written once.
//% set F, U, I = ("f32", "u32", "i32") if V == 1 else ("vec4<f32>", "vec4<u32>", "vec4<i32>")
${pool.windows(OP == "avg")}
${pool.divisor() if OP == "avg" else pool.keys(V)}

// The first element of a window at or after 0.
fn first_inside(start: i32, dilation: i32) -> i32 {
  if (dilation == 1) { return max(start, 0); }
  return start + (max(-start, 0) + dilation - 1) / dilation * dilation;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.items) { return; }
  // (n, oy, ox, c) or (n, c, oy, ox), where the last digit runs fastest.
  let channels_first = p.channels_first == 1u;
  let size_a = select(p.cols, p.channels, channels_first);
  let size_b = select(p.rows, p.cols, channels_first);
  let size_c = select(p.channels, p.rows, channels_first);
  let i_b = i / size_a;
  let a = i - i_b * size_a;
  let i_c = i_b / size_b;
  let b = i_b - i_c * size_b;
  let image = i_c / size_c;
  let c = i_c - image * size_c;
  let channel = select(c, a, channels_first);
  let oy = select(b, c, channels_first);
  let ox = select(a, b, channels_first);

  let start_y = start_h(oy);
  let start_x = start_w(ox);
  let end_y = min(end_h(oy), p.height);
  let end_x = min(end_w(ox), p.width);
  let first_y = first_inside(start_y, p.dilation_h);
  let first_x = first_inside(start_x, p.dilation_w);
  let base = p.x_off + image * p.x_ns + channel * p.x_cs;
//% if OP == "avg"
  var sum = ${F}();
//% else
  var best = ${U}();
//% if OP == "index"
  var value = value_of(best);
  var at = ${I}(-1);
//% endif
//% endif
  for (var y = first_y; y < end_y; y += p.dilation_h) {
    let row = base + u32(y) * p.x_hs;
    for (var x = first_x; x < end_x; x += p.dilation_w) {
      let v = x_load(row + u32(x) * p.x_ws);
//% if OP == "avg"
      sum += v;
//% elif OP == "max"
      best = max(best, key_of(v));
//% else
      let rank = rank_of(v);
      let taken = (rank > best) | (at < ${I}());
      best = select(best, rank, taken);
      value = select(value, v, taken);
      at = select(at, ${I}(y * p.width + x), taken);
//% endif
    }
  }
  let there = image * p.dst_ns + channel * p.dst_cs + oy * p.dst_hs + ox * p.dst_ws;
//% if OP == "avg"
  dst_store(p.dst_off + there, sum / divisor(length_h(oy), length_w(ox)));
//% elif OP == "max"
  dst_store(p.dst_off + there, value_of(best));
//% else
  dst_store(p.dst_off + there, value);
  index_store(p.index_off + image * p.index_ns + channel * p.index_cs + oy * p.index_hs + ox * p.index_ws, at);
//% endif
}
