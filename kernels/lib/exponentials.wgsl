// Exponentials, and functions that use them: helpers of operations, see numeric.wgsl.

// e^x 2^SHIFT, with an error of up to 1.5 units in the last place. It uses x = n ln 2 + r (Cody and
// Waite), a polynomial in r (Moshier's Cephes), and 2^n as two factors, because 2^n alone may leave
// the range of f32.
//% macro _exp(name, SHIFT=0)
fn ${name}(x: V) -> V {
  let bounded = clamp(x, V(-104.0f), V(90.0f));
  let n = floor(bounded * 1.44269504f + 0.5f);
  let r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  var q = 1.9875691500e-4f * r + 1.3981999507e-3f;
  q = q * r + 8.3334519073e-3f;
  q = q * r + 4.1665795894e-2f;
  q = q * r + 1.6666665459e-1f;
  q = q * r + 5.0000001201e-1f;
  q = q * (r * r) + r + 1.0f;
  let power = I(n)${" - %d" % -SHIFT if SHIFT else ""};
  let high = power >> U(1u);
  let low = power - high;
  let scaled = q * bitcast<V>((high + 127) << U(23u)) * bitcast<V>((low + 127) << U(23u));
  let nan = (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u);
  return select(scaled, x, nan);
}
//% endmacro

//% macro accurate_exp()
${_exp("accurate_exp")}
//% endmacro

// By the specification, the driver's own exp is within 3 + 2 |x| units in the last place of f32.
//% macro accurate_exp_f16()
fn accurate_exp(x: V) -> V { return exp(x); }
//% endmacro

// e^x / 2, which is finite for some x for which e^x overflows.
//% macro half_exp()
${_exp("half_exp", -1)}
//% endmacro

// 2^(r + n) for |r| up to 1/2.
//% macro exp2_scaled()
fn exp2_scaled(r: V, n: I) -> V {
  var q = 1.5462877e-4f * r + 1.3390984e-3f;
  q = q * r + 9.6180625e-3f;
  q = q * r + 5.5503596e-2f;
  q = q * r + 2.402265e-1f;
  q = q * r + 6.931472e-1f;
  q = q * r + 1.0f;
  let high = n >> U(1u);
  let low = n - high;
  return q * bitcast<V>((high + 127) << U(23u)) * bitcast<V>((low + 127) << U(23u));
}
//% endmacro

//% macro accurate_exp2()
fn accurate_exp2(x: V) -> V {
  let n = round(clamp(x, V(-150.0f), V(129.0f)));
  let y = exp2_scaled(clamp(x - n, V(-1.0f), V(1.0f)), I(n));
  return select(y, x, (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u));
}
//% endmacro

//% macro accurate_exp2_f16()
fn accurate_exp2(x: V) -> V { return exp2(x); }
//% endmacro

// e^x - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2)) with x = n ln 2 + r.
//% macro accurate_expm1()
fn accurate_expm1(x: V) -> V {
  let bounded = clamp(x, V(-18.0f), V(89.0f));
  let n = round(bounded * 1.44269504f);
  let r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  var q = 1.9764245e-4f * r + 1.3932342e-3f;
  q = q * r + 8.333543e-3f;
  q = q * r + 4.1666493e-2f;
  q = q * r + 1.6666666e-1f;
  q = q * r + 0.5f;
  let p = q * (r * r) + r;
  let half = bitcast<V>((I(n) + 126) << U(23u));
  let y = 2.0f * (half * p + (half - 0.5f));
  let size = bitcast<U>(x) & U(0x7fffffffu);
  // Below 2^-25 the result is x.
  return select(y, x, (size < U(0x33000000u)) | (size > U(0x7f800000u)));
}
//% endmacro

// For a small x, the result is the sum of the terms up to x^4.
//% macro accurate_expm1_f16()
fn accurate_expm1(x: V) -> V {
  let small = x * (((4.1666668e-2f * x + 1.6666667e-1f) * x + 0.5f) * x + 1.0f);
  return select(exp(x) - 1.0f, small, abs(x) < V(0.25f));
}
//% endmacro

// x times the normal distribution function of x: max(x, 0) - s e^(-s^2 / 2) P(t) with s = |x| and
// t = 1 / (1 + 0.3 s). The square has two parts; the first is a product of two numbers of twelve
// bits, so it is exact. e^r 2^n has the bits of e^r, with n added to the exponent; n is in the last
// bits of n + 1.5 2^23. For s from 13.2 on, the second term is 0. |r| is at most 0.35, where every
// driver's exp2 is as exact as a polynomial.
//% macro accurate_gelu()
fn accurate_gelu(x: V) -> V {
  let s = min(abs(x), V(13.2f));
  let high = bitcast<V>(bitcast<U>(s) & U(0xfffff000u));
  let square = high * high;
  let n = round(square * -0.72134752f);
  let r = ((-0.5f * square - n * 0.693359375f) + n * 2.12194440e-4f) - 0.5f * ((s - high) * (s + high));
  let power = bitcast<V>(bitcast<U>(exp2(r * 1.44269504f)) + (bitcast<U>(n + 12582912.0f) << U(23u)));
  let e = select(power, V(), s >= V(13.2f));
  let t = 1.0f / (1.0f + 0.3f * s);
  var q = 3.8298953e-2f * t - 1.6877988e-1f;
  q = q * t + 2.2786081e-1f;
  q = q * t - 7.5590529e-2f;
  q = q * t + 1.4190143e-1f;
  q = q * t + 9.4954327e-2f;
  q = q * t + 1.21850848e-1f;
  q = q * t + 1.19497463e-1f;
  q = q * t + 6.5927152e-6f;
  // s e is computed first, because q e may be smaller than the smallest normal number. Tint loses
  // the sign of -0.0f.
  return select(x, bitcast<V>(bitcast<U>(x) & U(0x80000000u)), x < V()) - (s * e) * q;
}
//% endmacro
