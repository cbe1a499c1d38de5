// /// kernel
// doc = "conv2d with 3 x 3 taps for each channel by itself, for four neighbouring pixels or channels at a time."
// part_of = "conv2d"
// configs.rows = { LAST = false, R = 4, W = 4, threads = 128 }
// configs.channels = { LAST = true, R = 2, W = 2, threads = 128 }
// axes.A = { values = ["f32", "f16"], pick = "dtype(a)" }
// axes.B = { values = ["f32", "f16"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.V = { values = [4], pick = "4" }
// axes.FORM = "configs"
// axes.BV = { values = [1, 4], pick = "4 if CFG.LAST else 1" }
// when = ["BV == (4 if CFG.LAST else 1)", "B == 'f32' or not CFG.LAST"]
// inputs.a = { dtype = "A", vec = "V", axes = "n g c h w", doc = "The image." }
// inputs.b = { dtype = "B", vec = "BV", axes = "g o c h w", doc = "The weights; in form 'channels' as rows of taps in vectors of channels." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o", optional = true }
// outputs.dst = { dtype = "D", vec = "V", axes = "n g o h w", doc = "(N, groups, 1, OH, OW)" }
// params.members = { type = "u32", value = "dst.shape[1] // 4 if CFG.LAST else dst.shape[1]" }
// params.out_h = { type = "u32", value = "dst.shape[3]" }
// params.out_w = { type = "u32", value = "dst.shape[4]" }
// params.row_blocks = { type = "u32", value = "cdiv(dst.shape[3], CFG.R)" }
// params.col_blocks = { type = "u32", value = "cdiv(dst.shape[4], CFG.W)" }
// params.items = { type = "u32", value = "dst.shape[0] * (dst.shape[1] // 4 if CFG.LAST else dst.shape[1]) * cdiv(dst.shape[3], CFG.R) * cdiv(dst.shape[4], CFG.W)" }
// params."height width y_first x_first" = { type = "u32" }
// include epilogue
// uses = ["tile/epilogue"]
// grid = "cdiv(dst.shape[0] * (dst.shape[1] // 4 if CFG.LAST else dst.shape[1]) * cdiv(dst.shape[3], CFG.R) * cdiv(dst.shape[4], CFG.W), CFG.threads)"
// ///

// One invocation computes R x W pixels. In form "rows" the pixels belong to one channel, and W = 4
// neighbours are a vector. In form "channels" (LAST: channels lie next to each other) they belong
// to four channels. Strides count vectors.
//
// In form "rows" dst is as wide as the image, and the middle tap of a pixel is the pixel itself. So one
// vector of memory, with one more element on each side, serves three taps.
//
// Bounds, for unchecked compilation: a load outside of the image reads the image's first pixel
// instead; stores are guarded; items beyond the last item end early.
//% set C = CFG.W if CFG.LAST else CFG.W // 4
${epilogue.functions(("bias",))}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let item = g * ${CFG.threads}u + li;
  if (item >= p.items) { return; }
//% if CFG.LAST
  // (image, row_block, col_block, channel)
  let rest = item / p.members;
  let member = item - rest * p.members;
  let above = rest / p.col_blocks;
  let col_block = rest - above * p.col_blocks;
  let image = above / p.row_blocks;
  let row_block = above - image * p.row_blocks;
//% else
  // (image, channel, row_block, col_block)
  let rest = item / p.col_blocks;
  let col_block = item - rest * p.col_blocks;
  let above = rest / p.row_blocks;
  let row_block = rest - above * p.row_blocks;
  let image = above / p.members;
  let member = above - image * p.members;
//% endif
  let out_y = row_block * ${CFG.R}u;
  let y0 = out_y + p.y_first;
  let a_safe = p.a_off + image * p.a_ns + ${"member" if CFG.LAST else "member * p.a_gs"};
  let b_start = p.b_off + ${"member" if CFG.LAST else "member * p.b_gs"};
//% for i in range(3)
//% for j in range(3)
  let w${i}${j} = ${"vec4<f32>" if CFG.LAST else "f32"}(b_mem[b_start + ${i}u * p.b_hs + ${j}u * p.b_ws]);
//% endfor
//% endfor
//% for r in range(CFG.R)
//% for c in range(C)
  var sum${r}_${c} = vec4<f32>();
//% endfor
//% endfor
//% if CFG.LAST
  let out_x = col_block * ${C}u;
  let x0 = out_x + p.x_first;
  let a_corner = a_safe + y0 * p.a_hs + x0 * p.a_ws;
//% for r in range(CFG.R + 2)
//% for j in range(C + 2)
  let ok${r}${j} = (x0 + ${j}u < p.width) & (y0 + ${r}u < p.height);
  let h${r}${j} = a_mem[select(a_safe, a_corner + ${r}u * p.a_hs + ${j}u * p.a_ws, ok${r}${j})];
//% endfor
//% endfor
//% for r in range(CFG.R + 2)
//% for j in range(C + 2)
  let v${r}${j} = select(vec4<f32>(), vec4<f32>(h${r}${j}), ok${r}${j});
//% for e in range(CFG.R)
//% for c in range(C)
//% if 0 <= r - e < 3 and 0 <= j - c < 3
  sum${e}_${c} = fma(v${r}${j}, w${r - e}${j - c}, sum${e}_${c});
//% endif
//% endfor
//% endfor
//% endfor
//% endfor
//% else
  let inner = col_block > 0u;
  let outer = col_block + 1u < p.col_blocks;
//% for r in range(CFG.R + 2)
  let ok${r} = y0 + ${r}u < p.height;
  let at${r} = a_safe + select(0u, (y0 + ${r}u) * p.a_hs + col_block, ok${r});
  let m${r} = a_mem[at${r}];
  let l${r} = a_mem[at${r} - select(0u, 1u, ok${r} & inner)].w;
  let h${r} = a_mem[at${r} + select(0u, 1u, ok${r} & outer)].x;
//% endfor
//% for r in range(CFG.R + 2)
  let mid${r} = select(vec4<f32>(), vec4<f32>(m${r}), ok${r});
  let low${r} = vec4<f32>(select(0.0f, f32(l${r}), ok${r} & inner), mid${r}.xyz);
  let high${r} = vec4<f32>(mid${r}.yzw, select(0.0f, f32(h${r}), ok${r} & outer));
//% for e in range(CFG.R)
//% if 0 <= r - e < 3
  sum${e}_0 = fma(low${r}, vec4<f32>(w${r - e}0), sum${e}_0);
  sum${e}_0 = fma(mid${r}, vec4<f32>(w${r - e}1), sum${e}_0);
  sum${e}_0 = fma(high${r}, vec4<f32>(w${r - e}2), sum${e}_0);
//% endif
//% endfor
//% endfor
//% endif

  let factor = select(p.scale, 1.0f, p.is_partial == 1u);
  var bias = vec4<f32>();
  if (p.bias_kind != 0u) {
//% if CFG.LAST
    let at = p.bias_off + member * 4u * p.bias_os;
    bias = vec4<f32>(bias_value(at), bias_value(at + p.bias_os), bias_value(at + 2u * p.bias_os), bias_value(at + 3u * p.bias_os));
//% else
    bias = vec4<f32>(bias_value(p.bias_off + member * p.bias_os));
//% endif
  }
  let at = p.dst_off + image * p.dst_ns + ${"member" if CFG.LAST else "member * p.dst_gs"} + out_y * p.dst_hs + ${"out_x * p.dst_ws" if CFG.LAST else "col_block"};
//% for r in range(CFG.R)
//% for c in range(C)
  if (${"(out_x + " ~ c ~ "u < p.out_w) & " if CFG.LAST else ""}(out_y + ${r}u < p.out_h)) {
    var v = sum${r}_${c} * factor + bias;
    if (p.activation != 0u) { v = activate(v, p.activation); }
    dst_store(at + ${r}u * p.dst_hs + ${c}u * p.dst_ws, v);
  }
//% endfor
//% endfor
}
