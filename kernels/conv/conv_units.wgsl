// /// kernel
// doc = "An image as matrix units read it: padded, the channels of a pixel next to each other."
// part_of = "conv2d"
// axes.V = [4]
// pick.V = "4"
// inputs.x = { dtype = "*", dtypes = ["float16"], bind = "'u32'", axes = "n g c h w" }
// outputs.dst = { dtype = "u32", vec = "V", doc = "(groups, N, rows, columns, channels), in words of two halves" }
// params.images = { type = "u32" }
// params.channels = { type = "u32" }
// params.height = { type = "u32" }
// params.width = { type = "u32" }
// params.y_first = { type = "u32" }
// params.x_first = { type = "u32" }
// params.out_w = { type = "u32" }
// params.plane = { type = "u32" }
// params.units = { type = "u32" }
// params.near = { type = "u32" }
// params.items = { type = "u32", value = "dst.size // 4" }
// grid = "cdiv(dst.size // 4, 256)"
// ///

// One invocation writes a unit of eight channels of one pixel: rows y_first and columns x_first of x
// on, zero outside of x and behind its last channel. `near` units are what neighbours take, then
// pixels, then the other units: so that both x, where neighbouring pixels or neighbouring channels lie
// next to each other, and dst are read and written in whole sectors.
//
// Bounds, for unchecked compilation: channels are clamped to their count; a pixel outside of x is its
// first one; items beyond the last end early.
fn half_at(i: u32) -> u32 { return (x_mem[i >> 1u] >> ((i & 1u) * 16u)) & 0xffffu; }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let item = g * 256u + li;
  if (item >= p.items) { return; }
  let block = item / p.near;
  let block_row = block / p.plane;
  let pixel = block - block_row * p.plane;
  let far = p.units / p.near;
  let member = block_row / far;
  let unit = (block_row - member * far) * p.near + item - block * p.near;
  let group = member / p.images;
  let row = pixel / p.out_w;
  let y = row + p.y_first;
  let x = pixel - row * p.out_w + p.x_first;
  let inside = (y < p.height) & (x < p.width);
  let start = p.x_off + group * p.x_gs + (member - group * p.images) * p.x_ns;
  let first = start + select(0u, y * p.x_hs + x * p.x_ws, inside);
//% for e in range(8)
  let c${e} = unit * 8u + ${e}u;
  let h${e} = select(0u, half_at(first + min(c${e}, p.channels - 1u) * p.x_cs), inside & (c${e} < p.channels));
//% endfor
  let to = p.dst_off + (member * p.plane + pixel) * p.units + unit;
  dst_store(to, vec4<u32>(h0 | (h1 << 16u), h2 | (h3 << 16u), h4 | (h5 << 16u), h6 | (h7 << 16u)));
}
