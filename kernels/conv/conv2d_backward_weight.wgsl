// /// kernel
// doc = """
// The gradient of conv2d's weights.
//
// dst[o, c, i, j] is the sum over images n and pixels (y, x') of dy[n, o, y, x'] x[n, c, y s + i d
// - top, x' s + j d - left].
//
// dst has the shape of conv2d's w; x and the options are the same as in the forward call. Sums are
// f32, and their order depends only on shapes, strides and device; x counts as 0 outside of the
// image."""
// source = "torch.nn.grad.conv2d_weight (meaning); Chellapilla et al. 2006 (as a product)"
// configs.32x32 = { BM = 32, BN = 32, BK = 16, threads = 64, TM = 4, TN = 4, LM = 4, LN = 8, PAD = 4 }
// configs.64x64 = { BM = 64, BN = 64, BK = 16, threads = 128, TM = 8, TN = 4, LM = 4, LN = 8, PAD = 4 }
// configs.64x128 = { BM = 64, BN = 128, BK = 16, threads = 128, TM = 8, TN = 8, LM = 4, LN = 8, PAD = 4 }
// axes.Y = { values = ["f32", "f16"], pick = "dtype(dy)" }
// axes.X = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.TILE = "configs"
// axes.FORM = ["any", "fours"]
// axes."XV YV" = [1, 4]
// when = [
//   "X == Y and (X == 'f16' or D == 'f32')",
//   "FORM == 'fours' or (XV == 1 and TILE != '64x128')",
// ]
// inputs.dy = { dtype = "Y", vec = "YV", axes = "n g o h w", doc = "(N, O, OH, OW)" }
// inputs.x = { dtype = "X", vec = "XV", axes = "n g c h w", doc = "(N, C, H, W)" }
// outputs.dst = { dtype = "D", axes = "s g o c h w", doc = "(O, C / groups, KH, KW)" }
// options.stride = { type = "int | tuple[int, int]", default = 1, doc = "Distance between windows." }
// options.padding = { type = "int | tuple[int, int] | tuple[int, int, int, int] | Literal['same', 'valid']", default = 0, doc = "Rows and columns of zeros around x." }
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Distance between taps." }
// options.groups = { type = "int", default = 1, doc = "The number of groups; an output channel reads only the input channels of its own group." }
// options.layout = { type = "Literal['NCHW', 'NHWC']", default = "NCHW", doc = "Axes of dy and x." }
// params."rows cols channels kernel_w depth split_depth members across down" = { type = "u32" }
// include pixels
// include windows
// params."tap_h tap_w is_partial" = { type = "u32" }
// params.scale = { type = "f32", default = 1.0, doc = "Factor of the sums." }
// operations = "2 * dy.size * dst.shape[1] * dst.shape[2] * dst.shape[3]"
// uses = ["tile/outer_product", "tile/split_k", "pixels"]
// grid = "cdiv(depth, split_depth) * members * across * down"
// ///

// A matrix product over the pixels k of all images. Its rows are output channels, its columns taps and
// channels of a window: column tap * channels + channel; in form "fours" four neighbouring columns are
// channels of one tap. One workgroup computes BM x BN sums of one group over one split of k, from
// tiles of depth BK in workgroup memory; meanwhile the next tiles are loaded into registers.
//
// Neighbouring invocations load neighbouring pixels (or channels of one pixel, if channels are read as
// vectors), so they store to different rows of the tiles. A row has four unused floats at its end, so
// that these stores do not fall on one bank.
//
// Bounds, for unchecked compilation: rows and columns are clamped to their counts; an index of x
// outside of the image is replaced by the index of the first pixel; k stays below `k_prologue` in
// the first tile and below the split's end in the others; stores are guarded; indices into
// workgroup memory are lane numbers below the sizes of the arrays.
//% set PER = CFG.threads // CFG.BK
//% set X_LOADS = CFG.BN // 4 // PER
//% set Y_LOADS = CFG.BM // 4 // PER
//% set FOURS = FORM == "fours"
//% set X_COLUMNS = 1 if FOURS else 4

// The first positions of this invocation's rows of dy, and of the windows of its columns of x.
//% macro loader_init()
//% if XV == 4
  let lane_k = li / ${PER}u;
  let lane_i = li % ${PER}u;
//% else
  let lane_k = li & 15u;
  let lane_i = li >> 4u;
//% endif

  let x_start = p.x_off + member * p.x_gs;
  let dy_start = p.dy_off + member * p.dy_gs;
//% for u in range(X_LOADS)
//% for e in range(X_COLUMNS)
//% set n = u if FOURS else u ~ "_" ~ e
  let m${n} = min(col0 + (lane_i + ${u * PER}u) * 4u + ${e}u, p.cols - ${4 if FOURS else 1}u);
  let tap${n} = m${n} / p.channels;
  let tap_i${n} = tap${n} / p.kernel_w;
  let x_y${n} = tap_i${n} * p.tap_h + p.y_first;
  let x_x${n} = (tap${n} - tap_i${n} * p.kernel_w) * p.tap_w + p.x_first;
  let x_from${n} = x_start + (m${n} - tap${n} * p.channels)${" / 4u" if XV == 4 else " * p.x_cs"} + x_y${n} * p.x_hs + x_x${n} * p.x_ws;
//% endfor
//% endfor
//% for u in range(Y_LOADS)
//% if YV == 4
  let dy_from${u} = dy_start + min((row0 >> 2u) + lane_i + ${u * PER}u, p.rows / 4u - 1u);
//% else
//% for e in range(4)
  let dy_from${u}_${e} = dy_start + min(row0 + (lane_i + ${u * PER}u) * 4u + ${e}u, p.rows - 1u) * p.dy_os;
//% endfor
//% endif
//% endfor
//% endmacro

// Loads at the pixel `at`; where the window reaches out of the image, x is loaded at its first pixel.
//% macro load_next(var="")
//% set end = "0" if var else ""
  let row_y${end} = at.y * p.stride_h;
  let row_x${end} = at.x * p.stride_w;
  let x_at${end} = at.z * p.x_ns + row_y${end} * p.x_hs + row_x${end} * p.x_ws;
  let dy_at${end} = at.z * p.dy_ns + at.y * p.dy_hs + at.x * p.dy_ws;
//% for u in range(X_LOADS)
//% if FOURS
  ${var}ok${u} = (x_y${u} + row_y${end} < p.height) & (x_x${u} + row_x${end} < p.width);
  let x_i${u}${end} = select(x_start, x_from${u} + x_at${end}, ok${u});
//% if XV == 4
  ${var}x_v${u} = x_mem[x_i${u}${end}];
//% else
//% for e in range(4)
  ${var}x_v${u}_${e} = x_mem[x_i${u}${end} + ${e}u * p.x_cs];
//% endfor
//% endif
//% else
//% for e in range(4)
  ${var}ok${u}_${e} = (x_y${u}_${e} + row_y${end} < p.height) & (x_x${u}_${e} + row_x${end} < p.width);
  ${var}x_v${u}_${e} = x_mem[select(x_start, x_from${u}_${e} + x_at${end}, ok${u}_${e})];
//% endfor
//% endif
//% endfor
//% for u in range(Y_LOADS)
//% if YV == 4
  ${var}dy_v${u} = dy_mem[dy_from${u} + dy_at${end}];
//% else
//% for e in range(4)
  ${var}dy_v${u}_${e} = dy_mem[dy_from${u}_${e} + dy_at${end}];
//% endfor
//% endif
//% endfor
//% endmacro

// Loads the first tile, which holds `k_prologue` steps of k and zeros beyond; the other tiles hold
// BK steps.
//% macro load_prologue()
  let within = lane_k < k_prologue;
  var at = pixel(k_first + min(lane_k, k_prologue - 1u));
  ${load_next("var ")}
//% for u in range(X_LOADS)
//% for e in range(X_COLUMNS)
//% set n = u if FOURS else u ~ "_" ~ e
  ok${n} = ok${n} & within;
//% endfor
//% endfor
//% for u in range(Y_LOADS)
//% if YV == 4
  dy_v${u} = select(vec4<Y>(), dy_v${u}, within);
//% else
//% for e in range(4)
  dy_v${u}_${e} = select(Y(), dy_v${u}_${e}, within);
//% endfor
//% endif
//% endfor
  at = pixel(k_first + k_prologue + lane_k);
//% endmacro

//% macro store_stage()
//% for u in range(X_LOADS)
    a_tile[lane_k][lane_i + ${u * PER}u] = select(
      vec4<f32>(),
//% if XV == 4
      vec4<f32>(x_v${u}),
//% else
      vec4<f32>(vec4(x_v${u}_0, x_v${u}_1, x_v${u}_2, x_v${u}_3)),
//% endif
//% if FOURS
      ok${u},
//% else
      vec4<bool>(ok${u}_0, ok${u}_1, ok${u}_2, ok${u}_3),
//% endif
    );
//% endfor
//% for u in range(Y_LOADS)
//% if YV == 4
    b_tile[lane_k][lane_i + ${u * PER}u] = vec4<f32>(dy_v${u});
//% else
    b_tile[lane_k][lane_i + ${u * PER}u] = vec4<f32>(vec4(dy_v${u}_0, dy_v${u}_1, dy_v${u}_2, dy_v${u}_3));
//% endif
//% endfor
//% endmacro

// Scales and stores the sums, weight by weight.
//% macro store_tile()
  let factor = select(p.scale, 1.0f, p.is_partial == 1u);
  let dst_start = p.dst_off + split * p.dst_ss + member * p.dst_gs;
//% for j in range(CFG.TN // 4)
//% for e in range(4)
  {
    let m = col0 + (at_col + ${j * CFG.LN}u) * 4u + ${e}u;
    let tap = m / p.channels;
    let tap_i = tap / p.kernel_w;
    let to = dst_start + (m - tap * p.channels) * p.dst_cs + tap_i * p.dst_hs + (tap - tap_i * p.kernel_w) * p.dst_ws;
    if (m < p.cols) {
//% for i in range(CFG.TM)
      let o${i} = row0 + (at_row + ${i // 4 * CFG.LM}u) * 4u + ${i % 4}u;
      if (o${i} < p.rows) { dst_store(to + o${i} * p.dst_os, c${i}_${j}[${e}] * factor); }
//% endfor
    }
  }
//% endfor
//% endfor
//% endmacro

${outer_product.memory(CFG.BM + CFG.PAD, CFG.BN + CFG.PAD, CFG.BK)}
${pixels.functions()}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  // Workgroups of one split follow each other, because they share its pixels in the cache.
  let part = g / (p.across * p.down);
  let t = g - part * p.across * p.down;
  let row0 = (t / p.across) * ${CFG.BM}u;
  let col0 = (t % p.across) * ${CFG.BN}u;
  let split = part / p.members;
  let member = part - split * p.members;
  ${split_k.k_range("split")}
  ${split_k.prologue()}

  ${loader_init()}
  ${load_prologue()}

  ${outer_product.lane_layout(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BN)}
  ${outer_product.accumulators(CFG.TM, CFG.TN)}
  for (var left = (k_count + 15u) >> 4u; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
    ${store_stage()}
    workgroupBarrier();
    if (left > 1u) {
      ${load_next()}
      at = next_pixel(at);
    }
    ${outer_product.multiply(CFG.TM, CFG.TN, CFG.LM, CFG.LN, CFG.BK)}
  }
  ${store_tile()}
}
