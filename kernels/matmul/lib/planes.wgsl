// Converts f32 to two planes of halves: x times a power of two is high + low / 2048.

// The power of two by which a row with this largest magnitude is multiplied, so that its largest
// magnitude lies from 2^14 to 2^15. inf and NaN count as the largest finite number, subnormal
// numbers as the smallest normal number.
//% macro exponents()
fn exponent_of(top: f32) -> i32 {
  return 141 - clamp(i32((bitcast<u32>(top) >> 23u) & 255u), 1, 254);
}

// x times 2^n, multiplied in two steps, because 2^n alone may leave the range of f32.
fn times_power(x: vec4<f32>, n: vec4<i32>) -> vec4<f32> {
  let first = clamp(n, vec4<i32>(-126), vec4<i32>(126));
  let second = clamp(n - first, vec4<i32>(-126), vec4<i32>(126));
  return x * bitcast<vec4<f32>>((first + 127) << vec4<u32>(23u)) * bitcast<vec4<f32>>((second + 127) << vec4<u32>(23u));
}
//% endmacro
