// Online softmax (Milakov and Gimelshein 2018) of logits that are exponents of two: a running
// maximum m of each row, the sum l of 2^(logit - m), and the weighted sum o of the values.

// V: the type of a logit, or of the logits of N neighbouring keys.
//% macro functions(N)
//% for name, type in (("V", "f32"), ("VI", "i32"), ("VU", "u32"))
alias ${name} = ${"vec4<" ~ type ~ ">" if N == 4 else type};
//% endfor
const LOG2E = 1.44269504f;
const LN2 = 0.693147181f;
const LOWEST = -0x1.fffffep+127f;
const MINUS_INF = 0xff800000u;

// 2^d for d <= 0 (the difference from a maximum). The result is 0 below 2^-126 and for -inf, and
// NaN for NaN.
fn exp2_shifted(d: V) -> V { return select(exp2(d), V(), d < V(-126.0f)); }

fn is_lost(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u; }
//% endmacro

// -- A tile of a workgroup: rows s<row>_<vector of keys> in the registers of several invocations -------
// TR: rows of an invocation, CV and DV: vectors of its keys and columns of values; its vectors of four
// rows begin at `at_row` and are QH vectors apart.
//
// A row subtracts from its logits a maximum that changes only if a logit exceeds it by SLACK. So in
// most tiles invocations exchange only a flag; in the others, invocations with such logits raise
// their rows' maxima.

//% macro tile_memory(BR)
// The maxima of all rows, as ordered integers, and the last tile (counted from 1) that raised a
// maximum.
var<workgroup> row_max: array<atomic<i32>, ${BR}>;
var<workgroup> raised: atomic<u32>;
//% endmacro

//% macro tile_functions()
// The number of powers of two by which a logit may exceed its row's maximum.
const SLACK = 8.0f;

// Maps the bits of floats to integers of the same order; the function is its own inverse.
fn ordered(bits: i32) -> i32 { return bits ^ ((bits >> 31u) & 0x7fffffff); }
//% endmacro

//% macro tile_registers(TR, DV)
//% for r in range(TR // 4)
  var m${r} = vec4<f32>(LOWEST);
  var l${r} = vec4<f32>();
//% endfor
//% for i in range(TR)
//% for j in range(DV)
  var o${i}_${j} = vec4<f32>();
//% endfor
//% endfor
//% endmacro

//% macro tile_init(BR)
  if (li < ${BR}u) { atomicStore(&row_max[li], ordered(bitcast<i32>(LOWEST))); }
  if (li == 0u) { atomicStore(&raised, 0u); }
//% endmacro

// Raises the maxima of rows whose logits s * factor exceed m by too much; a NaN raises no maximum.
//% macro raise_row_max(TR, CV, QH)
//% for r in range(TR // 4)
    let t${r} = vec4<f32>(
//% for e in range(4)
//% set v = "max(s" ~ (4 * r + e) ~ "_0, s" ~ (4 * r + e) ~ "_" ~ (CV - 1) ~ ")"
      max(max(${v}.x, ${v}.y), max(${v}.z, ${v}.w)),
//% endfor
    );
    let above${r} = fma(t${r}, vec4<f32>(factor), -m${r}) > vec4<f32>(SLACK);
//% endfor
    if (any(above0${" | above1" if TR == 8 else ""})) {
//% for i in range(TR)
      atomicMax(&row_max[4u * at_row + ${i // 4 * 4 * QH + i % 4}u], ordered(bitcast<i32>(t${i // 4}[${i % 4}] * factor)));
//% endfor
      atomicMax(&raised, tile + 1u);
    }
//% endmacro

// Sets m to the rows' maxima, and scales l and o down by 2 to the power of the difference.
//% macro rescale(TR, DV, QH)
    if (atomicLoad(&raised) == tile + 1u) {
//% for r in range(TR // 4)
      let new_max${r} = bitcast<vec4<f32>>(vec4<i32>(
//% for e in range(4)
        ordered(atomicLoad(&row_max[4u * at_row + ${4 * QH * r + e}u])),
//% endfor
      ));
      let shrink${r} = exp2_shifted(m${r} - new_max${r});
      m${r} = new_max${r};
      l${r} *= shrink${r};
//% endfor
//% for i in range(TR)
//% for j in range(DV)
      o${i}_${j} *= shrink${i // 4}[${i % 4}];
//% endfor
//% endfor
    }
//% endmacro

// Replaces s by 2^(s * factor - m), and adds it to l. Only a tile with masked logits (not `plain`)
// needs exp2_shifted, whose result is 0 below 2^-126.
//% macro exponentiate(TR, CV)
    if (plain) {
//% for i in range(TR)
//% for j in range(CV)
      s${i}_${j} = exp2(fma(s${i}_${j}, vec4<f32>(factor), -vec4<f32>(m${i // 4}[${i % 4}])));
//% endfor
//% endfor
    } else {
//% for i in range(TR)
//% for j in range(CV)
      s${i}_${j} = exp2_shifted(fma(s${i}_${j}, vec4<f32>(factor), -vec4<f32>(m${i // 4}[${i % 4}])));
//% endfor
//% endfor
    }
//% for r in range(TR // 4)
    l${r} += vec4<f32>(
//% for e in range(4)
//% set v = "(s" ~ (4 * r + e) ~ "_0" ~ (" + s" ~ (4 * r + e) ~ "_1" if CV > 1 else "") ~ ")"
      (${v}.x + ${v}.y) + (${v}.z + ${v}.w),
//% endfor
    );
//% endfor
//% endmacro
