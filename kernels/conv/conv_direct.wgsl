// /// kernel
// doc = "conv2d for groups of few channels, with sums in registers; it reads the image directly."
// part_of = "conv2d"
// configs.1x4 = { OB = 1, R = 4, threads = 256 }
// configs.4x1 = { OB = 4, R = 1, threads = 256 }
// axes.A = { values = ["f32", "f16"], pick = "dtype(a)" }
// axes.B = { values = ["f32", "f16"], pick = "dtype(b)" }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.BLOCK = { values = "configs", pick = "'4x1' if dst.shape[2] > 1 else '1x4'" }
// axes.K3 = [false, true]
// when = ["CFG.OB == 1 or not K3"]
// inputs.a = { dtype = "A", axes = "n g c h w", doc = "The image." }
// inputs.b = { dtype = "B", axes = "g o c h w", doc = "The weights." }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o", optional = true }
// outputs.dst = { dtype = "D", axes = "n g o h w", doc = "(N, groups, O / groups, OH, OW)" }
// params.rows = { type = "u32", value = "dst.shape[2]" }
// params.blocks = { type = "u32", value = "cdiv(dst.shape[2], CFG.OB)" }
// params.group_count = { type = "u32", value = "dst.shape[1]" }
// params.out_h = { type = "u32", value = "dst.shape[3]" }
// params.row_blocks = { type = "u32", value = "cdiv(dst.shape[3], CFG.R)" }
// params.out_w = { type = "u32", value = "dst.shape[4]" }
// params.items = { type = "u32", value = "dst.shape[0] * dst.shape[1] * cdiv(dst.shape[2], CFG.OB) * cdiv(dst.shape[3], CFG.R) * dst.shape[4]" }
// params."channels_last channels kernel_h kernel_w" = { type = "u32" }
// include windows
// params."tap_h tap_w" = { type = "u32" }
// include epilogue
// uses = ["tile/epilogue"]
// grid = "cdiv(dst.shape[0] * dst.shape[1] * cdiv(dst.shape[2], CFG.OB) * cdiv(dst.shape[3], CFG.R) * dst.shape[4], CFG.threads)"
// ///

// One invocation computes R pixels of one column for OB output channels of a group. Neighbouring
// invocations take neighbouring columns, or channels if these are contiguous (channels_last). With K3
// the kernel is 3 x 3 with strides of 1, so that a row of the image serves several pixels.
//
// Bounds, for unchecked compilation: a load outside of the image reads the image's first pixel
// instead; rows of the weights are clamped; stores are guarded.
${epilogue.functions(("bias",))}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let item = g * ${CFG.threads}u + li;
  if (item >= p.items) { return; }
  let members = p.group_count * p.blocks;
  let plane = p.row_blocks * p.out_w;
  let last = p.channels_last == 1u;
  // The digits of item: (image, member, pixel), or (image, pixel, member) if channels are last.
  let inner = select(plane, members, last);
  let rest = item / inner;
  let low = item - rest * inner;
  let middle = select(members, plane, last);
  let image = rest / middle;
  let high = rest - image * middle;
  let member = select(high, low, last);
  let pixel = select(low, high, last);
  let group = member / p.blocks;
  let row0 = (member - group * p.blocks) * ${CFG.OB}u;
  let row_block = pixel / p.out_w;
  let out_x = pixel - row_block * p.out_w;
  let out_y = row_block * ${CFG.R}u;
  let y0 = out_y * p.stride_h + p.y_first;
  let x0 = out_x * p.stride_w + p.x_first;

  let a_safe = p.a_off + image * p.a_ns + group * p.a_gs;
  let a_corner = a_safe + y0 * p.a_hs + x0 * p.a_ws;
//% for o in range(CFG.OB)
  let b_row${o} = p.b_off + group * p.b_gs + min(row0 + ${o}u, p.rows - 1u) * p.b_os;
//% for e in range(CFG.R)
  var sum${o}_${e} = 0.0f;
//% endfor
//% endfor
//% if K3
//% for j in range(3)
  let in${j} = x0 + ${j}u < p.width;
//% endfor
  for (var c = 0u; c < p.channels; c += 1u) {
//% for i in range(3)
//% for j in range(3)
    let w${i}${j} = b_load(b_row0 + c * p.b_cs + ${i}u * p.b_hs + ${j}u * p.b_ws);
//% endfor
//% endfor
//% for r in range(CFG.R + 2)
//% for j in range(3)
    let ok${r}${j} = in${j} & (y0 + ${r}u < p.height);
    let h${r}${j} = a_load(select(a_safe, a_corner + c * p.a_cs + ${r}u * p.a_hs + ${j}u * p.a_ws, ok${r}${j}));
//% endfor
//% endfor
//% for r in range(CFG.R + 2)
//% for j in range(3)
    let v${r}${j} = select(0.0f, h${r}${j}, ok${r}${j});
//% for e in range(CFG.R)
//% if r - e >= 0 and r - e < 3
    sum0_${e} = fma(v${r}${j}, w${r - e}${j}, sum0_${e});
//% endif
//% endfor
//% endfor
//% endfor
  }
//% else
  for (var c = 0u; c < p.channels; c += 1u) {
    for (var i = 0u; i < p.kernel_h; i += 1u) {
      let y = y0 + i * p.tap_h;
      let row = a_corner + c * p.a_cs + i * p.tap_h * p.a_hs;
      var x = x0;
      var across = 0u;
      var b_at = c * p.b_cs + i * p.b_hs;
      for (var j = 0u; j < p.kernel_w; j += 1u) {
        let in_x = x < p.width;
//% for e in range(CFG.R)
        let ok${e} = in_x & (y + ${e}u * p.stride_h < p.height);
        let h${e} = a_load(select(a_safe, row + ${e}u * p.stride_h * p.a_hs + across, ok${e}));
//% endfor
//% for e in range(CFG.R)
        let v${e} = select(0.0f, h${e}, ok${e});
//% endfor
//% for o in range(CFG.OB)
        let w${o} = b_load(b_row${o} + b_at);
//% for e in range(CFG.R)
        sum${o}_${e} = fma(v${e}, w${o}, sum${o}_${e});
//% endfor
//% endfor
        x += p.tap_w;
        across += p.tap_w * p.a_ws;
        b_at += p.b_ws;
      }
    }
  }
//% endif

  let factor = select(p.scale, 1.0f, p.is_partial == 1u);
  let at = p.dst_off + image * p.dst_ns + group * p.dst_gs + out_y * p.dst_hs + out_x * p.dst_ws;
//% for o in range(CFG.OB)
//% for e in range(CFG.R)
  if ((row0 + ${o}u < p.rows) & (out_y + ${e}u < p.out_h)) {
    var v = sum${o}_${e} * factor;
    if (p.bias_kind != 0u) { v += bias_value(p.bias_off + (group * p.rows + row0 + ${o}u) * p.bias_os); }
    if (p.activation != 0u) { v = activate(vec4<f32>(v), p.activation).x; }
    dst_store(at + (row0 + ${o}u) * p.dst_os + ${e}u * p.dst_hs, v);
  }
//% endfor
//% endfor
}
