// Sines, tangents and their inverses: helpers of operations, see numeric.wgsl.

// x = n pi / 2 + r with r from -pi / 4 to pi / 4, for |x| up to 1e5. The parts of pi / 2 have 8
// bits each, and n has 16 bits, so the first five products are exact, whether or not the compiler
// fuses them with additions. Differences in which many digits cancel are exact, too. For larger
// |x|, r is bounded, and sine and cosine are some numbers in [-1, 1].
//% set PI2 = ["1.5703125f", "4.825592041015625e-4f", "1.2665987e-6f", "9.895302e-10f", "2.5579538e-12f", "5.390303e-15f"]
//% macro quarters()
fn quarters(x: V) -> V { return round(x * 0.63661977f); }

fn quarter_rest(x: V, n: V) -> V {
  var r = x - n * ${PI2[0]};
//% for part in PI2[1:]
  r = r - n * ${part};
//% endfor
  return clamp(r, V(-0.8f), V(0.8f));
}

fn sine_rest(r: V) -> V {
  let z = r * r;
  return (((-1.9507087e-4f * z + 8.332103e-3f) * z - 1.6666654e-1f) * z) * r + r;
}

fn cosine_rest(r: V) -> V {
  let z = r * r;
  return ((2.4429195e-5f * z - 1.3887293e-3f) * z + 4.1666646e-2f) * (z * z) - 0.5f * z + 1.0f;
}

// The sine of n quarter turns plus r; NaN if x is infinite or NaN.
fn sine_of(n: I, r: V, x: V) -> V {
  let y = select(sine_rest(r), cosine_rest(r), (n & I(1)) != I());
  let signed = bitcast<U>(y) ^ (bitcast<U>(n & I(2)) << U(30u));
  let bits = bitcast<U>(x);
  let endless = (bits & U(0x7fffffffu)) >= U(0x7f800000u);
  return bitcast<V>(select(signed, bits | U(0x7fc00000u), endless));
}
//% endmacro

//% macro tangent_rest()
fn tangent_rest(r: V) -> V {
  let z = r * r;
  var q = 4.569588e-3f * z - 2.9845248e-4f;
  q = q * z + 1.1138355e-2f;
  q = q * z + 2.1167008e-2f;
  q = q * z + 5.4081887e-2f;
  q = q * z + 1.3332473e-1f;
  q = q * z + 3.3333355e-1f;
  return (q * z) * r + r;
}
//% endmacro

// The arc sine of s, for s from 0 to 1/2; z is s^2.
//% macro arc_sine()
fn arc_sine(s: V, z: V) -> V {
  var q = 4.2158306e-2f * z + 2.4184778e-2f;
  q = q * z + 4.546915e-2f;
  q = q * z + 7.4953094e-2f;
  q = q * z + 1.6666752e-1f;
  return (q * z) * s + s;
}
//% endmacro

// The arc tangent of s, for s from 0 to 1.
//% macro arc_tangent()
fn arc_tangent(s: V) -> V {
  let z = s * s;
  var q = -1.790404e-3f * z + 1.0899693e-2f;
  q = q * z - 3.1148935e-2f;
  q = q * z + 5.792723e-2f;
  q = q * z - 8.401582e-2f;
  q = q * z + 1.0951506e-1f;
  q = q * z - 1.4264102e-1f;
  q = q * z + 1.9998534e-1f;
  q = q * z - 3.33333e-1f;
  return (q * z) * s + s;
}
//% endmacro
