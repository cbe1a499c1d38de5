// The samples of bins of boxes in an image. Pairs are (y, x).

//% macro functions()
struct Roi { start: vec2<f32>, bin: vec2<f32>, samples: vec2<f32>, gap: vec2<f32> };

// A box as bins of samples; neighbouring samples are `gap` apart.
fn roi_of(r: u32) -> Roi {
  let at = p.boxes_off + r * p.boxes_rs;
  let first = vec2<f32>(boxes_load(at + p.boxes_ps), boxes_load(at)) * p.spatial_scale - p.shift;
  let last = vec2<f32>(boxes_load(at + 3u * p.boxes_ps), boxes_load(at + 2u * p.boxes_ps))
    * p.spatial_scale - p.shift;
  var size = last - first;
  if (p.shift == 0.0f) { size = max(size, vec2<f32>(1.0f)); }
  let bin = size / vec2<f32>(f32(p.bins_y), f32(p.bins_x));
  var samples = max(ceil(bin), vec2<f32>(0.0f));
  if (p.ratio > 0u) { samples = vec2<f32>(f32(p.ratio)); }
  return Roi(first, bin, samples, bin / max(samples, vec2<f32>(1.0f)));
}

// The samples of a bin (which begins at `start`) whose places may lie from lo to hi. Component x of
// the result is the number of the first sample, component y the number after the last. Without a
// ratio the samples are at most one pixel apart and, if there are several, more than half a pixel;
// so the loop is at most three times as long as the range, whatever the box is.
fn near_samples(start: f32, gap: f32, samples: f32, lo: f32, hi: f32) -> vec2<u32> {
  if (p.ratio > 0u) { return vec2<u32>(0u, p.ratio); }
  let count = u32(clamp(samples, 0.0f, 1e9f));
  let first = min(u32(clamp((lo - start) / gap - 1.5f, 0.0f, 1e9f)), count);
  let most = 3u * u32(hi - lo) + 8u;
  let end = min(u32(clamp((hi - start) / gap + 1.5f, 0.0f, 1e9f)), count);
  return vec2<u32>(first, min(end, first + most));
}

struct Taps { low: u32, high: u32, share: f32, inside: bool };

// The two pixels beside a place, the share of the second pixel, and whether the place is in the
// image.
fn taps(place: f32, size: u32) -> Taps {
  let inside = (place >= -1.0f) & (place <= f32(size));
  let at = clamp(place, 0.0f, f32(size - 1u));
  let low = min(u32(at), size - 1u);
  return Taps(low, min(low + 1u, size - 1u), at - f32(low), inside);
}
//% endmacro
