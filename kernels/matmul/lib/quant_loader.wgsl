// Tiles of quantised weights for matrix units: an invocation converts one group of 32 weights of a
// column at a time to four 16-byte units of halves. If the type has no offset, a weight is the
// product of an integer and a scale, both as halves, rounded once; if it has an offset, the weight
// is computed in f32 and then rounded.
//% set GROUPS = quant.BLOCK // 32
//% set PACKED = MMA == "subgroup_matrix" and not quant.OFFSET and quantised.ZERO != "any"
// Every second couple of nibbles stays shifted by four bits; a multiply-add undoes the shift.
//% set NIBBLES = PACKED and quant.decoded is not defined and quant.HIGH == 0 and quant.BITS == 4

//% macro functions()
//% if PACKED
// A couple of integers becomes two halves, each 1024 more than its integer; `less` is subtracted,
// and the result is multiplied with the scale.
fn scaled(couple: u32, scale: vec2<f16>, less: vec2<f16>) -> u32 {
  return bitcast<u32>((bitcast<vec2<f16>>(couple | 0x64006400u) - less) * scale);
}
//% if NIBBLES
// The same for integers that are shifted by four bits: after a multiplication with 1/16, the halves are
// 64 more than the integers, and `above` is subtracted.
fn scaled_above(couple: u32, scale: vec2<f16>, above: vec2<f16>) -> u32 {
  return bitcast<u32>(fma(bitcast<vec2<f16>>(couple | 0x64006400u), vec2<f16>(0.0625h), -above) * scale);
}
//% endif
//% else
fn unit_of(a: vec4<f32>, b: vec4<f32>) -> vec4<u32> {
  return vec4<u32>(pack2x16float(a.xy), pack2x16float(a.zw), pack2x16float(b.xy), pack2x16float(b.zw));
}
//% endif
//% endmacro

//% macro init(t)
  let a_n = min(col0 + min(li, ${CFG.BN - 1}u), p.cols - 1u);
  let a_to = ${t.BASE}u + min(li * ${t.ACROSS + 1}u, ${(CFG.BN - 1) * (t.ACROSS + 1)}u);
  var a_words: Quants;
  var a_scales: Scales;
//% endmacro

// The loads are in a branch, because the driver would otherwise move them behind the product.
//% macro load(k)
    if (${k} < k_end) {
      a_words = load_quants(0u, ${k} >> 5u, a_n);
      a_scales = load_words(0u, ${k} / ${quant.BLOCK}u, a_n);
    }
//% endmacro

//% macro store_stage(t, k)
//% if CFG.BN < CFG.threads
    if (li < ${CFG.BN}u) {
//% else
    {
//% endif
${store_group("a_words", "own_words(a_scales, a_n)", "(%s >> 5u)" % k, "a_to")}
    }
//% endmacro

// Stores group g of column n to the four units from `to` on: `w` are the group's words, `s` is its
// record of scales.
//% macro store_group(w, s, g, to)
//% set j = "%s %% %du" % (g, GROUPS) if GROUPS > 1 else "0u"
      let record = ${s};
      let scales = scales_of(record, ${j});
//% if quantised.ZERO
      let zeros = zeros_of(record, ${j});
//% endif
//% if PACKED
      let less = vec2<f16>(${"f16(1024.0f + zeros.x)" if quantised.ZERO else (1024 + quant.BIAS) ~ ".0h"});
//% if NIBBLES
      let above = vec2<f16>(${"f16(64.0f + zeros.x)" if quantised.ZERO else (64 + quant.BIAS) ~ ".0h"});
//% endif
//% endif
//% if quant.OFFSET
      let offsets = offsets_of(record, ${j});
//% endif
//% for o in range(4)
//% set half = "xy"[o // 2]
//% if PACKED
      let scale${o} = vec2<f16>(f16(scales.${half}));
//% if NIBBLES
      let low${o} = ${quantised.low_word(w, o)};
      let high${o} = low${o} >> 8u;
//% for name, t in (("low", 4 * o), ("high", 4 * o + 2))
      let h${t} = scaled(${name}${o} & 0x000f000fu, scale${o}, less);
      let h${t + 1} = scaled_above(${name}${o} & 0x00f000f0u, scale${o}, above);
//% endfor
//% else
//% for t in range(4)
      let h${4 * o + t} = scaled(${quantised.couple(w, 4 * o + t)}, scale${o}, less);
//% endfor
//% endif
      ${mma.store_unit("%s + %du" % (to, o), "vec4<u32>(h%d, h%d, h%d, h%d)" % (4 * o, 4 * o + 1, 4 * o + 2, 4 * o + 3))}
//% else
//% for i in range(2)
//% set integers = quantised.four(w, 2 * o + i)
      let q${2 * o + i} = ${"(" ~ integers ~ " - zeros." ~ half ~ ")" if quantised.ZERO else integers} * scales.${half}${" + offsets." ~ half if quant.OFFSET};
//% endfor
      ${mma.store_unit("%s + %du" % (to, o), "unit_of(q%d, q%d)" % (2 * o, 2 * o + 1))}
//% endif
//% endfor
//% endmacro
