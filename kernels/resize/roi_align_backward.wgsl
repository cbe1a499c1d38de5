// /// kernel
// doc = """
// The gradient of roi_align's images in mode avg: dst[n, c, y, x] is the sum of dy times the share
// of the pixel over all bins of boxes of image n.
//
// The other arguments are the same as in `roi_align`. Boxes of images that do not exist add
// nothing."""
// source = "torchvision.ops.roi_align, whose gradient adds in no order; this one is the same each time"
// axes.T = { values = ["f32", "f16"], pick = "dtype(dy)" }
// inputs.dy = { dtype = "T", axes = "r c h w", doc = "(R, C, OH, OW)" }
// inputs.boxes = { dtype = "f32", axes = "r p", doc = "(R, 4)" }
// inputs.index = { dtype = "i32", axes = "r", doc = "(R,)" }
// outputs.dst = { dtype = "T", axes = "n c h w", doc = "(N, C, H, W)" }
// options.sampling_ratio = { type = "int", default = 0, doc = "The same as in `roi_align`." }
// options.aligned = { type = "bool", default = false, doc = "The same as in `roi_align`." }
// params.height = { type = "u32", value = "dst.shape[2]" }
// params.width = { type = "u32", value = "dst.shape[3]" }
// params.channels = { type = "u32", value = "dst.shape[1]" }
// params.bins_y = { type = "u32", value = "dy.shape[2]" }
// params.bins_x = { type = "u32", value = "dy.shape[3]" }
// params.rois = { type = "u32", value = "dy.shape[0]" }
// params.total = { type = "u32", value = "dst.size" }
// params.ratio = { type = "u32" }
// params.shift = { type = "f32" }
// params.spatial_scale = { type = "f32", default = 1.0, doc = "Factor of the boxes." }
// iterate = "none"
// uses = ["roi"]
// operations = "16 * dy.size * max(sampling_ratio, 1) ** 2"
// grid = "cdiv(dst.size, 256)"
// ///

// One invocation takes a pixel. For each box of its image, it finds the bins in whose samples the
// pixel may have a share: first the rows of bins, then their columns.
${roi.functions()}

// The range of places at which samples contain a share of a pixel.
fn reach(pixel: u32, size: u32) -> vec2<f32> {
  return vec2<f32>(
    select(f32(pixel) - 1.0f, -1.0f, pixel == 0u),
    select(f32(pixel) + 1.0f, f32(size), pixel + 1u >= size),
  );
}

// The bins along an axis that may have such samples.
fn near_bins(start: f32, bin: f32, bins: u32, places: vec2<f32>) -> vec2<u32> {
  if (bin <= 0.0f) { return vec2<u32>(0u, bins); }
  return vec2<u32>(
    min(u32(clamp((places.x - start) / bin - 1.0f, 0.0f, 1e9f)), bins),
    min(u32(clamp((places.y - start) / bin + 2.0f, 0.0f, 1e9f)), bins),
  );
}

// The sum, over the samples of a bin, of the pixel's share in the sample.
fn share_of(start: f32, gap: f32, samples: f32, pixel: u32, size: u32, places: vec2<f32>) -> f32 {
  let near = near_samples(start, gap, samples, places.x, places.y);
  var sum = 0.0f;
  for (var i = near.x; i < near.y; i += 1u) {
    let t = taps(start + (f32(i) + 0.5f) * gap, size);
    let share = select(0.0f, 1.0f - t.share, t.low == pixel) + select(0.0f, t.share, t.high == pixel);
    sum += select(0.0f, share, t.inside);
  }
  return sum;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  let row = i / p.width;
  let x = i - row * p.width;
  let plane = row / p.height;
  let y = row - plane * p.height;
  let n = plane / p.channels;
  let c = plane - n * p.channels;
  let above = reach(y, p.height);
  let beside = reach(x, p.width);
  var sum = 0.0f;
  for (var r = 0u; r < p.rois; r += 1u) {
    if (bitcast<u32>(index_load(p.index_off + r * p.index_rs)) != n) { continue; }
    let box = roi_of(r);
    let down = near_bins(box.start.x, box.bin.x, p.bins_y, above);
    let across = near_bins(box.start.y, box.bin.y, p.bins_x, beside);
    var part = 0.0f;
    for (var by = down.x; by < down.y; by += 1u) {
      let vertical = share_of(box.start.x + f32(by) * box.bin.x, box.gap.x, box.samples.x, y, p.height, above);
      if (vertical == 0.0f) { continue; }
      for (var bx = across.x; bx < across.y; bx += 1u) {
        let horizontal = share_of(box.start.y + f32(bx) * box.bin.y, box.gap.y, box.samples.y, x, p.width, beside);
        let g = dy_load(p.dy_off + r * p.dy_rs + c * p.dy_cs + by * p.dy_hs + bx * p.dy_ws);
        part += select(0.0f, vertical * horizontal * g, horizontal != 0.0f);
      }
    }
    sum += part / max(box.samples.x * box.samples.y, 1.0f);
  }
  dst_store(p.dst_off + n * p.dst_ns + c * p.dst_cs + y * p.dst_hs + x * p.dst_ws, sum);
}
