// Sums of products of one group of weights, 32 numbers of a row, with 32 numbers of a row of b.
//
// The caller has the words `w` and the scales `s` of group `g`. `numbers` makes two vectors of
// every eight numbers: e<o> has the even numbers, and d<o> the odd numbers. They are integers times
// FACTORS, because numbers of four or eight bits keep their places in the words. They become floats
// as the last bits of 2^23, which needs no conversion. The sums of a row of b are a vector, with a
// component for each place in a word.
//% set PLAIN = quant.decoded is not defined and quant.HIGH == 0 and quant.BITS in (4, 8) and quantised.ZERO != "any"
//% set NIBBLES = PLAIN and quant.BITS == 4
//% set PLACES = [1, 16, 256, 4096] if NIBBLES else [1, 256, 1, 256] if PLAIN else [1, 1, 1, 1]
//% set MAGIC = 8388608
// If each group has an integer zero point, it is subtracted in place of BIAS.
//% set LESS, LESS_PARAM = (", less", ", less: vec4<f32>") if quantised.ZERO == "whole" else ("", "")

//% macro functions()
const factors = vec4<f32>(${"1.0f, 0.0625f, 0.00390625f, 0.000244140625f" if NIBBLES else "1.0f, 0.00390625f, 1.0f, 0.00390625f" if PLAIN else "1.0f"});

// Four integers of less than 24 bits as floats, minus BIAS or the zero point, each multiplied by
// the factor of its place.
//% if quantised.ZERO == "whole"
fn floats(bits: vec4<u32>, less: vec4<f32>) -> vec4<f32> { return bitcast<vec4<f32>>(bits | vec4<u32>(0x4b000000u)) - less; }
//% else
fn floats(bits: vec4<u32>) -> vec4<f32> {
  return bitcast<vec4<f32>>(bits | vec4<u32>(0x4b000000u))
    - vec4<f32>(${MAGIC + quant.BIAS * PLACES[0]}.0f, ${MAGIC + quant.BIAS * PLACES[1]}.0f, ${MAGIC + quant.BIAS * PLACES[2]}.0f, ${MAGIC + quant.BIAS * PLACES[3]}.0f);
}
//% endif
//% if NIBBLES
fn in_place(a: u32${LESS_PARAM}) -> vec4<f32> { return floats(vec4<u32>(a) & vec4<u32>(0xfu, 0xf0u, 0xf00u, 0xf000u)${LESS}); }
//% elif PLAIN
fn in_place(a: u32, b: u32${LESS_PARAM}) -> vec4<f32> {
  return floats(vec4<u32>(a, a, b, b) & vec4<u32>(0xffu, 0xff00u, 0xffu, 0xff00u)${LESS});
}
//% endif
//% endmacro

//% macro numbers(w, s, g)
//% set j = "%s %% %du" % (g, quant.BLOCK // 32) if quant.BLOCK > 32 else "0u"
      let scales = scales_of(${s}, ${j});
      let scale0 = scales.x * factors;
//% if quant.STEP < 32
      let scale1 = scales.y * factors;
//% endif
//% if quant.OFFSET
      let offsets = offsets_of(${s}, ${j});
//% endif
//% if quantised.ZERO == "whole"
      let less = fma(vec4<f32>(zeros_of(${s}, ${j}).x), vec4<f32>(${PLACES[0]}.0f, ${PLACES[1]}.0f, ${PLACES[2]}.0f, ${PLACES[3]}.0f), vec4<f32>(${MAGIC}.0f));
//% elif quantised.ZERO
      let zeros = zeros_of(${s}, ${j});
//% endif
//% for o in range(4)
//% if NIBBLES
//% set word = quantised.low_word(w, o)
//% set e, d = "in_place(" ~ word ~ LESS ~ ")", "in_place(" ~ word ~ " >> 16u" ~ LESS ~ ")"
//% elif PLAIN
//% set a, b = quantised.low_word(w, 2 * o), quantised.low_word(w, 2 * o + 1)
//% set e, d = "in_place(" ~ a ~ ", " ~ b ~ LESS ~ ")", "in_place(" ~ a ~ " >> 16u, " ~ b ~ " >> 16u" ~ LESS ~ ")"
//% else
//% for t in range(4)
      let c${4 * o + t} = ${quantised.couple(w, 4 * o + t)};
//% endfor
//% set all = "vec4<u32>(c%d, c%d, c%d, c%d)" % (4 * o, 4 * o + 1, 4 * o + 2, 4 * o + 3)
//% set less = " - zeros.%s" % "xy"[o // 2] if quantised.ZERO else ""
//% set e, d = "floats(" ~ all ~ " & vec4<u32>(0xffffu))" ~ less, "floats(" ~ all ~ " >> vec4<u32>(16u))" ~ less
//% endif
//% set part = o // 2 if quant.STEP < 32 else 0
//% for name, value in (("e", e), ("d", d))
//% if quant.OFFSET
      let ${name}${o} = fma(${value}, scale${part}, vec4<f32>(offsets[${o // 2}]));
//% else
      let ${name}${o} = ${value};
//% endif
//% endfor
//% endfor
//% endmacro

// The products of half of the group, or of all, with the even (`xe<o>`) and odd (`xd<o>`) numbers of b.
//% macro terms(first, last, start)
//% set found = namespace(text=start)
//% for o in range(first, last)
//% set found.text = "fma(d%d, xd%d, fma(e%d, xe%d, %s))" % (o, o, o, o, found.text)
//% endfor
${found.text}
//%- endmacro

// Adds the group's products to the sums.
//% macro sum(acc)
//% if quant.OFFSET
${terms(0, 4, acc)}
//%- elif quant.STEP < 32
fma(${terms(2, 4, "vec4<f32>()")}, scale1, fma(${terms(0, 2, "vec4<f32>()")}, scale0, ${acc}))
//%- else
fma(${terms(0, 4, "vec4<f32>()")}, scale0, ${acc})
//%- endif
//% endmacro

// Declares the numbers of group `g` of a row of b that begins at `from`: the even numbers are
// xe<o>, the odd numbers xd<o>.
//% macro vectors(from, g)
//% for o in range(4)
//% if B == "f32"
      let x${o}a = b_load(${from} + ${g} * 8u + ${2 * o}u);
      let x${o}b = b_load(${from} + ${g} * 8u + ${2 * o + 1}u);
      let xe${o} = vec4<f32>(x${o}a.xz, x${o}b.xz);
      let xd${o} = vec4<f32>(x${o}a.yw, x${o}b.yw);
//% else
      let h${o} = b_load(${from} + ${g} * 4u + ${o}u);
//% for i in range(4)
      let h${o}_${i} = unpack2x16float(h${o}[${i}]);
//% endfor
      let xe${o} = vec4<f32>(h${o}_0.x, h${o}_1.x, h${o}_2.x, h${o}_3.x);
      let xd${o} = vec4<f32>(h${o}_0.y, h${o}_1.y, h${o}_2.y, h${o}_3.y);
//% endif
//% endfor
//% endmacro
