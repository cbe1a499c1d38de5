// Code that the bodies of norms share.

// (s0 + s1) + (s2 + s3) ...: sums of many terms are most accurate if they are added in pairs.
//% macro plus(s, N, first=0)
${s ~ first if N == 1 else "(" ~ plus(s, N // 2, first) ~ " + " ~ plus(s, N // 2, first + N // 2) ~ ")"}
//%- endmacro

// The sum of the components.
//% macro across(s, VEC)
${"dot(" ~ s ~ ", vec4<f32>(1.0f))" if VEC == 4 else s}
//%- endmacro

// The factor of a row, from the sum of squares of the row or of its differences from the mean.
// The bits are compared, because in their order NaN is the largest.
//% macro inverse(S)
//% set U = S.replace("f32", "u32")
fn inverse(squares: ${S}) -> ${S} {
  if (p.l2 == 1u) {
    return ${S}(1.0f) / bitcast<${S}>(max(bitcast<${U}>(sqrt(squares)), ${U}(bitcast<u32>(p.eps))));
  }
  return inverseSqrt(squares / p.count + p.eps);
}
//% endmacro

// Reads mean_K (as pivot and offset) and the squares from memory, and computes factor_K. All three
// tensors have the same layout; `at` is the index of the squares.
//% macro statistics(k, at, S)
  let statistic_${k} = ${at} - p.squares_off;
  let factor_${k} = inverse(squares_load(p.squares_off + statistic_${k}));
  var pivot_${k} = ${S}();
  var offset_${k} = ${S}();
  if (p.has_pivot == 1u) { pivot_${k} = pivot_load(p.pivot_off + statistic_${k}); }
  if (p.has_offset == 1u) { offset_${k} = offset_load(p.offset_off + statistic_${k}); }
//% endmacro

//% macro normalized(v, k, V)
((${v} - ${V}(pivot_${k})) - ${V}(offset_${k})) * ${V}(factor_${k})
//%- endmacro
