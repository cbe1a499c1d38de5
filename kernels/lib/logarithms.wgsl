// Logarithms and powers: helpers of operations, see numeric.wgsl.

// Parts of logarithms: e and f with x = 2^e (1 + f) and f from sqrt(1/2) - 1 to sqrt(2) - 1; log(1
// + f) - f; and log(x) for an x that is not a positive number.
//% macro log_parts()
fn log_bits(x: V) -> U { // the exponent of 2^149 x, if x is subnormal
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

// log(1 + x): the exponent e of 1 + x, and f = x 2^-e + (2^-e - 1), which does not depend on the
// rounding of 1 + x. It is computed with 4 2^-e, because 2^-128 is not a normal number.
//% macro accurate_log1p()
fn accurate_log1p(x: V) -> V {
  let sum = 1.0f + x;
  let e = log_exponent(bitcast<U>(sum));
  let n = V(e);
  let four = bitcast<V>((129 - e) << U(23u));  // 4 2^-e
  let f = (0.25f * x) * four + (0.25f * four - 1.0f);
  let y = log_edges(n * 0.693359375f + (f + (log1p_rest(f) - n * 2.12194440e-4f)), sum);
  // Below 2^-25 the result is x.
  return select(y, x, (bitcast<U>(x) & U(0x7fffffffu)) < U(0x33000000u));
}
//% endmacro

// log(1 + x) for x from 0 to 1, computed as twice the artanh of x / (2 + x).
//% macro log1p_of_unit()
fn log1p_of_unit(x: V) -> V {
  let t = x / (2.0f + x);
  let z = t * t;
  let q = ((1.400601e-1f * z + 1.40009e-1f) * z + 2.00107634e-1f) * z + 3.3333209e-1f;
  return 2.0f * t + (2.0f * t) * (z * q);
}
//% endmacro

// a^b, by C's rules. log2 of |a| = 2^e (1 + f) is e + 2 / ln 2 (s + s^3 / 3 + ...) with s = f / (2
// + f). Large terms are kept in parts of twelve bits, so that the error of b log2 |a| is at most
// 2^-25.
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
  let even = b_size >= U(0x4b800000u);  // for 2^24 and more
  let integral = even | (trunc(b) == b);
  let odd = integral & !even & ((I(power) & I(1)) != I());
  let negative = bitcast<U>(a) >= U(0x80000000u);
  y = bitcast<V>(bitcast<U>(y) ^ select(U(), U(0x80000000u), negative & odd));
  let none = (negative & !integral & !edge) | (size > U(0x7f800000u)) | (b_size > U(0x7f800000u));
  y = select(y, bitcast<V>(bitcast<U>(a) | U(0x7fc00000u)), none);
  return select(y, V(1.0f), (b_size == U()) | (bitcast<U>(a) == U(0x3f800000u)));
}
//% endmacro
