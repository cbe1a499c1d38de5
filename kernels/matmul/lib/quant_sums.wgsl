// Sums of products of one group of weights, 32 numbers of a row, with 32 numbers of a row of b.
//
// The caller has the words `w` and the scales `s` of group `g`; `numbers` makes eight vectors of four
// along k, and `sum` adds their products with x0 to x7 to a sum.
//% set STEPS = 32 // quant.STEP

//% macro functions()
fn sum4(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
  return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
//% endmacro

//% macro numbers(w, s, g)
//% set found = "scales_of(" ~ s ~ ", " ~ ("%s %% %du" % (g, quant.BLOCK // 32) if quant.BLOCK > 32 else "0u") ~ ")"
      let scales = ${found};
//% if quant.OFFSET
      let offsets = ${found | replace("scales_of", "offsets_of")};
//% endif
//% for i in range(8)
//% if quant.OFFSET
      let q${i} = fma(${quantised.four(w, i)}, vec4<f32>(scales[${i // 4}]), vec4<f32>(offsets[${i // 4}]));
//% else
      let q${i} = ${quantised.four(w, i)};
//% endif
//% endfor
//% endmacro

// The sum with the group's products.
//% macro sum(acc)
//% if quant.OFFSET
//% set terms = namespace(text=acc)
//% for i in range(8)
//% set terms.text = "sum4(q" ~ i ~ ", x" ~ i ~ ", " ~ terms.text ~ ")"
//% endfor
${terms.text}
//%- else
//% set halves = namespace(text=acc)
//% for part in range(STEPS)
//% set terms = namespace(text="0.0f")
//% for i in range(8 // STEPS)
//% set n = part * (8 // STEPS) + i
//% set terms.text = "sum4(q" ~ n ~ ", x" ~ n ~ ", " ~ terms.text ~ ")"
//% endfor
//% set halves.text = "fma(scales[" ~ part ~ "], " ~ terms.text ~ ", " ~ halves.text ~ ")"
//% endfor
${halves.text}
//%- endif
//% endmacro
