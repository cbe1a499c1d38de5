// /// kernel
// doc = "conv2d of few input channels with windows of known size; workgroup memory holds a part of the image, not windows."
// part_of = "conv2d"
// configs.16x128_k3s1 = { BM = 16, PIXEL_ROWS = 8, PIXEL_COLS = 16, threads = 128, TM = 4, K = 3, S = 1, CS = 4 }
// configs.16x128_k3s2 = { BM = 16, PIXEL_ROWS = 8, PIXEL_COLS = 16, threads = 128, TM = 4, K = 3, S = 2, CS = 2 }
// configs.16x128_k5s1 = { BM = 16, PIXEL_ROWS = 8, PIXEL_COLS = 16, threads = 128, TM = 4, K = 5, S = 1, CS = 2 }
// configs.16x128_k7s2 = { BM = 16, PIXEL_ROWS = 8, PIXEL_COLS = 16, threads = 128, TM = 4, K = 7, S = 2, CS = 1 }
// configs.32x128_k3s1 = { BM = 32, PIXEL_ROWS = 8, PIXEL_COLS = 16, threads = 128, TM = 8, K = 3, S = 1, CS = 4 }
// configs.32x128_k3s2 = { BM = 32, PIXEL_ROWS = 8, PIXEL_COLS = 16, threads = 128, TM = 8, K = 3, S = 2, CS = 2 }
// configs.32x128_k5s1 = { BM = 32, PIXEL_ROWS = 8, PIXEL_COLS = 16, threads = 128, TM = 8, K = 5, S = 1, CS = 2 }
// configs.32x128_k7s2 = { BM = 32, PIXEL_ROWS = 8, PIXEL_COLS = 16, threads = 128, TM = 8, K = 7, S = 2, CS = 1 }
// axes.A = { values = ["f32", "f16"], pick = "dtype(a)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.TILE = "configs"
// axes.DV = [1, 4]
// axes.LAST = [false, true]
// when = ["A == 'f16' or D == 'f32'", "DV == 4 or not LAST"]
// inputs.a = { dtype = "A", axes = "n g c h w", doc = "The image." }
// inputs.b = { dtype = "A", axes = "g o c h w", doc = "The weights." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", axes = "n g o h w", doc = "If DV is 4, it is in vectors of pixels, or of channels if LAST." }
// params."rows down across row_blocks row_groups image_groups group_groups images" = { type = "u32" }
// params."channels height width out_h out_w y_first x_first" = { type = "u32" }
// include epilogue
// uses = ["tile/epilogue", "tile/loader", "tile/outer_product"]
// grid = "dst.shape[1] * group_groups"
// ///

// One workgroup computes BM output channels of 8 x 16 pixels of one image. An invocation has 4
// neighbouring pixels of TM channels. A stage has up to CS input channels. It holds the taps of BM
// output channels, and each pixel of the windows once (windows have K x K taps and lie S pixels
// apart). The columns of an image row are split by their residue modulo S, so that the vectors of
// one row serve all taps of that row for every stride S. The next stage is loaded while a stage is
// multiplied.
//
// Bounds, for unchecked compilation: a load outside of the image reads the image's first pixel
// instead; rows and channels are clamped to their counts; stores are guarded; indices into
// workgroup memory are lane numbers below the sizes of the arrays.
//% set K, S, CS = CFG.K, CFG.S, CFG.CS
// The number of image rows that the pixels need, and the number of vectors of one residue in a row.
//% set IMAGE_ROWS, ROW_VECTORS = (CFG.PIXEL_ROWS - 1) * S + K, (CFG.PIXEL_COLS + (K + S - 1) // S + 2) // 4
//% set A_CHANNEL, B_CHANNEL = S * IMAGE_ROWS * ROW_VECTORS, CFG.TM * K * K
//% set A_COUNT, B_COUNT = CS * A_CHANNEL, CS * B_CHANNEL
//% set A_LOADS, B_LOADS = (A_COUNT + CFG.threads - 1) // CFG.threads, (B_COUNT + CFG.threads - 1) // CFG.threads
var<workgroup> a_tile: array<array<vec4<f32>, ${IMAGE_ROWS * ROW_VECTORS}>, ${CS * S}>;
var<workgroup> b_tile: array<array<vec4<f32>, ${CFG.TM + 1}>, ${CS * K * K}>;
${epilogue.functions(("bias",))}

// The vectors of a stage that this invocation loads: four pixels of one residue each.
//% macro a_loader_init()
  let a_start = p.a_off + group * p.a_gs + image * p.a_ns;
  let a_y = y0 * ${S}u + p.y_first;
  let a_x = x0 * ${S}u + p.x_first;
//% for u in range(A_LOADS)
  let a_i${u} = ${loader.item(u, A_COUNT, CFG.threads)};
  let a_c${u} = a_i${u} / ${A_CHANNEL}u;
  let a_f${u} = a_i${u} % ${S}u;
  let a_k${u} = a_i${u} % ${A_CHANNEL}u / ${S}u;
  let a_y${u} = a_y + a_k${u} / ${ROW_VECTORS}u;
  let a_x${u} = a_x + a_k${u} % ${ROW_VECTORS}u * ${4 * S}u + a_f${u};
//% for e in range(4)
  let a_ok${u}${e} = (a_y${u} < p.height) & (a_x${u} + ${e * S}u < p.width);
  let a_at${u}${e} = a_start + select(0u, a_y${u} * p.a_hs + (a_x${u} + ${e * S}u) * p.a_ws, a_ok${u}${e});
  var a_v${u}${e}: ${A};
//% endfor
//% endfor
//% endmacro

// The vectors of the weights that this invocation loads; each has four output channels at one tap.
//% macro b_loader_init()
  let b_start = p.b_off + group * p.b_gs;
//% for u in range(B_LOADS)
  let b_n${u} = ${loader.item(u, B_COUNT, CFG.threads)};
  let b_c${u} = b_n${u} / ${B_CHANNEL}u;
  let b_i${u} = b_n${u} % ${B_CHANNEL}u / ${K * K}u;
  let b_k${u} = b_n${u} % ${K * K}u;
//% for e in range(4)
  let b_at${u}${e} = b_start + (b_k${u} / ${K}u) * p.b_hs + (b_k${u} % ${K}u) * p.b_ws + min(row0 + b_i${u} * 4u + ${e}u, p.rows - 1u) * p.b_os;
  var b_v${u}${e}: ${A};
//% endfor
//% endfor
//% if CS > 1
  var channel = 0u;
//% else
  var a_pos = 0u;
  var b_pos = 0u;
//% endif
//% endmacro

//% macro load_next()
//% for x, count in (("a", A_LOADS), ("b", B_LOADS))
//% for u in range(count)
//% set pos = "min(channel + " ~ x ~ "_c" ~ u ~ ", p.channels - 1u) * p." ~ x ~ "_cs" if CS > 1 else x ~ "_pos"
    {
      let pos = ${pos};
//% for e in range(4)
      ${x}_v${u}${e} = ${x}_mem[${x}_at${u}${e} + pos];
//% endfor
    }
//% endfor
//% endfor
//% if CS > 1
    channel += ${CS}u;
//% else
    a_pos += p.a_cs;
    b_pos += p.b_cs;
//% endif
//% endmacro

//% macro store_stage()
//% for u in range(A_LOADS)
    ${loader.if_item(u, A_COUNT, CFG.threads)}
      a_tile[a_c${u} * ${S}u + a_f${u}][a_k${u}] = select(
        vec4<f32>(), vec4<f32>(vec4(a_v${u}0, a_v${u}1, a_v${u}2, a_v${u}3)), vec4<bool>(a_ok${u}0, a_ok${u}1, a_ok${u}2, a_ok${u}3),
      );
    }
//% endfor
//% for u in range(B_LOADS)
    ${loader.if_item(u, B_COUNT, CFG.threads)}
      b_tile[b_c${u} * ${K * K}u + b_k${u}][b_i${u}] = vec4<f32>(vec4(b_v${u}0, b_v${u}1, b_v${u}2, b_v${u}3));
    }
//% endfor
//% endmacro

// Adds the products of tap row i of the stage's channel `s`.
//% macro multiply(s, i)
      {
//% for f in range(S)
//% for v in range((4 + (K - f + S - 1) // S + 2) // 4)
        let q${f}_${v} = a_tile[${s * S + f}][at_px + ${i * ROW_VECTORS + v}u];
//% endfor
//% endfor
//% for j in range(K)
//% for o in range(CFG.TM // 4)
        let r${j}_${o} = b_tile[${(s * K + i) * K + j}][at_row + ${4 * o}u];
//% endfor
        let x${j} = ${outer_product.neighbours("q" ~ j % S, j // S)};
//% for o in range(CFG.TM)
        c${o}_0 = fma(vec4<f32>(r${j}_${o // 4}[${o % 4}]), x${j}, c${o}_0);
//% endfor
//% endfor
      }
//% endmacro

//% macro store_tile()
  let y = y0 + py;
  let x = x0 + px * 4u;
  if (y < p.out_h) {
//% if LAST
    let at = p.dst_off + image * p.dst_ns + channel0 / 4u + y * p.dst_hs;
//% for o in range(CFG.TM // 4)
    {
      let row = row0 + (at_row + ${4 * o}u) * 4u;
//% for e in range(4)
      if ((row < p.rows) & (x + ${e}u < p.out_w)) { dst_store(at + (x + ${e}u) * p.dst_ws + row / 4u, ${epilogue.column_vector(o, 0, e)}); }
//% endfor
    }
//% endfor
//% else
    let at = p.dst_off + image * p.dst_ns + channel0 * p.dst_os + y * p.dst_hs;
//% for o in range(CFG.TM)
    {
      let row = row0 + (at_row + ${o // 4 * 4}u) * 4u + ${o % 4}u;
//% if DV == 4
      if ((row < p.rows) & (x < p.out_w)) { dst_store(at + row * p.dst_os + x / 4u, c${o}_0); }
//% else
//% for e in range(4)
      if ((row < p.rows) & (x + ${e}u < p.out_w)) { dst_store(at + row * p.dst_os + (x + ${e}u) * p.dst_ws, c${o}_0[${e}]); }
//% endfor
//% endif
    }
//% endfor
//% endif
  }
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  // The digits of g: (group, image, row of blocks, block, channels). The quotients do not depend on
  // each other.
  let block = g / p.down;
  let block_row = g / p.row_groups;
  let picture = g / p.image_groups;
  let group = g / p.group_groups;
  let row0 = (g - block * p.down) * ${CFG.BM}u;
  let x0 = (block - block_row * p.across) * ${CFG.PIXEL_COLS}u;
  let y0 = (block_row - picture * p.row_blocks) * ${CFG.PIXEL_ROWS}u;
  let image = picture - group * p.images;

  ${a_loader_init()}
  ${b_loader_init()}
  ${load_next()}

  // Four neighbouring invocations use two vectors of the weights and two of the image.
  let at_row = (li & 1u) | ((li >> 1u) & 2u);
  let strip = ((li >> 1u) & 1u) | ((li >> 3u) << 1u);
  let px = strip & 3u;
  let py = strip >> 2u;
  let at_px = py * ${S * ROW_VECTORS}u + px;
  ${outer_product.accumulators(CFG.TM, 4)}
  for (var left = p.channels; left > 0u; left -= min(left, ${CS}u)) {
    workgroupBarrier();  // the last stage has been read
    ${store_stage()}
    workgroupBarrier();
    if (left > ${CS}u) {
      ${load_next()}
    }
//% for s in range(CS)
    ${"{" if s == 0 else "if (left > " ~ s ~ "u) {"}
//% for i in range(K)
      ${multiply(s, i)}
//% endfor
    }
//% endfor
  }

  let channel0 = group * p.rows;
  ${epilogue.of_channels(CFG.TM, 4, 4)}
  ${store_tile()}
}
