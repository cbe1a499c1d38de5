// Code that the bodies of pools share: an order of floats that includes NaN, and the positions of
// windows.

// The bits of floats as unsigned numbers of the same order: -inf is 0, +inf is 0xff000001, and NaN
// is above. `value_of` is exact, so that the largest key gives the largest element back.
//% macro keys(VEC)
//% set V, U, I = ("f32", "u32", "i32") if VEC == 1 else ("vec4<f32>", "vec4<u32>", "vec4<i32>")
fn key_of(v: ${V}) -> ${U} {
  let bits = bitcast<${I}>(v);
  return bitcast<${U}>(bits ^ ((bits >> ${U}(31u)) & ${I}(0x7fffffff))) - ${U}(0x807fffffu);
}
fn value_of(key: ${U}) -> ${V} {
  let bits = bitcast<${I}>(key + ${U}(0x807fffffu));
  return bitcast<${V}>(bits ^ ((bits >> ${U}(31u)) & ${I}(0x7fffffff)));
}
// Ranks of elements, for positions: both zeros have the same rank, and all NaNs have the same rank.
fn rank_of(v: ${V}) -> ${U} {
  let zero = bitcast<${U}>(v) == ${U}(0x80000000u);
  return min(key_of(select(v, ${V}(), zero)), ${U}(0xff000002u));
}
//% endmacro

// Window o along an axis is [start, end) in steps of `dilation`. A mean divides by the number of
// elements that count, which is end - start after both are clamped, either to the padded image or
// to the image without padding.
//% macro windows(lengths)
${quotient()}
//% for a in "hw"
fn start_${a}(o: u32) -> i32 { return i32(quotient(o * p.step_${a}, p.unit_${a})) - p.pad_${a}; }
fn end_${a}(o: u32) -> i32 { return i32(quotient(o * p.step_${a} + p.last_${a}, p.unit_${a})) - p.pad_${a}; }
//% if lengths
fn length_${a}(o: u32) -> i32 { return min(end_${a}(o), p.high_${a}) - max(start_${a}(o), p.low_${a}); }
//% endif
//% endfor
//% endmacro

// A quotient. If the divisor is 1, as for most windows, there is no division. All invocations take
// the same branch.
//% macro quotient()
fn quotient(a: u32, unit: u32) -> u32 {
  if (unit == 1u) { return a; }
  return a / unit;
}
//% endmacro

// The divisor of a mean over these rows and columns: p.divisor, unless that is 0. A window without
// elements that count (only padding, which is excluded) has the sum 0, and so a mean of 0.
//% macro divisor()
fn divisor(rows: i32, cols: i32) -> f32 {
  return select(f32(max(rows * cols, 1)), p.divisor, p.divisor != 0.0f);
}
//% endmacro
