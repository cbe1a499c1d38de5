// /// kernel
// doc = """
// Images of another size: x (..., H, W) sampled at the pixels of dst (..., OH, OW), computed in f32.
//
// `mode` "nearest" takes the pixel next to a position, "linear" two pixels in each direction, "cubic" four
// (Keys' function with a = -0.75); beyond the edge the pixel at the edge repeats. `coordinates` gives the
// position of row i (of columns likewise): "half_pixel" (i + 1/2) H / OH - 1/2; "pytorch_half_pixel" the
// same, but 0 if OH is 1; "asymmetric" i H / OH; "align_corners" i (H - 1) / (OH - 1), or 0 if OH is 1.
// `nearest` says how mode "nearest" rounds a position to a pixel. Positions are exact fractions: 4 H OH
// and 4 W OW must be below 2^32.
//
// With `antialias` the filter of "linear" is a triangle, and of "cubic" Keys' function with a = -0.5. If an
// axis shrinks, the filter is wider by the same factor, and pixels beyond the edge do not count."""
// source = "ONNX Resize, torch.nn.functional.interpolate (meaning); Keys 1981 (cubic)"
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.TAPS = [1, 2, 4]
// axes.V = { values = [1, 4], pick = "4 if dst.vectorizable(4) else 1" }
// inputs.x = { dtype = "T", doc = "(..., H, W)" }
// outputs.dst = { dtype = "T", vec = "V", doc = "(..., OH, OW)" }
// options.mode = { type = "Literal['nearest', 'linear', 'cubic']", default = "linear", doc = "How pixels are sampled." }
// options.coordinates = { type = "Literal['half_pixel', 'pytorch_half_pixel', 'asymmetric', 'align_corners']", default = "half_pixel", doc = "The positions of pixels." }
// options.nearest = { type = "Literal['round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil']", default = "round_prefer_floor", doc = "How mode 'nearest' rounds." }
// options.antialias = { type = "bool", default = false, doc = "True widens the filter if an axis shrinks; not for mode 'nearest'." }
// params.height = { type = "u32", value = "x.shape[-2]" }
// params.width = { type = "u32", value = "x.shape[-1]" }
// params.rows = { type = "u32", value = "dst.shape[-2]" }
// params.cols = { type = "u32", value = "dst.shape[-1]" }
// params.quads = { type = "u32", value = "cdiv(dst.shape[-1], 4)" }
// params."batches_first row_step row_first row_unit col_step col_first col_unit" = { type = "u32" }
// params."col_whole col_rest" = { type = "u32" }
// iterate = "tiles"
// operations = "dst.size * (1 if mode == 'nearest' else 6 if mode == 'linear' else 40)"
// grid = "cdiv(it.batches * dst.shape[-2] * cdiv(dst.shape[-1], 4), 256)"
// ///

// One invocation computes four neighbouring elements of a row. The position of row or column i is
// the fraction (step * i + first) / unit. This number is one larger than the position in the image,
// so that it is never negative. From one column to the next, the whole part and the remainder of
// the position advance without a division. Neighbouring invocations take neighbouring columns, or
// neighbouring images if images are neighbours in memory (batches_first). Bytes: each element of
// dst is written once; each element of x is read once if the caches hold repeated elements.

//% macro pixel(first, tap, size)
u32(clamp(i32(${first}) - 1 + ${tap if TAPS < 4 else tap - 1}, 0, i32(${size}) - 1))
//% endmacro

//% if TAPS == 4
// The weights, by Keys' function, of the pixels at distances 1 + t, t, 1 - t and 2 - t.
fn weights(t: f32) -> vec4<f32> {
  let s = 1.0f - t;
  return vec4<f32>(
    -0.75f * t * s * s, (1.25f * t - 2.25f) * t * t + 1.0f, (1.25f * s - 2.25f) * s * s + 1.0f, -0.75f * s * t * t,
  );
}
//% elif TAPS == 2
fn weights(t: f32) -> vec2<f32> { return vec2<f32>(1.0f - t, t); }
//% endif

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.batches * p.rows * p.quads) { return; }
  let inner = select(p.quads, p.batches, p.batches_first == 1u);
  let outer = i / inner;
  let a = i - outer * inner;
  let middle = select(p.rows, p.quads, p.batches_first == 1u);
  let c = outer / middle;
  let b = outer - c * middle;
  let batch = select(c, a, p.batches_first == 1u);
  let quad = select(a, b, p.batches_first == 1u);
  let row = select(b, c, p.batches_first == 1u);

  let y = row * p.row_step + p.row_first;
  let whole_y = y / p.row_unit;
  let x = 4u * quad * p.col_step + p.col_first;
  let whole_x0 = x / p.col_unit;
  let rest_x0 = x - whole_x0 * p.col_unit;
//% for k in range(1, 4)
  let sum_x${k} = rest_x${k - 1} + p.col_rest;
  let over_x${k} = sum_x${k} >= p.col_unit;
  let rest_x${k} = sum_x${k} - select(0u, p.col_unit, over_x${k});
  let whole_x${k} = whole_x${k - 1} + p.col_whole + select(0u, 1u, over_x${k});
//% endfor
  let image = x_batch(batch);
//% for j in range(TAPS)
  let row${j} = x_at(image, ${pixel("whole_y", j, "p.height")}, 0u);
//% endfor
//% for k in range(4)
//% for h in range(TAPS)
  let at${k}${h} = ${pixel("whole_x" ~ k, h, "p.width")} * p.x_cs;
//% endfor
//% endfor
  // All loads come first.
//% for k in range(4)
//% for j in range(TAPS)
//% for h in range(TAPS)
  let v${k}${j}${h} = x_load(row${j} + at${k}${h});
//% endfor
//% endfor
//% endfor
//% if TAPS > 1
  let wy = weights(f32(y - whole_y * p.row_unit) / f32(p.row_unit));
//% for k in range(4)
  let wx${k} = weights(f32(rest_x${k}) / f32(p.col_unit));
//% for j in range(TAPS)
//% if TAPS == 2
  let s${k}${j} = v${k}${j}0 * wx${k}.x + v${k}${j}1 * wx${k}.y;
//% else
  let s${k}${j} = dot(vec4<f32>(v${k}${j}0, v${k}${j}1, v${k}${j}2, v${k}${j}3), wx${k});
//% endif
//% endfor
//% if TAPS == 2
  let r${k} = s${k}0 * wy.x + s${k}1 * wy.y;
//% else
  let r${k} = dot(vec4<f32>(s${k}0, s${k}1, s${k}2, s${k}3), wy);
//% endif
//% endfor
//% else
//% for k in range(4)
  let r${k} = v${k}00;
//% endfor
//% endif
  let there = dst_batch(batch);
//% if V == 4
  dst_store(dst_at(there, row, quad), vec4<f32>(r0, r1, r2, r3));
//% else
//% for k in range(4)
  if (4u * quad + ${k}u < p.cols) { dst_store(dst_at(there, row, 4u * quad + ${k}u), r${k}); }
//% endfor
//% endif
}
