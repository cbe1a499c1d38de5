// The numbers of a group, exact, stored along a row of dst: eight vectors of four from column c on.
//
// D is the bytes of an element of dst, 2 or 4; V 4 stores four at once.
//% macro functions(D)
${quantised.functions(true)}
//% if D == 2
${convert.half()}
//% endif
//% endmacro

//% macro store(w, scales, offsets, row, c, D, V)
//% for i in range(8)
  {
    let x = ${scales}.${"xy"[i // 4]} * ${quantised.four(w, i)}${" + " ~ offsets ~ "." ~ "xy"[i // 4] if quant.OFFSET else ""};
//% if V == 4
    let at = dst_at(${row}, ${c} / 4u + ${i}u);
//% if D == 4
    dst_mem[at] = bitcast<vec4<u32>>(x);
//% else
    let bits = bitcast<vec4<u32>>(x);
    dst_mem[at] = vec2<u32>(
      f16_bits_of_f32(bits.x) | (f16_bits_of_f32(bits.y) << 16u),
      f16_bits_of_f32(bits.z) | (f16_bits_of_f32(bits.w) << 16u));
//% endif
//% else
//% for e in range(4)
    {
      let at = dst_at(${row}, ${c} + ${4 * i + e}u);
//% if D == 4
      dst_mem[at] = bitcast<u32>(x[${e}]);
//% else
      ${words.store_shared("dst_mem", D, "at", "f16_bits_of_f32(bitcast<u32>(x[%d]))" % e)}
//% endif
    }
//% endfor
//% endif
  }
//% endfor
//% endmacro
