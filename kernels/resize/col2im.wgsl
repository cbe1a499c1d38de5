// /// kernel
// doc = """
// Adds columns to the pixels that they come from, which is the gradient of im2col's image.
//
// dst[n, c, h, w] is the sum of x[n, (c KH + i) KW + j, y OW + x'] over the taps and windows with y s
// + i d - p = h and x' s + j d - p = w, in f32 and in the order of i and j, so two runs give the
// same bits. Pairs are (rows, columns)."""
// source = "torch.nn.functional.fold"
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// inputs.x = { dtype = "T", axes = "n k l", index = false, doc = "(N, C KH KW, OH OW)" }
// outputs.dst = { dtype = "T", doc = "(N, C, H, W)" }
// options.kernel = { type = "int | tuple[int, int]", default = 1, doc = "KH, KW." }
// options.stride = { type = "int | tuple[int, int]", default = 1, doc = "Distance s between windows." }
// options.padding = { type = "int | tuple[int, int]", default = 0, doc = "Rows and columns p around the image." }
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Distance d between taps." }
// params.channels = { type = "u32", value = "dst.shape[1]" }
// params.height = { type = "u32", value = "dst.shape[2]" }
// params.width = { type = "u32", value = "dst.shape[3]" }
// params."out_h out_w kernel_h kernel_w stride_h stride_w pad_h pad_w dilation_h" = { type = "u32" }
// params."dilation_w common_h common_w next_h next_w inverse_h inverse_w" = { type = "u32" }
// iterate = "nd"
// operations = "x.size"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation computes one pixel. Along an axis a window has pixel h at tap i if h + p - i d is a
// multiple of s. With g = gcd(s, d) (`common`), such taps exist only if g divides h + p. Then they are
// every (s / g)th tap (`next`), and the first is (h + p) / g times the inverse of d / g, modulo s / g.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  let row = i / p.width;
  let plane = row / p.height;
  let w = i - row * p.width + p.pad_w;
  let h = row - plane * p.height + p.pad_h;
  let image = plane / p.channels;
  let taps = p.kernel_h * p.kernel_w;
  let base = p.x_off + image * p.x_ns + (plane - image * p.channels) * taps * p.x_ks;
  let met = (h % p.common_h == 0u) & (w % p.common_w == 0u);
  let first_h = select(p.kernel_h, (h / p.common_h) % p.next_h * p.inverse_h % p.next_h, met);
  let first_w = (w / p.common_w) % p.next_w * p.inverse_w % p.next_w;
  var sum = 0.0f;
  for (var ky = first_h; ky < p.kernel_h; ky += p.next_h) {
    // As u32, a negative window number is a large number.
    let y = (h - ky * p.dilation_h) / p.stride_h;
    for (var kx = first_w; kx < p.kernel_w; kx += p.next_w) {
      let x = (w - kx * p.dilation_w) / p.stride_w;
      let fits = (y < p.out_h) & (x < p.out_w);
      let column = min(y, p.out_h - 1u) * p.out_w + min(x, p.out_w - 1u);
      let v = x_load(base + (ky * p.kernel_w + kx) * p.x_ks + column * p.x_ls);
      sum += select(0.0f, v, fits);
    }
  }
  dst_store(dst_index(i), sum);
}
