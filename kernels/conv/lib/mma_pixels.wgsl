// Stores a product on matrix units whose rows are output channels and whose columns are pixels, one
// half or f32 at a time. Neighbouring lanes store neighbouring pixels, so that sectors are whole,
// whatever the alignment of a row is.
//
// Expects at<n>, the index in dst of column m<n> of channel 0, is_pixel<n>, channel0 and factor.
//% set COLS = [CFG.WN, 32] | min
//% set BLOCKS, DOWN = CFG.WN // COLS, 32 // COLS

// The columns m0, m1, ... of the lane.
//% macro columns()
  let along = lane % ${COLS}u;
//% for n in range(BLOCKS)
  let m${n} = col0 + warp_col + along + ${n * COLS}u;
//% endfor
//% endmacro

// Stores the 16 rows from row 16 i on, from the strip.
//% macro store(i)
  for (var t = lane / ${COLS}u; t < 16u; t += ${DOWN * 4 // BLOCKS}u) {
    let n = row0 + warp_row + ${i * mma.M}u + t;
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
    if (p.activation != 0u) { v = activate(v, p.activation); }
//% for e in range(4)
    if (is_pixel${e % BLOCKS} & (n + ${e // BLOCKS * DOWN}u < p.rows)) { dst_store(at${e % BLOCKS} + (n + ${e // BLOCKS * DOWN}u) * p.dst_os, v[${e}]); }
//% endfor
  }
//% endmacro
