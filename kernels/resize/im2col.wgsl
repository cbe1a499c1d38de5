// /// kernel
// doc = """
// Windows of images as columns: dst[n, (c KH + i) KW + j, y OW + x] = x[n, c, y s + i d - p, x s + j d - p].
//
// Outside of the image x counts as 0. Bits are copied. Pairs are (rows, columns). OH = (H + 2 p - d (KH - 1) - 1) // s
// + 1, OW likewise."""
// source = "torch.nn.functional.unfold; Chellapilla et al. 2006"
// axes.S = [1, 2, 4]
// axes.V = [1, 4]
// inputs.x = { dtype = "*", dtypes = ["float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"], bind = "'u32'", axes = "n c h w", index = false, doc = "(N, C, H, W)" }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16", "bfloat16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"], bind = "'vec4<u32>' if S * V == 16 else 'vec2<u32>' if S * V == 8 else 'u32' if S * V == 4 else 'atomic<u32>'", doc = "(N, C KH KW, OH OW)" }
// options.kernel = { type = "int | tuple[int, int]", default = 1, doc = "KH, KW." }
// options.stride = { type = "int | tuple[int, int]", default = 1, doc = "Distance s between windows." }
// options.padding = { type = "int | tuple[int, int]", default = 0, doc = "Rows and columns p of zeros on each side." }
// options.dilation = { type = "int | tuple[int, int]", default = 1, doc = "Distance d between taps." }
// params.channels = { type = "u32", value = "x.shape[1]" }
// params.height = { type = "u32", value = "x.shape[2]" }
// params.width = { type = "u32", value = "x.shape[3]" }
// params."windows quads out_w kernel_h kernel_w stride_h stride_w pad_h pad_w" = { type = "u32" }
// params."dilation_h dilation_w" = { type = "u32" }
// moves_bytes = true
// iterate = "rows"
// uses = ["words"]
// grid = "cdiv(it.rows * quads, 256)"
// ///

// Each row of dst belongs to one tap. One invocation copies four neighbouring windows of one tap.
// Bytes: dst is written once, x is read KH KW times, mostly from caches.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.rows * p.quads) { return; }
  let tap = i / p.quads;
  let first = 4u * (i - tap * p.quads);
  let above = tap / p.kernel_w;
  let kx = tap - above * p.kernel_w;
  let plane = above / p.kernel_h;
  let ky = above - plane * p.kernel_h;
  let image = plane / p.channels;
  let base = p.x_off + image * p.x_ns + (plane - image * p.channels) * p.x_cs;
  let y0 = first / p.out_w;
  let x0 = first - y0 * p.out_w;
//% for k in range(1, 4)
  let over${k} = x${k - 1} + 1u == p.out_w;
  let x${k} = select(x${k - 1} + 1u, 0u, over${k});
  let y${k} = y${k - 1} + select(0u, 1u, over${k});
//% endfor
  // All loads come first, at clamped positions; as u32, a position before the image is a large number.
//% for k in range(4)
  let h${k} = y${k} * p.stride_h + ky * p.dilation_h - p.pad_h;
  let w${k} = x${k} * p.stride_w + kx * p.dilation_w - p.pad_w;
  let at${k} = base + min(h${k}, p.height - 1u) * p.x_hs + min(w${k}, p.width - 1u) * p.x_ws;
  let v${k} = ${words.bits("x_mem", S, "at" ~ k)};
//% endfor
//% for k in range(4)
  let r${k} = select(0u, v${k}, (h${k} < p.height) & (w${k} < p.width));
//% endfor
  let bits = vec4<u32>(r0, r1, r2, r3);
  let row = dst_row(tap);
  ${words.store_four(S, V, "first / 4u", "bits", "dst_at(row, ", "p.windows")}
}
