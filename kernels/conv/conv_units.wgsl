// /// kernel
// doc = "Packs images for matrix units: images are padded, and the channels of a pixel lie next to each other."
// part_of = "conv2d"
// axes."XP YP" = [1, 2]
// axes.V = { values = [4], pick = "4" }
// inputs.x = { dtype = "*", dtypes = ["float16"], bind = "'u32'", axes = "n g c h w" }
// inputs.y = { dtype = "*", dtypes = ["float16"], bind = "'u32'", axes = "n g c h w", optional = true }
// outputs.dst = { dtype = "u32", vec = "V", doc = "The packed x, followed by the packed y: (groups, N, rows, columns, channels), in words of two halves" }
// params."x_images x_channels x_height x_width x_top x_left x_first x_across x_plane" = { type = "u32" }
// params."x_out_w x_out_plane x_units x_near x_items x_groups y_images y_channels" = { type = "u32" }
// params."y_height y_width y_top y_left y_first y_across y_plane y_out_w y_out_plane" = { type = "u32" }
// params."y_units y_near y_items y_start" = { type = "u32" }
// grid = "x_groups + cdiv(y_items, 256)"
// ///

// One dispatch packs one or two images. An invocation writes a unit of eight channels of one pixel.
// If the halves of two pixels are one word (XP, YP = 2), it writes the units of both pixels. The
// image begins at row `top` and column `left`; units are zero outside of it and beyond its last
// channel. Neighbouring invocations take `near` units first, then pixels, then the other units. So
// images whose neighbouring pixels or channels are contiguous are read in whole sectors, and dst is
// written in whole sectors.
//
// Bounds, for unchecked compilation: channels are clamped to their count; a load outside of the
// image reads the image's first pixel instead; items beyond the last item and pixels beyond a row
// of dst end early.
//% macro pack(x, P, group, start)
  let item = ${group} * 256u + li;
  if (item >= p.${x}_items) { return; }
  let block = item / p.${x}_near;
  let block_row = block / p.${x}_plane;
  let at = block - block_row * p.${x}_plane;
  let far = p.${x}_units / p.${x}_near;
  let member = block_row / far;
  let unit = (block_row - member * far) * p.${x}_near + item - block * p.${x}_near;
  let group = member / p.${x}_images;
  let row = at / p.${x}_across;
  let column = (at - row * p.${x}_across) * ${P}u + p.${x}_first;
  let inside = (row + p.${x}_top < p.${x}_height) & (column < p.${x}_width);
  let image = p.${x}_off + group * p.${x}_gs + (member - group * p.${x}_images) * p.${x}_ns;
  let first = image + select(0u, (row + p.${x}_top) * p.${x}_hs + column * p.${x}_ws, inside);
//% for e in range(8)
  let c${e} = unit * 8u + ${e}u;
  let i${e} = first + min(c${e}, p.${x}_channels - 1u) * p.${x}_cs;
//% endfor
//% for e in range(8)
  let w${e} = ${x}_mem[i${e} >> 1u];
//% endfor
//% for e in range(8)
//% if P == 2
  let h${e} = select(0u, w${e}, inside & (c${e} < p.${x}_channels));
//% else
  let h${e} = select(0u, (w${e} >> ((i${e} & 1u) * 16u)) & 0xffffu, inside & (c${e} < p.${x}_channels));
//% endif
//% endfor
  let to_column = column - p.${x}_left;
  let to = p.dst_off + ${start} + (member * p.${x}_out_plane + row * p.${x}_out_w + to_column) * p.${x}_units + unit;
//% if P == 2
  if (to_column < p.${x}_out_w) { dst_store(to, ${first_halves()}); }
  if (to_column + 1u < p.${x}_out_w) { dst_store(to + p.${x}_units, ${second_halves()}); }
//% else
  dst_store(to, vec4<u32>(h0 | (h1 << 16u), h2 | (h3 << 16u), h4 | (h5 << 16u), h6 | (h7 << 16u)));
//% endif
//% endmacro

//% macro first_halves()
vec4<u32>((h0 & 0xffffu) | (h1 << 16u), (h2 & 0xffffu) | (h3 << 16u), (h4 & 0xffffu) | (h5 << 16u), (h6 & 0xffffu) | (h7 << 16u))
//%- endmacro
//% macro second_halves()
vec4<u32>((h0 >> 16u) | (h1 & 0xffff0000u), (h2 >> 16u) | (h3 & 0xffff0000u), (h4 >> 16u) | (h5 & 0xffff0000u), (h6 >> 16u) | (h7 & 0xffff0000u))
//%- endmacro

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  if (g < p.x_groups) {
    ${pack("x", XP, "g", "0u")}
  } else {
    ${pack("y", YP, "(g - p.x_groups)", "p.y_start")}
  }
}
