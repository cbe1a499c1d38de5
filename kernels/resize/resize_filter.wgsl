// /// kernel
// doc = "One direction of a resize with antialiasing: images get another number of rows, by a filter that is at least as wide as the distance between two rows."
// part_of = "resize"
// source = "PIL's Image.resize, torch.nn.functional.interpolate(antialias=True) (meaning); Keys 1981 (cubic)"
// axes.X = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.T = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.RADIUS = [1, 2]
// when = ["X == 'f32' or T == 'f32'"]
// inputs.x = { dtype = "X", doc = "(..., H, W)" }
// outputs.dst = { dtype = "T", doc = "(..., OH, W)" }
// params.height = { type = "i32", value = "x.shape[-2]" }
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.fastest = { type = "u32", doc = "Neighbouring invocations take neighbouring pixels of a row (0), of a column (1), or of images (2)" }
// params."step first unit" = { type = "u32" }
// params.reach = { type = "i32", doc = "The number of pixels on either side that the filter may reach" }
// params.narrow = { type = "f32", doc = "1 divided by the width of the filter in pixels; 1 or less" }
// iterate = "tiles"
// grid = "cdiv(dst.size, 256)"
// ///

// One invocation computes one pixel. Its row in the image is (step * row + first) / unit - 1, an exact
// fraction as in resize. Pixels at a distance below RADIUS / narrow have the filter's weights, divided by
// the sum of these weights, so pixels beyond the edge do not count.
// Bytes: dst is written once; x is read 2 RADIUS times or more, mostly from caches.

// The weight of a distance below RADIUS: a triangle, or Keys' cubic with a = -0.5.
fn weight(t: f32) -> f32 {
//% if RADIUS == 1
  return 1.0f - t;
//% else
  return select(((2.5f - 0.5f * t) * t - 4.0f) * t + 2.0f, (1.5f * t - 2.5f) * t * t + 1.0f, t < 1.0f);
//% endif
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.batches * p.rows * p.cols) { return; }
  let inner = select(select(p.cols, p.rows, p.fastest == 1u), p.batches, p.fastest == 2u);
  let middle = select(p.cols, p.rows, p.fastest == 0u);
  let outer = i / inner;
  let a = i - outer * inner;
  let c = outer / middle;
  let b = outer - c * middle;
  let batch = select(c, a, p.fastest == 2u);
  let row = select(select(b, a, p.fastest == 1u), c, p.fastest == 2u);
  let col = select(b, a, p.fastest == 0u);

  let y = row * p.step + p.first;
  let whole = y / p.unit;
  let past = f32(y - whole * p.unit) / f32(p.unit);
  let image = x_batch(batch);
  var sum = 0.0f;
  var weights = 0.0f;
  for (var j = max(i32(whole) - p.reach, 0); j < min(i32(whole) + p.reach, p.height); j++) {
    let distance = abs(f32(j + 1 - i32(whole)) - past) * p.narrow;
    if (distance < ${RADIUS}.0f) {
      let w = weight(distance);
      sum += w * x_load(x_at(image, u32(j), col));
      weights += w;
    }
  }
  dst_store(dst_at(dst_batch(batch), row, col), sum / weights);
}
