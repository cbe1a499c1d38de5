// /// kernel
// doc = """
// Boxes of images as images of one size: dst[r] is the box r of the image x[index[r]], divided into
// OH x OW bins, each the mean of samples between pixels.
//
// A box is (x1, y1, x2, y2), times `spatial_scale`; with `aligned`, half a pixel is subtracted, and
// without it a box has at least one pixel. A bin has `sampling_ratio` samples in each direction; 0
// means as many samples as the bin has pixels, rounded up. A sample mixes four pixels; samples more
// than a pixel outside of the image are 0. In mode max, a bin is the largest product of a pixel and
// its share (ONNX). An index outside [0, N) writes nothing and raises IndexRangeError at the next
// synchronisation."""
// source = "He and others 2017; torchvision.ops.roi_align, ONNX RoiAlign"
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.MAX = [false, true]
// axes.WINNER = { values = [false, true], pick = "winner is not None" }
// when = ["MAX or not WINNER"]
// inputs.x = { dtype = "T", axes = "n c h w", doc = "(N, C, H, W)" }
// inputs.boxes = { dtype = "f32", axes = "r p", doc = "(R, 4)" }
// inputs.index = { dtype = "i32", axes = "r", doc = "(R,)" }
// outputs.winner = { dtype = "i32", when = "WINNER", optional = true, skips = true, axes = "r c h w", doc = "(R, C, OH, OW): in mode max, the pixel of each bin, as its row times W plus its column." }
// outputs.share = { dtype = "f32", when = "WINNER", optional = true, skips = true, axes = "r c h w", doc = "(R, C, OH, OW): the share of that pixel; it must be given together with `winner`." }
// outputs.dst = { dtype = "T", skips = true, axes = "r c h w", doc = "(R, C, OH, OW)" }
// options.sampling_ratio = { type = "int", default = 0, doc = "The number of samples of a bin in each direction; 0 means its number of pixels." }
// options.aligned = { type = "bool", default = false, doc = "True subtracts half a pixel from the corners." }
// options.mode = { type = "Literal['avg', 'max']", default = "avg", doc = "The mean of the samples, or the largest pixel times its share." }
// params.height = { type = "u32", value = "x.shape[2]" }
// params.width = { type = "u32", value = "x.shape[3]" }
// params.images = { type = "u32", value = "x.shape[0]" }
// params.channels = { type = "u32", value = "dst.shape[1]" }
// params.bins_y = { type = "u32", value = "dst.shape[2]" }
// params.bins_x = { type = "u32", value = "dst.shape[3]" }
// params.total = { type = "u32", value = "dst.size" }
// params.ratio = { type = "u32" }
// params.shift = { type = "f32" }
// params.spatial_scale = { type = "f32", default = 1.0, doc = "Factor of the boxes." }
// iterate = "none"
// faults = true
// uses = ["roi"]
// operations = "16 * dst.size * max(sampling_ratio, 1) ** 2"
// grid = "cdiv(dst.size, 256)"
// ///

// One invocation for each bin and channel.
${roi.functions()}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  fault_started(i == 0u);
  if (i >= p.total) { return; }
  let row = i / p.bins_x;
  let bx = i - row * p.bins_x;
  let plane = row / p.bins_y;
  let by = row - plane * p.bins_y;
  let r = plane / p.channels;
  let c = plane - r * p.channels;
  let image = bitcast<u32>(index_load(p.index_off + r * p.index_rs));
  if (image >= p.images) {
    if ((c | by | bx) == 0u) { fault(r, image, select(0u, 0xffffffffu, image >= 0x80000000u)); }
    return;
  }
  let box = roi_of(r);
  let y0 = box.start.x + f32(by) * box.bin.x;
  let x0 = box.start.y + f32(bx) * box.bin.y;
  let rows = near_samples(y0, box.gap.x, box.samples.x, -1.0f, f32(p.height));
  let cols = near_samples(x0, box.gap.y, box.samples.y, -1.0f, f32(p.width));
  let base = p.x_off + image * p.x_ns + c * p.x_cs;
//% if MAX
  // Samples outside of the image count as 0.
  let all = (f32(rows.y - rows.x) >= box.samples.x) & (f32(cols.y - cols.x) >= box.samples.y);
  let none = (rows.x >= rows.y) | (cols.x >= cols.y);
  var best = select(-3.4028234e38f, 0.0f, none | !all);
  var pixel = 0u;
  var part = 0.0f;
//% else
  var sum = 0.0f;
//% endif
  for (var iy = rows.x; iy < rows.y; iy += 1u) {
    let v = taps(y0 + (f32(iy) + 0.5f) * box.gap.x, p.height);
    for (var ix = cols.x; ix < cols.y; ix += 1u) {
      let h = taps(x0 + (f32(ix) + 0.5f) * box.gap.y, p.width);
      let inside = v.inside & h.inside;
//% for name, side, other in (("a", "low", "low"), ("b", "low", "high"), ("c", "high", "low"), ("d", "high", "high"))
      let x_${name} = x_load(base + v.${side} * p.x_hs + h.${other} * p.x_ws);
      let w_${name} = ${"(1.0f - v.share)" if side == "low" else "v.share"} * ${"(1.0f - h.share)" if other == "low" else "h.share"};
//% endfor
//% if MAX
//% for name, side, other in (("a", "low", "low"), ("b", "low", "high"), ("c", "high", "low"), ("d", "high", "high"))
      {
        let value = select(0.0f, w_${name} * x_${name}, inside);
        if (value > best) {
          best = value;
          pixel = v.${side} * p.width + h.${other};
          part = select(0.0f, w_${name}, inside);
        }
      }
//% endfor
//% else
      let mixed = w_a * x_a + w_b * x_b + (w_c * x_c + w_d * x_d);
      sum += select(0.0f, mixed, inside);
//% endif
    }
  }
  let to = r * p.dst_rs + c * p.dst_cs + by * p.dst_hs + bx * p.dst_ws;
//% if MAX
  dst_store(p.dst_off + to, best);
//% if WINNER
  winner_store(p.winner_off + r * p.winner_rs + c * p.winner_cs + by * p.winner_hs + bx * p.winner_ws, i32(pixel));
  share_store(p.share_off + r * p.share_rs + c * p.share_cs + by * p.share_hs + bx * p.share_ws, part);
//% endif
//% else
  dst_store(p.dst_off + to, sum / max(box.samples.x * box.samples.y, 1.0f));
//% endif
}
