// /// kernel
// doc = """
// Sines and cosines of timesteps: row i of dst is cos(x[i] f[j]) for j below half, then sin(x[i] f[j]).
//
// half is D // 2 and f[j] = max_period^(-j / half); if D is odd the last column is 0. Computed in
// f32: x f is rounded, so errors grow with x f, to about |x f| 2^-22."""
// source = "ggml's TIMESTEP_EMBEDDING; Vaswani et al. 2017"
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// inputs.x = { dtype = "T", axes = "n", doc = "(N,)" }
// outputs.dst = { dtype = "D", axes = "n d", doc = "(N, D)" }
// options.max_period = { type = "float", default = 10000.0, doc = "The base of the frequencies f, above 0." }
// params.rows = { type = "u32", value = "dst.shape[0]" }
// params.cols = { type = "u32", value = "dst.shape[1]" }
// params.half = { type = "u32", value = "dst.shape[1] // 2" }
// params.decay = { type = "f32" }
// operations = "30 * dst.size"
// grid = "cdiv(dst.shape[0] * cdiv(dst.shape[1], 2), 256)"
// ///

// One invocation computes a cosine and a sine of one row, or the 0 of an odd width.
// 2^x is a polynomial of the fraction of x (interpolated at Chebyshev's points), times a power of two that
// is made from the bits of an exponent.
fn power_of_two(x: f32) -> f32 {
  let n = clamp(floor(x + 0.5f), -126.0f, 127.0f);
  let f = x - n;
  var y = 0.00015461444854736328f;
  y = y * f + 0.0013400427997112274f;
  y = y * f + 0.009618056938052177f;
  y = y * f + 0.05550327152013779f;
  y = y * f + 0.24022650718688965f;
  y = y * f + 0.6931471824645996f;
  y = y * f + 1.0f;
  return y * bitcast<f32>((i32(n) + 127) << 23u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  let pairs = (p.cols + 1u) / 2u;
  if (i >= p.rows * pairs) { return; }
  let row = i / pairs;
  let j = i - row * pairs;
  let first = p.dst_off + row * p.dst_ns;
  if (j == p.half) {
    dst_store(first + (p.cols - 1u) * p.dst_ds, 0.0f);
    return;
  }
  // The angle is a whole number of quarters of a circle, plus t in [-1/2, 1/2] of a quarter. The sine and
  // cosine of t are polynomials, interpolated at Chebyshev's points.
  let quarters = x_load(p.x_off + row * p.x_ns) * power_of_two(-f32(j) * p.decay) * 0.636619772f;
  let whole = floor(quarters + 0.5f);
  let t = quarters - whole;
  let square = t * t;
  let sine = (((-0.004602149128913879f * square + 0.07968021929264069f) * square - 0.6459634900093079f) * square
    + 1.5707963705062866f) * t;
  let cosine = (((0.0009067398495972157f * square - 0.02086152881383896f) * square + 0.253669410943985f) * square
    - 1.2337005138397217f) * square + 1.0f;
  let quarter = i32(whole - 4.0f * floor(whole * 0.25f));
  let odd = (quarter & 1) == 1;
  let a = select(cosine, sine, odd);
  let b = select(sine, cosine, odd);
  dst_store(first + j * p.dst_ds, select(a, -a, (quarter == 1) | (quarter == 2)));
  dst_store(first + (p.half + j) * p.dst_ds, select(b, -b, quarter >= 2));
}
