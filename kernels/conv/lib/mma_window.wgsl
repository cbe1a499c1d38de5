// Loaders of packed images (conv_units) for matrix units. `a_mem` has the units of channels of each
// pixel, by image, row and column. Padding is part of the packed image, so only the end of k is checked.
// `t` describes the tiles as in mma_loader.
//
// p.tap_h, p.tap_w: units from one tap to the next; p.channels: units of a pixel; p.chunks: chunks of
// BK channels, p.a_ks units apart.

//% macro functions()
// The first unit of a pixel's window.
fn window(image: u32, y: u32, x: u32) -> u32 {
  return image * p.a_ns + y * p.stride_h * p.a_hs + x * p.stride_w * p.a_ws;
}
//% endmacro

// A tile whose rows are pixels of dst, from `first` on, and whose k are taps and channels. Each tap
// has a multiple of BK channels, so a chunk belongs to one tap.
//% macro pixels_init(t, start, first)
//% set rows = CFG.threads // t.ACROSS
  ${mma_loader.lanes(t)}
  let a_start = ${start};
//% for u in range(t.ROWS // rows)
  let a_p${u} = min(${first} + a_r + ${u * rows}u, p.pixels - 1u);
  let a_n${u} = a_p${u} / p.plane;
  let a_y${u} = (a_p${u} - a_n${u} * p.plane) / p.out_w;
  let a_from${u} = a_start + window(a_n${u}, a_y${u}, a_p${u} - a_n${u} * p.plane - a_y${u} * p.out_w) + a_c;
//% endfor
  // The chunk of channels, tap column and tap row.
  let k_tap = k_first / ${CFG.BK}u / p.chunks;
  var tap_c = k_first / ${CFG.BK}u - k_tap * p.chunks;
  var tap_i = k_tap / p.kernel_w;
  var tap_j = k_tap - tap_i * p.kernel_w;
//% endmacro

// Loads the chunk at `k` and moves on to the next chunk; loads nothing from `end` on.
//% macro pixels_load(t, k, end)
//% set rows = CFG.threads // t.ACROSS
    if (${k} < ${end}) {
      let tap = tap_i * p.tap_h + tap_j * p.tap_w + tap_c * p.a_ks;
//% for u in range(t.ROWS // rows)
      a_v${u} = a_mem[a_from${u} + tap];
//% endfor
      tap_c += 1u;
      if (tap_c == p.chunks) {
        tap_c = 0u;
        tap_j += 1u;
        if (tap_j == p.kernel_w) {
          tap_j = 0u;
          tap_i += 1u;
        }
      }
    }
//% endmacro

// A tile whose k are pixels of dst, which are the rows of the tile. Units run across the tile:
// `count` units of taps and channels, from `first` on.
//% macro taps_init(t, start, first, count)
//% set rows = CFG.threads // t.ACROSS
  ${mma_loader.lanes(t)}
  let a_start = ${start};
  let a_unit = min(${first} / ${mma.UNIT}u + a_c, ${count} / ${mma.UNIT}u - 1u);
  let a_tap = a_unit / p.channels;
  let a_i = a_tap / p.kernel_w;
  let a_from = a_start + a_i * p.tap_h + (a_tap - a_i * p.kernel_w) * p.tap_w + a_unit - a_tap * p.channels;
//% for u in range(t.ROWS // rows)
  var a_d${u} = pixel(k_first + a_r + ${u * rows}u);
//% endfor
//% endmacro

// Loads the chunk at `k`, with zeros from `end` on, and moves on to the next chunk.
//% macro taps_load(t, k, end)
//% set rows = CFG.threads // t.ACROSS
    if (${k} + ${CFG.BK}u <= ${end}) {
//% for u in range(t.ROWS // rows)
      a_v${u} = a_mem[a_from + window(a_d${u}.z, a_d${u}.y, a_d${u}.x)];
      a_d${u} = next_pixel(a_d${u});
//% endfor
    } else if (${k} < ${end}) {
//% for u in range(t.ROWS // rows)
      {
        let within = ${k} + a_r + ${u * rows}u < ${end};
        let v = a_mem[select(a_start, a_from + window(a_d${u}.z, a_d${u}.y, a_d${u}.x), within)];
        a_v${u} = select(vec4<u32>(), v, within);
      }
//% endfor
    }
//% endmacro
