// Stores of a product on matrix units whose rows are output channels and whose columns are pixels.
// DV = 1: one half or f32 at a time, neighbouring lanes store neighbouring pixels, so that sectors are
// whole whatever the alignment of a row is. DV = 4: vectors.
//
// Expects at<n>, the index in dst of column m<n> of channel 0, is_pixel<n>, channel0 and factor.
//% set COLS = [CFG.WN // DV, 32] | min
//% set BLOCKS, DOWN = CFG.WN // DV // COLS, 32 // COLS
// Rows that a lane stores at a time.
//% set ROWS = 1 if DV == 4 else 4 // BLOCKS

// The lane's columns m0 and on.
//% macro columns()
  let along = lane % ${COLS}u;
//% for n in range(BLOCKS)
  let m${n} = col0 + warp_col + ${DV}u * along + ${n * COLS}u;
//% endfor
//% endmacro

// Rows 16 i and on, from the strip.
//% macro store(i)
  for (var t = lane / ${COLS}u; t < 16u; t += ${DOWN * ROWS}u) {
    let n = row0 + warp_row + ${i * mma.M}u + t;
//% if DV == 4
    var v = ${mma.result_unit("strip + t * %du + along" % mma_product.STRIP)} * factor;
    if (p.bias_kind != 0u) { v += bias_of(channel0 + min(n, p.rows - 1u)); }
//% else
    var v = vec4<f32>(
//% for e in range(4)
      ${mma.result_element("strip + (t + %du) * %du + along / 4u + %du" % (e // BLOCKS * DOWN, mma_product.STRIP, e % BLOCKS * COLS // 4), "along % 4u")},
//% endfor
    ) * factor;
    if (p.bias_kind != 0u) {
      v += vec4<f32>(
//% for e in range(4)
        bias_of(channel0 + min(n + ${e // BLOCKS * DOWN}u, p.rows - 1u)),
//% endfor
      );
    }
//% endif
    if (p.activation != 0u) { v = activate(v, p.activation); }
//% if DV == 4
    if (is_pixel0 & (n < p.rows)) { dst_store(at0 + n * p.dst_os, v); }
//% else
//% for e in range(4)
    if (is_pixel${e % BLOCKS} & (n + ${e // BLOCKS * DOWN}u < p.rows)) { dst_store(at${e % BLOCKS} + (n + ${e // BLOCKS * DOWN}u) * p.dst_os, v[${e}]); }
//% endfor
//% endif
  }
//% endmacro
