// Products of one group of weights in packed halves, two numbers in each instruction. A chain
// multiplies eight couples, so each half of a word sums eight products in f16; the sums of chains
// are added up in f32.
//
// A number is converted exactly: its bits become the last bits of the half 1024, and 1024 is
// subtracted. Every second couple of nibbles stays shifted by four bits, and the factor 1/16 of a
// multiply-add undoes the shift. If a type has an offset, CENTRE is subtracted from its numbers and
// CENTRE times the scale is added to the offset, which keeps the sums small.
//% set NIBBLES = quant.decoded is not defined and quant.HIGH == 0 and quant.BITS == 4
//% set CENTRE = 2 ** (quant.BITS + quant.HIGH - 1) if quant.OFFSET else 0
//% set LESS = quant.BIAS + CENTRE

//% macro halves_of_word(bits)
vec2<f16>(unpack2x16float(${bits} | 0x64006400u))
//%- endmacro

// The constants of column c: one is subtracted from integers plus 1024, the other from integers plus 64.
//% macro less(base, c)
//% if quantised.ZERO
vec2<f16>(f16(${base}.0f + zeros${c}))
//%- else
vec2<f16>(${base + LESS}.0h)
//%- endif
//% endmacro

// Declares the couples of the group in `w`: h<c>_0 to h<c>_15. `s` is the group's record of scales,
// `g` its number.
//% macro numbers(c, w, s, g)
//% set j = "%s %% %du" % (g, quant.BLOCK // 32) if quant.BLOCK > 32 else "0u"
      let scales${c} = scales_of(${s}, ${j});
//% if quant.OFFSET
      let offsets${c} = ${"fma(scales%d, vec2<f32>(%d.0f), offsets_of(%s, %s))" % (c, CENTRE, s, j)};
//% endif
//% if quantised.ZERO
      let zeros${c} = zeros_of(${s}, ${j}).x;
//% endif
      let less${c} = ${less(1024, c)};
//% if NIBBLES
      let above${c} = ${less(64, c)};
//% for o in range(4)
      let a${c}_${o} = ${quantised.low_word(w, o)};
      let b${c}_${o} = a${c}_${o} >> 8u;
//% for name, t in (("a", 4 * o), ("b", 4 * o + 2))
      let h${c}_${t} = ${halves_of_word("(%s%d_%d & 0x000f000fu)" % (name, c, o))} - less${c};
      let h${c}_${t + 1} = fma(${halves_of_word("(%s%d_%d & 0x00f000f0u)" % (name, c, o))}, vec2<f16>(0.0625h), -above${c});
//% endfor
//% endfor
//% else
//% for t in range(16)
      let h${c}_${t} = ${halves_of_word(quantised.couple(w, t))} - less${c};
//% endfor
//% endif
//% endmacro

// A chain: the sum of the products of half of the group's couples with x0 to x7 (half 0) or x8 to
// x15 (half 1).
//% macro chain(c, half)
//% set found = namespace(text="h%d_%d * x%d" % (c, 8 * half, 8 * half))
//% for t in range(8 * half + 1, 8 * half + 8)
//% set found.text = "fma(h%d_%d, x%d, %s)" % (c, t, t, found.text)
//% endfor
${found.text}
//%- endmacro

// Adds the group's products to the sum `acc`. xs: the sums of x over each half of the group.
//% macro sum(c, acc)
      {
        let low = ${chain(c, 0)};
        let high = ${chain(c, 1)};
        let both = vec2<f32>(f32(low.x) + f32(low.y), f32(high.x) + f32(high.y));
//% if quant.STEP < 32
        let v = dot(scales${c}, both)${" + dot(offsets%d, xs)" % c if quant.OFFSET};
//% else
        let v = scales${c}.x * (both.x + both.y)${" + offsets%d.x * (xs.x + xs.y)" % c if quant.OFFSET};
//% endif
        ${acc} += v;
      }
//% endmacro

// Declares a group of a row of halves, 32 numbers from `memory[at]` on: couples x0 to x15, and the sums
// xs of both halves for types with an offset.
//% macro vectors(memory, at)
//% for i in range(8)
        let y${i} = ${memory}[${at} + ${i}u];
        let x${2 * i} = y${i}.xy;
        let x${2 * i + 1} = y${i}.zw;
//% endfor
//% if quant.OFFSET
        let x_low = ((x0 + x1) + (x2 + x3)) + ((x4 + x5) + (x6 + x7));
        let x_high = ((x8 + x9) + (x10 + x11)) + ((x12 + x13) + (x14 + x15));
        let xs = vec2<f32>(f32(x_low.x) + f32(x_low.y), f32(x_high.x) + f32(x_high.y));
//% endif
//% endmacro

//% macro functions()
fn is_finite(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
//% endmacro

// Declares `exact`, the products of column `n` of a matrix in rounds `start` to `end` of `per` groups, summed in
// f32. A row of halves lies in `memory` from element `from` on.
//% macro exact(memory, from, per, matrix="0u")
      var exact_acc = vec4<f32>();
      for (var g = start * ${per}u; g < min(end * ${per}u, groups); g += 1u) {
        let w = load_quants(${matrix}, g, n);
        let record = load_scales(${matrix}, g / ${quant.BLOCK // 32}u, n);
        ${quant_sums.numbers("w", "record", "g")}
//% for o in range(4)
        let y${2 * o} = vec4<f32>(${memory}[${from} + g * 8u + ${2 * o}u]);
        let y${2 * o + 1} = vec4<f32>(${memory}[${from} + g * 8u + ${2 * o + 1}u]);
        let xe${o} = vec4<f32>(y${2 * o}.xz, y${2 * o + 1}.xz);
        let xd${o} = vec4<f32>(y${2 * o}.yw, y${2 * o + 1}.yw);
//% endfor
        exact_acc = ${quant_sums.sum("exact_acc")|trim};
      }
      let exact = dot(exact_acc, vec4<f32>(1.0f));
//% endmacro

// Declares the words and scales of round r: w<group>_<column> and s<group>_<column>, for `per`
// groups and `held` columns of a matrix. Also declares g0, g1, ..., the groups' numbers; the caller
// has the columns' numbers n0 and n1.
//% set GROUPS = quant.BLOCK // 32
//% macro load(per, held, matrix="0u")
//% for u in range(per)
//% if GROUPS == 1 and u > 0
    let g${u} = min(r * ${per}u + ${u}u, groups - 1u);
//% else
    let g${u} = r * ${per}u + ${u}u;
//% endif
//% for c in range(held)
    let w${u}_${c} = load_quants(${matrix}, g${u}, n${c});
//% endfor
//% endfor
//% for c in range(held)
//% for u in range(per)
    let s${u}_${c} = ${"load_scales(%s, g%d / %du, n%d)" % (matrix, u, GROUPS, c) if GROUPS == 1 or u == 0 else "s0_%d" % c};
//% endfor
//% endfor
//% endmacro
