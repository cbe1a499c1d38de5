// Reads quantised weights for products. docs/design/quant.md describes the planes and the order of
// bits.
//
// A group is 32 numbers of one row. Couple t of a group is a word with the numbers 2 t (low half)
// and 2 t + 1 (high half) as stored, without a sign. The lower BITS bits of each number are in the
// plane `low`, the HIGH bits above them in the plane `high`. The library `quant`, which has one
// file for each type, comes before this library.
//% set BITS, HIGH, VEC, PARTS, WORDS = quant.BITS, quant.HIGH, quant.VEC, quant.PARTS, quant.WORDS
// If a type has zero points, a number is scale (q - zero). ZERO is "whole" for an integer zero
// point of each group, and "any" for a zero point of each scale.
//% set ZERO = quant.ZERO if quant.ZERO is defined else ""

// The functions load_quants, load_scales, scales_of, offsets_of and zeros_of. With EXACT, halves
// are converted without the driver, which may flush subnormal halves to 0.
//% macro functions(EXACT=false)
struct Quants {
//% for i in range(PARTS)
  low${i}: vec${VEC}<u32>,
//% endfor
//% for i in range(HIGH)
  high${i}: u32,
//% endfor
}
fn load_quants(b: u32, g: u32, n: u32) -> Quants {
  let at = p.low_off + b * p.low_bs + g * p.low_gs + n;
//% if HIGH
  let above = p.high_off + b * p.high_bs + g * p.high_gs + n;
//% endif
  return Quants(
//% for i in range(PARTS)
    low_load(at${" + p.low_ps" if i else ""}),
//% endfor
//% for i in range(HIGH)
    high_load(above${" + p.high_ps" if i else ""}),
//% endfor
  );
}

struct Scales {
//% for k in range(WORDS)
  word${k}: u32,
//% endfor
}
// Loads the words without unpacking them. They are loaded ahead of their use, and any operation on
// them would wait for the load.
fn load_words(b: u32, s: u32, n: u32) -> Scales {
  let at = p.scales_off + b * p.scales_bs + s * p.scales_gs + ${"n" if quant.SHARE == 1 else "n / %du" % quant.SHARE};
  return Scales(
//% for k in range(WORDS)
    scales_load(at${" + %du * p.scales_ws" % k if k}),
//% endfor
  );
}
// The part of these words that belongs to row n.
fn own_words(s: Scales, n: u32) -> Scales {
//% if quant.SHARE == 1
  return s;
//% else
  return Scales((s.word0 >> ((n % ${quant.SHARE}u) * ${32 // quant.SHARE}u)) & ${2 ** (32 // quant.SHARE) - 1}u);
//% endif
}
fn load_scales(b: u32, s: u32, n: u32) -> Scales { return own_words(load_words(b, s, n), n); }
//% if EXACT
// Converts every half exactly, even subnormal halves and NaN, which drivers treat differently.
fn half_of(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let rest = h & 0x7fffu;
  let normal = (rest << 13u) + 0x38000000u;
  let small = bitcast<u32>(f32(rest) * 0x1p-24f);
  let special = 0x7f800000u | ((rest & 0x3ffu) << 13u);
  return bitcast<f32>(sign | select(select(normal, small, rest < 0x400u), special, rest >= 0x7c00u));
}
fn halves_of(word: u32) -> vec2<f32> { return vec2<f32>(half_of(word & 0xffffu), half_of(word >> 16u)); }
//% else
fn half_of(h: u32) -> f32 { return unpack2x16float(h).x; }
fn halves_of(word: u32) -> vec2<f32> { return unpack2x16float(word); }
//% endif
${quant.scales()}
//% endmacro

// x shifted to the right by n bits, or to the left if n is negative.
//% macro shifted(x, n)
${"(" ~ x ~ " >> " ~ n ~ "u)" if n > 0 else "(" ~ x ~ " << " ~ (-n) ~ "u)" if n < 0 else x}
//%- endmacro

//% macro low_word(w, j)
${w}.low${j // VEC}.${"xyzw"[j % VEC]}
//%- endmacro

// Couple t of the group whose words are w, as stored.
//% macro stored(w, t)
//% set each = 16 // BITS
//% set mask = "0x%04x%04xu" % (2 ** BITS - 1, 2 ** BITS - 1)
//% set base = "(" ~ shifted(low_word(w, t // each), (t % each) * BITS) ~ " & " ~ mask ~ ")"
//% if HIGH == 0
${base}
//%- else
//% set more = 16 // HIGH
//% set top = (2 ** HIGH - 1) * 2 ** BITS
(${base} | (${shifted(w ~ ".high" ~ (t // more), (t % more) * HIGH - BITS)} & ${"0x%04x%04xu" % (top, top)}))
//%- endif
//%- endmacro

// The same couple as integers: each number plus BIAS.
//% macro couple(w, t)
${quant.decoded(stored(w, t)) if quant.decoded is defined else stored(w, t)}
//%- endmacro

// Numbers 2 t and 2 t + 1 as halves, exact integers.
//% macro pair(w, t)
(vec2<f16>(unpack2x16float(${couple(w, t)} | 0x64006400u)) - vec2<f16>(${1024 + quant.BIAS}.0h))
//%- endmacro

// Numbers 4 i to 4 i + 3 as f32, exact integers.
//% macro four(w, i)
//% set a = couple(w, 2 * i)
//% set b = couple(w, 2 * i + 1)
(vec4<f32>(vec4<u32>(${a} & 0xffffu, ${a} >> 16u, ${b} & 0xffffu, ${b} >> 16u))${" - %d.0f" % quant.BIAS if quant.BIAS else ""})
//%- endmacro

// Four signed bytes, each a number plus WORD_BIAS: the two even numbers, then the two odd numbers, of
// couple t and of the couple that lies half a word of `low` further on. i is 0 to 7.
//% macro word(w, i)
//% set step = 8 // BITS
//% set t = (i // step) * 2 * step + i % step
//% if quant.decoded is defined
((${couple(w, t)} | (${couple(w, t + step)} << 8u)) ^ 0x80808080u)
//%- elif HIGH
(${couple(w, t)} | (${couple(w, t + step)} << 8u))
//%- elif BITS == 8
(${low_word(w, i)} ^ 0x80808080u)
//%- else
(${shifted(low_word(w, i // step), (i % step) * BITS)} & ${"0x%08xu" % ((2 ** BITS - 1) * 0x01010101)})
//%- endif
//%- endmacro
