// Computes the numbers of a group without rounding and stores them along a row of dst.
//
// D is the number of bytes of an element of dst, 2 or 4; with V = 4 four elements are stored at
// once.
//% macro functions(D)
${quantised.functions(true)}
//% if D == 2
${convert.half()}
//% endif
//% endmacro

// `place` is the text of a call without its last argument, the column (or vector of four columns);
// the call returns the column's position in dst.
//% macro store_group(b, g, n, place, D, V)
  let n_own = ${n};
  let w = load_quants(${b}, ${g}, n_own);
  let s = load_scales(${b}, ${g} / ${quant.BLOCK // 32}u, n_own);
//% if quant.FACTORS is defined
  let factors = factors_of(s);
//% else
  let scales = scales_of(s, ${g} % ${quant.BLOCK // 32}u);
//% endif
//% if quantised.ZERO
  let zeros = zeros_of(s, ${g} % ${quant.BLOCK // 32}u);
//% endif
//% if quant.OFFSET
  let offsets = offsets_of(s, ${g} % ${quant.BLOCK // 32}u);
//% endif
//% for i in range(8)
  {
//% if quant.FACTORS is defined
    let x = (factors.x * ${quantised.four("w", i)}) * factors.y;
//% else
    let x = scales.${"xy"[i // 4]} * ${"(" ~ quantised.four("w", i) ~ " - zeros." ~ "xy"[i // 4] ~ ")" if quantised.ZERO else quantised.four("w", i)}${" + offsets." ~ "xy"[i // 4] if quant.OFFSET else ""};
//% endif
//% if V == 4
    let at = ${place}, 8u * ${g} + ${i}u);
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
      let at = ${place}, 32u * ${g} + ${4 * i + e}u);
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
