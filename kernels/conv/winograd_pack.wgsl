// /// kernel
// doc = "Transforms the image and the weights of a 3 x 3 convolution for Winograd's products."
// part_of = "conv2d"
// source = "Lavin and Gray 2016, Fast algorithms for convolutional neural networks"
// axes.M = [2, 4]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "n c h w", doc = "(N, C, H, W)" }
// inputs.w = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "o c h w", doc = "(O, C, 3, 3)" }
// outputs.v = { dtype = "f32", axes = "t c p", doc = "The transformed image: ((M + 2)^2, C, tiles in whole vectors of four)" }
// outputs.u = { dtype = "f32", axes = "t c o", doc = "The transformed weights: ((M + 2)^2, C, O in whole vectors of four)" }
// params.channels = { type = "u32", value = "x.shape[1]" }
// params.height = { type = "u32", value = "x.shape[2]" }
// params.width = { type = "u32", value = "x.shape[3]" }
// params.rows = { type = "u32", value = "w.shape[0]" }
// params.padded_rows = { type = "u32", value = "u.shape[2]" }
// params.padded_tiles = { type = "u32", value = "v.shape[2]" }
// params.x_kind = { type = "u32", value = "1 if x.dtype.itemsize == 4 else 2" }
// params.w_kind = { type = "u32", value = "1 if w.dtype.itemsize == 4 else 2" }
// params."tiles tiles_h tiles_w channels_last y_first x_first image_groups" = { type = "u32" }
// uses = ["winograd", "tile/epilogue"]
// grid = "image_groups + cdiv(cdiv(w.shape[0], 8) * 8 * w.shape[1], 128)"
// ///

// An invocation for the image transforms one tile of one channel: M x M pixels of the output depend on
// M + 2 rows and columns, which begin at `y_first` and `x_first` for the first tile. An invocation for
// the weights transforms the taps of one output channel and one channel; eight neighbours take eight
// output channels, so that they write whole sectors of u. Tiles and output channels that pad the vectors
// repeat the last tile or channel.
//
// Bounds, for unchecked compilation: tiles and output channels are clamped to their counts, pixels
// outside of the image are read at its first row or column and replaced by zero; items beyond the last
// item end early.
//% set N = M + 2
${epilogue.functions(("x", "w"))}

fn image(group: u32, li: u32) {
  let item = group * 128u + li;
  if (item >= p.channels * p.padded_tiles) { return; }
  ${winograd.tile_and_channel("p.padded_tiles", "p.channels", "c")}
  let near = min(tile, p.tiles - 1u);
  ${winograd.corner("near", M)}
  let top = y + p.y_first;
  let left = x + p.x_first;
  let start = p.x_off + n * p.x_ns + c * p.x_cs;
//% for i in range(N)
  let row_ok${i} = top + ${i}u < p.height;
  let row${i} = start + select(0u, (top + ${i}u) * p.x_hs, row_ok${i});
  let col_ok${i} = left + ${i}u < p.width;
  let col${i} = select(0u, (left + ${i}u) * p.x_ws, col_ok${i});
//% endfor
//% for i in range(N)
//% for j in range(N)
  let loaded${i}_${j} = x_value(row${i} + col${j});
//% endfor
//% endfor
//% for i in range(N)
//% for j in range(N)
  let d${i}_${j} = select(0.0f, loaded${i}_${j}, row_ok${i} & col_ok${j});
//% endfor
//% endfor
  ${winograd.both_sides(winograd.B[M], "d", "v")}
  let to = p.v_off + c * p.v_cs + tile * p.v_ps;
//% for i in range(N)
//% for j in range(N)
  v_store(to + ${i * N + j}u * p.v_ts, v${i}_${j});
//% endfor
//% endfor
}

fn weights(group: u32, li: u32) {
  let item = group * 128u + li;
  let rest = item >> 3u;
  let block = rest / p.channels;
  let c = rest - block * p.channels;
  let o = block * 8u + (item & 7u);
  if (o >= p.padded_rows) { return; }
  let start = p.w_off + min(o, p.rows - 1u) * p.w_os + c * p.w_cs;
//% for i in range(3)
//% for j in range(3)
  let g${i}_${j} = w_value(start + ${i}u * p.w_hs + ${j}u * p.w_ws);
//% endfor
//% endfor
  ${winograd.both_sides(winograd.G[M], "g", "u")}
  let to = p.u_off + c * p.u_cs + o * p.u_os;
//% for i in range(N)
//% for j in range(N)
  u_store(to + ${i * N + j}u * p.u_ts, u${i}_${j});
//% endfor
//% endfor
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  if (g < p.image_groups) {
    image(g, li);
  } else {
    weights(g - p.image_groups, li);
  }
}
