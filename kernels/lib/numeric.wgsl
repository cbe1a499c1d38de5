// Functions of numbers that drivers have not, or have too rough: helpers of operations. Their types
// are written as in the text of a row: V of a value, U, I and B of its bits and conditions.
//
// Drivers may assume that there is no NaN and no infinity, fuse a product and a sum, or fold
// (a + b) - a and (a / b) * b. So special values are told by their bits, infinities and NaNs are made of bits that are
// known at run time only, and no text needs the rounding error of a sum. Polynomials are minimax
// fits of relative error (Remez's problem by Lawson's weights), coefficients rounded one by one.

//% macro is_nan()
fn is_nan(x: V) -> B {
  return (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u);
}
//% endmacro

// y, or NaN where x is one.
//% macro keep_nan()
fn keep_nan(y: V, x: V) -> V {
  return select(y, x, (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u));
}
//% endmacro

// y, or NaN where `outside`; x is any number of the same place.
//% macro nan_where()
fn nan_where(outside: B, x: V, y: V) -> V {
  return select(y, bitcast<V>(bitcast<U>(x) | U(0x7fc00000u)), outside);
}
//% endmacro

// The magnitude of x with the sign of s.
//% macro with_sign()
fn with_sign(x: V, s: V) -> V {
  return bitcast<V>((bitcast<U>(x) & U(0x7fffffffu)) | (bitcast<U>(s) & U(0x80000000u)));
}
//% endmacro

// Is x below 0? Never for a NaN.
//% macro is_negative()
fn is_negative(x: V) -> B {
  let bits = bitcast<U>(x);
  return (bits > U(0x80000000u)) & (bits <= U(0xff800000u));
}
//% endmacro

// Integers in the order of the numbers: both zeros are 0.
//% macro ordered()
fn ordered(x: V) -> I {
  let bits = bitcast<I>(x);
  return select(bits, I(-2147483647 - 1) - bits, bits < I());
}
//% endmacro

// The square root, one step of Newton behind the driver's reciprocal square root; NaN below 0.
//% macro accurate_sqrt()
fn accurate_sqrt(x: V) -> V {
  let bits = bitcast<U>(x);
  let r = inverseSqrt(x);
  let y = x * r;
  let better = y + y * (0.5f - y * (0.5f * r));
  // Zeros, numbers that may count as zero, infinity and NaN are what they were.
  let kept = ((bits & U(0x7fffffffu)) < U(0x00800000u)) | (bits >= U(0x7f800000u));
  let negative = (bits > U(0x80800000u)) & (bits <= U(0xff800000u));
  return select(select(better, x, kept), bitcast<V>(bits | U(0x7fc00000u)), negative);
}
//% endmacro

// a / b with one correction of the driver's quotient, where that is finite and not 0.
//% macro quotient()
fn quotient(a: V, b: V) -> V {
  let q = a / b;
  let rest = (a - q * b) * (1.0f / b);
  let size = bitcast<U>(rest) & U(0x7fffffffu);
  return select(q, q + rest, (size - U(1u)) < U(0x7f7fffffu));
}
//% endmacro

// e^x 2^SHIFT to 1.5 units in the last place: x = n ln 2 + r (Cody and Waite), a polynomial in r
// (Moshier's Cephes), and 2^n in two factors, as one would leave the range of f32.
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

// The driver's own is within 3 + 2 |x| units of f32 by the specification.
//% macro accurate_exp_f16()
fn accurate_exp(x: V) -> V { return exp(x); }
//% endmacro

// e^x / 2, which is finite for a little longer.
//% macro half_exp()
${_exp("half_exp", -1)}
//% endmacro

// 2^(r + n) for |r| to 1/2.
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
  return select(y, x, (size < U(0x33000000u)) | (size > U(0x7f800000u)));  // below 2^-25 it is x
}
//% endmacro

// Of a small x, the terms to x^4.
//% macro accurate_expm1_f16()
fn accurate_expm1(x: V) -> V {
  let small = x * (((4.1666668e-2f * x + 1.6666667e-1f) * x + 0.5f) * x + 1.0f);
  return select(exp(x) - 1.0f, small, abs(x) < V(0.25f));
}
//% endmacro

// Parts of logarithms. x = 2^e (1 + f) with f from sqrt(1/2) - 1 to sqrt(2) - 1, and log(1 + f) - f;
// what log(x) is where x is no positive number.
//% macro log_parts()
fn log_bits(x: V) -> U { // of 2^149 x where x is subnormal
  let bits = bitcast<U>(x);
  return select(bits, bitcast<U>(V(bits)), bits < U(0x00800000u));
}

fn log_exponent(bits: U) -> I {
  return bitcast<I>(bits - U(0x3f3504f3u)) >> U(23u);
}

fn log_fraction(bits: U, e: I) -> V {
  return bitcast<V>(bits - (bitcast<U>(e) << U(23u))) - 1.0f;
}

fn log_power(x: V, e: I) -> V {
  return V(e) - select(V(), V(149.0f), bitcast<U>(x) < U(0x00800000u));
}

fn log1p_rest(f: V) -> V {
  var q = -7.6369405e-2f * f + 1.2762485e-1f;
  q = q * f - 1.315955e-1f;
  q = q * f + 1.420154e-1f;
  q = q * f - 1.662341e-1f;
  q = q * f + 2.0001243e-1f;
  q = q * f - 2.500082e-1f;
  q = q * f + 3.333333e-1f;
  return (f * f) * (q * f - 0.5f);
}

fn log_edges(y: V, x: V) -> V {
  let bits = bitcast<U>(x);
  let zero = (bits & U(0x7fffffffu)) == U();
  let below = select(bits | U(0x7fc00000u), bits | U(0xff800000u), zero);
  let edge = select(bits, below, (bits >= U(0x80000000u)) | zero);
  return select(y, bitcast<V>(edge), zero | (bits >= U(0x7f800000u)));
}
//% endmacro

//% macro accurate_log()
fn accurate_log(x: V) -> V {
  let bits = log_bits(x);
  let e = log_exponent(bits);
  let n = log_power(x, e);
  let f = log_fraction(bits, e);
  return log_edges(n * 0.693359375f + (f + (log1p_rest(f) - n * 2.12194440e-4f)), x);
}
//% endmacro

// log(1 + x): the exponent e of 1 + x, and f = x 2^-e + (2^-e - 1), which does not see how 1 + x was
// rounded. In quarters, as 2^-128 is no normal number.
//% macro accurate_log1p()
fn accurate_log1p(x: V) -> V {
  let sum = 1.0f + x;
  let e = log_exponent(bitcast<U>(sum));
  let n = V(e);
  let four = bitcast<V>((129 - e) << U(23u));  // 4 2^-e
  let f = (0.25f * x) * four + (0.25f * four - 1.0f);
  let y = log_edges(n * 0.693359375f + (f + (log1p_rest(f) - n * 2.12194440e-4f)), sum);
  return select(y, x, (bitcast<U>(x) & U(0x7fffffffu)) < U(0x33000000u));  // below 2^-25 it is x
}
//% endmacro

// log(1 + x) for x from 0 to 1: twice the artanh of x / (2 + x).
//% macro log1p_of_unit()
fn log1p_of_unit(x: V) -> V {
  let t = x / (2.0f + x);
  let z = t * t;
  let q = ((1.400601e-1f * z + 1.40009e-1f) * z + 2.00107634e-1f) * z + 3.3333209e-1f;
  return 2.0f * t + (2.0f * t) * (z * q);
}
//% endmacro

// x = n pi / 2 + r with r from -pi / 4 to pi / 4 for |x| to 1e5. The parts of pi / 2 have 8 bits each,
// so that the first five products are exact, fused or not (n has 16 bits), and so are the differences
// where much cancels. Beyond, r is bounded, and sine and cosine are some numbers of [-1, 1].
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

// The sine of n quarters and r; NaN where x is infinite or one.
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

// The arc sine of s from 0 to 1/2, z = s^2.
//% macro arc_sine()
fn arc_sine(s: V, z: V) -> V {
  var q = 4.2158306e-2f * z + 2.4184778e-2f;
  q = q * z + 4.546915e-2f;
  q = q * z + 7.4953094e-2f;
  q = q * z + 1.6666752e-1f;
  return (q * z) * s + s;
}
//% endmacro

// The arc tangent of s from 0 to 1.
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

// x times the normal distribution function of x: max(x, 0) - s e^(-s^2 / 2) P(t) with s = |x| and
// t = 1 / (1 + 0.3 s). Of the two parts of the square, the first has twelve bits times twelve, and is
// exact. e^r 2^n is the bits of e^r and n in the exponent: n is the last bits of n + 1.5 2^23. From
// 13.2 on it is 0. |r| is at most 0.35, where 2 to its power is as good as a polynomial anywhere.
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
  // s e first: q e may be smaller than the smallest normal number. Tint loses the sign of -0.0f.
  return select(x, bitcast<V>(bitcast<U>(x) & U(0x80000000u)), x < V()) - (s * e) * q;
}
//% endmacro

// a - n b with the n toward zero, exact: a long division of the mantissas, eight bits a step.
//% macro truncated_rest()
fn truncated_rest(a: V, b: V) -> V {
  let x = bitcast<U>(a) & U(0x7fffffffu);
  let y = bitcast<U>(b) & U(0x7fffffffu);
  let ex = max(x >> U(23u), U(1u));
  let ey = max(y >> U(23u), U(1u));
  let implicit = U(0x00800000u);
  var m = (x & U(0x007fffffu)) | select(U(), implicit, x >= implicit);
  let d = max((y & U(0x007fffffu)) | select(U(), implicit, y >= implicit), U(1u));
  var left = bitcast<I>(ex) - bitcast<I>(ey);
  let divisor = select(d, U(0xffffffffu), left < I());  // |a| < |b|: a is the rest
  loop {
    let step = clamp(left, I(), I(8));
    m = (m << bitcast<U>(step)) % divisor;
    left = left - step;
    if (!any(left > I())) { break; }
  }
  let rest = (V(m) * 0x1p-23f) * bitcast<V>(min(ex, ey) << U(23u));
  let bits = bitcast<U>(a);
  let signed = bitcast<U>(rest) | (bits & U(0x80000000u));
  let none = (x >= U(0x7f800000u)) | (y == U()) | (y > U(0x7f800000u));
  return bitcast<V>(select(signed, bits | U(0x7fc00000u), none));
}
//% endmacro

// a^b as C says. log2 of |a| = 2^e (1 + f) is e + 2 / ln 2 (s + s^3 / 3 + ...), s = f / (2 + f); what
// is large is kept in parts of twelve bits, so that b log2 |a| is good to 2^-25.
//% macro accurate_pow()
fn accurate_pow(a: V, b: V) -> V {
  let size = bitcast<U>(a) & U(0x7fffffffu);
  let bits = log_bits(bitcast<V>(size));
  let e = log_exponent(bits);
  let f = log_fraction(bits, e);
  let n = log_power(bitcast<V>(size), e);
  let per = 1.0f / (2.0f + f);
  let s = f * per;
  let s_high = bitcast<V>(bitcast<U>(s) & U(0xfffff000u));
  let f_high = bitcast<V>(bitcast<U>(f) & U(0xfffff000u));
  let s_low = (((f - 2.0f * s_high) - s_high * f_high) - s_high * (f - f_high)) * per;
  let better = s_high + s_low;
  let z = better * better;
  let cubes = (((3.3661982e-1f * z + 4.119216e-1f) * z + 5.770789e-1f) * z + 9.617967e-1f) * (z * better);
  let first = s_high * 2.884765625f;  // 2 / ln 2 in two parts
  let l_high = bitcast<V>(bitcast<U>(first) & U(0xfffff000u));
  let l_low = (first - l_high) + (s_high * 6.2445657e-4f + (s_low * 2.8853901f + cubes));
  let power = clamp(b, V(-2147483648.0f), V(2147483648.0f));
  let p_high = bitcast<V>(bitcast<U>(power) & U(0xfffff000u));
  let p_low = power - p_high;
  let tail = p_low * (n + l_high) + power * l_low;
  let whole = round(clamp(p_high * n + p_high * l_high + tail, V(-200.0f), V(200.0f)));
  let r = clamp(((p_high * n - whole) + p_high * l_high) + tail, V(-1.0f), V(1.0f));
  var y = exp2_scaled(r, I(whole));

  let b_size = bitcast<U>(b) & U(0x7fffffffu);
  let edge = (size == U()) | (size == U(0x7f800000u));
  let grows = (size == U()) == (bitcast<U>(b) >= U(0x80000000u));
  y = select(y, bitcast<V>(select(U(), U(0x7f800000u), grows)), edge);
  let even = b_size >= U(0x4b800000u);  // 2^24 and more
  let integral = even | (trunc(b) == b);
  let odd = integral & !even & ((I(power) & I(1)) != I());
  let negative = bitcast<U>(a) >= U(0x80000000u);
  y = bitcast<V>(bitcast<U>(y) ^ select(U(), U(0x80000000u), negative & odd));
  let none = (negative & !integral & !edge) | (size > U(0x7f800000u)) | (b_size > U(0x7f800000u));
  y = select(y, bitcast<V>(bitcast<U>(a) | U(0x7fc00000u)), none);
  return select(y, V(1.0f), (b_size == U()) | (bitcast<U>(a) == U(0x3f800000u)));
}
//% endmacro
