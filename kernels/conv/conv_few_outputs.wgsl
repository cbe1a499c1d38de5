// /// kernel
// doc = "The transpose of a conv2d of stride 2 whose image has three channels; one invocation computes pixels of all four residues modulo the stride."
// part_of = "conv2d_backward_input"
// configs.taps3 = { K = 3, SX = 4, SY = 8, SPLIT = 4, threads = 128 }
// configs.taps4 = { K = 4, SX = 4, SY = 8, SPLIT = 4, threads = 128 }
// configs.taps7 = { K = 7, SX = 4, SY = 8, SPLIT = 4, threads = 128 }
// axes.A = { values = ["f32", "f16"], pick = "dtype(a)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.KERNEL = "configs"
// axes.DV = [1, 4]
// when = ["A == 'f16' or D == 'f32'"]
// inputs.a = { dtype = "A", axes = "n g c h w", doc = "The gradient of the output." }
// inputs.b = { dtype = "A", axes = "g o c h w", doc = "The weights." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", axes = "n g o h w", doc = "If DV is 4, it is in vectors of pixels." }
// params."across row_blocks image_groups group_groups images channels height width" = { type = "u32" }
// params."out_h out_w y_first x_first" = { type = "u32" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// params.activation = { type = "u32" }
// params.scale = { type = "f32", arg = true }
// uses = ["tile/epilogue", "tile/loader", "tile/outer_product"]
// grid = "dst.shape[1] * group_groups"
// ///

// One workgroup computes 2 SY rows of 8 SX pixels of the three channels of one image. An invocation
// has 2 x 8 of these pixels: four neighbours of each residue. Its sums are over channels of `a`;
// the weights of one channel serve all of its pixels. The invocations form SPLIT parts, and each
// part has its own channels: a stage is SPLIT channels. At the end the sums of the parts are added
// in workgroup memory, in order.
//
// The padding before the image is odd, so pixel 2 q + r of an axis is a sum over t: tap 2 t + 1 - r
// times row q + r - t of `a`, counted from the row of pixel 0. Both residues together need OFFSETS
// rows.
//
// Bounds, for unchecked compilation: a load outside of the image reads the image's first pixel
// instead; channels are clamped to their count; stores are guarded; indices into workgroup memory
// are lane numbers below the sizes of the arrays.
//% set K = CFG.K
//% set BACK, OFFSETS, TAPS = K // 2 - 1, K // 2 + 1, 3 * K * K
//% set IMAGE_ROWS, ROW_VECTORS = CFG.SY + OFFSETS - 1, (CFG.SX * 4 + OFFSETS + 2) // 4
//% set A_CHANNEL, B_CHANNEL = IMAGE_ROWS * ROW_VECTORS, (TAPS + 3) // 4
//% set A_COUNT, B_COUNT = CFG.SPLIT * A_CHANNEL, CFG.SPLIT * B_CHANNEL
//% set A_LOADS, B_LOADS = (A_COUNT + CFG.threads - 1) // CFG.threads, (B_COUNT + CFG.threads - 1) // CFG.threads
var<workgroup> a_tile: array<array<vec4<f32>, ${A_CHANNEL}>, ${CFG.SPLIT}>;
var<workgroup> b_tile: array<array<vec4<f32>, ${B_CHANNEL}>, ${CFG.SPLIT}>;
var<workgroup> parts: array<array<vec4<f32>, ${CFG.threads}>, 4>;
${epilogue.functions(("bias",))}

// The vectors of a stage that this invocation loads: four neighbouring pixels each.
//% macro a_loader_init()
  let a_start = p.a_off + group * p.a_gs + image * p.a_ns;
//% for u in range(A_LOADS)
  let a_i${u} = ${loader.item(u, A_COUNT, CFG.threads)};
  let a_c${u} = a_i${u} / ${A_CHANNEL}u;
  let a_k${u} = a_i${u} % ${A_CHANNEL}u;
  let a_y${u} = y0 + p.y_first + a_k${u} / ${ROW_VECTORS}u;
  let a_x${u} = x0 + p.x_first + a_k${u} % ${ROW_VECTORS}u * 4u;
  var a_in${u}: bool;
//% for e in range(4)
  let a_ok${u}${e} = (a_y${u} < p.height) & (a_x${u} + ${e}u < p.width);
  let a_at${u}${e} = a_start + select(0u, a_y${u} * p.a_hs + (a_x${u} + ${e}u) * p.a_ws, a_ok${u}${e});
  var a_v${u}${e}: ${A};
//% endfor
//% endfor
//% endmacro

// The vectors of the weights that this invocation loads; each has four neighbouring taps of all
// three channels.
//% macro b_loader_init()
  let b_start = p.b_off + group * p.b_gs;
//% for u in range(B_LOADS)
  let b_i${u} = ${loader.item(u, B_COUNT, CFG.threads)};
  let b_c${u} = b_i${u} / ${B_CHANNEL}u;
  let b_k${u} = b_i${u} % ${B_CHANNEL}u;
  var b_in${u}: bool;
//% for e in range(4)
  let b_t${u}${e} = min(b_k${u} * 4u + ${e}u, ${TAPS - 1}u);
  let b_at${u}${e} = b_start + (b_t${u}${e} / ${K * K}u) * p.b_os + (b_t${u}${e} / ${K}u % ${K}u) * p.b_hs + (b_t${u}${e} % ${K}u) * p.b_ws;
  var b_v${u}${e}: ${A};
//% endfor
//% endfor
//% endmacro

// Loads the stage of the channels from `first` on; channels beyond the last are zeros.
//% macro load_next()
//% for x, count in (("a", A_LOADS), ("b", B_LOADS))
//% for u in range(count)
    {
      let channel = first + ${x}_c${u};
      let pos = min(channel, p.channels - 1u) * p.${x}_cs;
      ${x}_in${u} = channel < p.channels;
//% for e in range(4)
      ${x}_v${u}${e} = ${x}_mem[${x}_at${u}${e} + pos];
//% endfor
    }
//% endfor
//% endfor
//% endmacro

//% macro store_stage()
//% for u in range(A_LOADS)
    ${loader.if_item(u, A_COUNT, CFG.threads)}
      a_tile[a_c${u}][a_k${u}] = select(
        vec4<f32>(), vec4<f32>(vec4(a_v${u}0, a_v${u}1, a_v${u}2, a_v${u}3)),
        vec4<bool>(a_ok${u}0, a_ok${u}1, a_ok${u}2, a_ok${u}3) & vec4<bool>(a_in${u}),
      );
    }
//% endfor
//% for u in range(B_LOADS)
    ${loader.if_item(u, B_COUNT, CFG.threads)}
      b_tile[b_c${u}][b_k${u}] = select(vec4<f32>(), vec4<f32>(vec4(b_v${u}0, b_v${u}1, b_v${u}2, b_v${u}3)), b_in${u});
    }
//% endfor
//% endmacro

// Adds the products of one row of the image with all taps that use this row, residue by residue.
//% macro multiply(d)
    let q${d}_0 = a_tile[part][at + ${d * ROW_VECTORS}u];
    let q${d}_1 = a_tile[part][at + ${d * ROW_VECTORS + 1}u];
//% for h in range(OFFSETS)
    let x${d}_${h} = ${outer_product.neighbours("q" ~ d, h)};
//% endfor
//% for ry in range(2)
//% for rx in range(2)
//% for h in range(OFFSETS)
//% set i, j = 1 - ry + 2 * (ry - d + BACK), 1 - rx + 2 * (rx - h + BACK)
//% if 0 <= i < K and 0 <= j < K
//% for o in range(3)
//% set n = o * K * K + i * K + j
    c${o}_${2 * ry + rx} = fma(vec4<f32>(w${n // 4}[${n % 4}]), x${d}_${h}, c${o}_${2 * ry + rx});
//% endfor
//% endif
//% endfor
//% endfor
//% endfor
//% endmacro

// Adds up the sums of all parts for channel o and stores them with the epilogue; each part finishes half
// a row of its strips.
//% macro combine_and_store(o)
  workgroupBarrier();
//% for r in range(4)
  parts[${r}][li] = c${o}_${r};
//% endfor
  workgroupBarrier();
  {
    var even = vec4<f32>();
    var odd = vec4<f32>();
//% for s in range(CFG.SPLIT)
    even += parts[2u * ry][strip + ${s * CFG.threads // CFG.SPLIT}u];
    odd += parts[2u * ry + 1u][strip + ${s * CFG.threads // CFG.SPLIT}u];
//% endfor
    let low = select(even.xy, even.zw, right);
    let high = select(odd.xy, odd.zw, right);
    var v = vec4<f32>(low.x, high.x, low.y, high.y) * p.scale;
    let channel = group * 3u + ${o}u;
    if (p.bias_kind != 0u) { v += bias_value(p.bias_off + channel * p.bias_os); }
    if (p.activation != 0u) { v = activate(v, p.activation); }
    let to = dst_start + channel * p.dst_os;
//% if DV == 4
    if ((y < p.out_h) & (x < p.out_w)) { dst_store(to + x / 4u, v); }
//% else
//% for e in range(4)
    if ((y < p.out_h) & (x + ${e}u < p.out_w)) { dst_store(to + (x + ${e}u) * p.dst_ws, v[${e}]); }
//% endfor
//% endif
  }
//% endmacro

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  // (group, image, row of blocks, block)
  let block_row = g / p.across;
  let picture = g / p.image_groups;
  let group = g / p.group_groups;
  let x0 = (g - block_row * p.across) * ${CFG.SX * 4}u;
  let y0 = (block_row - picture * p.row_blocks) * ${CFG.SY}u;
  let image = picture - group * p.images;

  ${a_loader_init()}
  ${b_loader_init()}
  var first = 0u;
  ${load_next()}

  let part = li / ${CFG.threads // CFG.SPLIT}u;
  let strip = li % ${CFG.threads // CFG.SPLIT}u;
  let px = strip % ${CFG.SX}u;
  let py = strip / ${CFG.SX}u;
  let at = py * ${ROW_VECTORS}u + px;
// The sums of channel o and of the residues ry, rx.
//% for o in range(3)
//% for r in range(4)
  var c${o}_${r} = vec4<f32>();
//% endfor
//% endfor
  loop {
    workgroupBarrier();  // the last stage has been read
    ${store_stage()}
    workgroupBarrier();
    first += ${CFG.SPLIT}u;
    if (first < p.channels) {
      ${load_next()}
    }
//% for v in range(B_CHANNEL)
    let w${v} = b_tile[part][${v}];
//% endfor
//% for d in range(OFFSETS)
    ${multiply(d)}
//% endfor
    if (first >= p.channels) { break; }
  }

  let ry = part >> 1u;
  let right = (part & 1u) == 1u;
  let y = 2u * (y0 + py) + ry;
  let x = 2u * (x0 + 4u * px) + select(0u, 4u, right);
  let dst_start = p.dst_off + image * p.dst_ns + y * p.dst_hs;
//% for o in range(3)
  ${combine_and_store(o)}
//% endfor
}
