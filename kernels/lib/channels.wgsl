// What the bodies of conv2d share after their loops, with the sums of lib/product.

// act(scale * sum + bias) for rows that are output channels, `channel0` the group's first. One row of
// an invocation's block after the other passes through c0 and comes back at the end: unrolled, this
// would be larger than the product, and an array that is indexed costs the loop its registers.
//% macro finish(TR, TC, LR)
  let factor = select(p.scale, 1.0f, p.raw == 1u);
//% for i in range(TR)
//% for j in range(TC // 4)
  c${i}_${j} *= factor;
//% endfor
//% endfor
  if ((p.bias_kind | p.act) != 0u) {
    for (var i = 0u; i < ${TR}u; i += 1u) {
      let row = min(row0 + (at_row + (i >> 2u) * ${LR}u) * 4u + (i & 3u), p.rows - 1u);
      var bias = 0.0f;
      if (p.bias_kind != 0u) { bias = bias_value(p.bias_off + (channel0 + row) * p.bias_os); }
//% for j in range(TC // 4)
      var v${j} = c0_${j} + bias;
      if (p.act != 0u) { v${j} = activate(v${j}, p.act); }
//% for i in range(TR - 1)
      c${i}_${j} = c${i + 1}_${j};
//% endfor
      c${TR - 1}_${j} = v${j};
//% endfor
    }
  }
//% endmacro
