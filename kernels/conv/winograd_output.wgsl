// /// kernel
// doc = "Computes the pixels of a 3 x 3 convolution from Winograd's products, and applies the epilogue."
// part_of = "conv2d"
// source = "Lavin and Gray 2016, Fast algorithms for convolutional neural networks"
// axes.M = [2, 4]
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.DV = [1, 2, 4]
// when = ["DV in (1, M)"]
// inputs.m = { dtype = "f32", axes = "t p o", doc = "((M + 2)^2, tiles, O), tiles and O padded to whole vectors of four" }
// inputs.bias = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o", optional = true }
// inputs.residual = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "n o h w", optional = true }
// outputs.dst = { dtype = "D", vec = "DV", axes = "n o h w", doc = "(N, O, OH, OW)" }
// params.rows = { type = "u32", value = "dst.shape[1]" }
// params.out_h = { type = "u32", value = "dst.shape[2]" }
// params.out_w = { type = "u32", value = "dst.shape[3]" }
// params.bias_kind = { type = "u32", value = "0 if bias is None else 1 if bias.dtype.itemsize == 4 else 2" }
// params.residual_kind = { type = "u32", value = "0 if residual is None else 1 if residual.dtype.itemsize == 4 else 2" }
// params."tiles tiles_h tiles_w channels_last activation" = { type = "u32" }
// uses = ["winograd", "tile/epilogue"]
// grid = "cdiv(tiles * dst.shape[1], 128)"
// ///

// An invocation computes the M x M pixels of one tile of one output channel. If DV is M, rows of the
// tile are vectors of dst. The products already include the factor of the call.
//
// Bounds, for unchecked compilation: tiles and channels are below their counts; pixels of the residual
// are clamped to the last row and column of dst; stores are guarded.
//% set N, DOWN = M + 2, 4 // M
${epilogue.functions()}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let item = g * 128u + li;
  if (item >= p.tiles * p.rows) { return; }
  ${winograd.tile_and_channel("p.tiles", "p.rows", "o")}
  let start = p.m_off + tile * p.m_ps + o * p.m_os;
//% for i in range(N)
//% for j in range(N)
  let m${i}_${j} = m_load(start + ${i * N + j}u * p.m_ts);
//% endfor
//% endfor
  ${winograd.both_sides(winograd.A[M], "m", "y")}
  ${winograd.corner("tile", M)}
//% for k in range(M * M // 4)
  var v${k} = vec4<f32>(y${k * DOWN}_0, y${k * DOWN}_1, ${"y%d_2, y%d_3" % (k, k) if M == 4 else "y1_0, y1_1"});
//% endfor
  if (p.bias_kind != 0u) {
    let b = bias_value(p.bias_off + o * p.bias_os);
//% for k in range(M * M // 4)
    v${k} += b;
//% endfor
  }
  if (p.residual_kind != 0u) {
    let added = p.residual_off + n * p.residual_ns + o * p.residual_os;
//% for e in range(M)
    let row${e} = added + min(y + ${e}u, p.out_h - 1u) * p.residual_hs;
    let col${e} = min(x + ${e}u, p.out_w - 1u) * p.residual_ws;
//% endfor
//% for k in range(M * M // 4)
    v${k} += vec4<f32>(
//% for e in range(4)
      residual_value(row${k * DOWN + e // M} + col${e % M}),
//% endfor
    );
//% endfor
  }
  if (p.activation != 0u) {
//% for k in range(M * M // 4)
    v${k} = activate(v${k}, p.activation);
//% endfor
  }
  let to = p.dst_off + n * p.dst_ns + o * p.dst_os;
//% for r in range(M)
  if (y + ${r}u < p.out_h) {
    let at = to + (y + ${r}u) * p.dst_hs;
//% if DV == 4
    dst_store(at + x / 4u, v${r});
//% elif DV == 2
    dst_store(at + x / 2u, v0.${["xy", "zw"][r]});
//% else
//% for c in range(M)
    if (x + ${c}u < p.out_w) { dst_store(at + (x + ${c}u) * p.dst_ws, v${r // DOWN}[${r % DOWN * M + c}]); }
//% endfor
//% endif
  }
//% endfor
}
