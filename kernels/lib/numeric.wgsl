// Helpers of operations: functions of numbers that drivers lack or compute too inexactly. Types are
// named as in the WGSL text of an operation: V is the type of a value, U and I the types of its
// bits, and B the type of a condition.
//
// Drivers may assume that there is no NaN and no infinity, fuse a product and a sum, or fold (a +
// b) - a and (a / b) * b. So special values are recognised by their bits, infinities and NaNs are
// made from bits that are known only at run time, and no text needs the rounding error of a sum.
// Polynomials minimise the largest relative error (by Lawson's algorithm); their coefficients were
// rounded one by one. Exponentials, logarithms and trigonometry are in other files and
// follow the same rules.

//% macro is_nan()
fn is_nan(x: V) -> B {
  return (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u);
}
//% endmacro

// y, or NaN if x is NaN.
//% macro keep_nan()
fn keep_nan(y: V, x: V) -> V {
  return select(y, x, (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u));
}
//% endmacro

// y, or NaN if `outside`. x may be any number that is known only at run time.
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

// True if x is below 0; false for NaN.
//% macro is_negative()
fn is_negative(x: V) -> B {
  let bits = bitcast<U>(x);
  return (bits > U(0x80000000u)) & (bits <= U(0xff800000u));
}
//% endmacro

// Integers in the same order as the numbers; both zeros are 0.
//% macro ordered()
fn ordered(x: V) -> I {
  let bits = bitcast<I>(x);
  return select(bits, I(-2147483647 - 1) - bits, bits < I());
}
//% endmacro

// The square root: one Newton step after the driver's reciprocal square root. NaN if x is negative.
//% macro accurate_sqrt()
fn accurate_sqrt(x: V) -> V {
  let bits = bitcast<U>(x);
  let r = inverseSqrt(x);
  let y = x * r;
  let better = y + y * (0.5f - y * (0.5f * r));
  // Zeros, subnormal numbers (which may count as zero), infinity and NaN are returned unchanged.
  let kept = ((bits & U(0x7fffffffu)) < U(0x00800000u)) | (bits >= U(0x7f800000u));
  let negative = (bits > U(0x80800000u)) & (bits <= U(0xff800000u));
  return select(select(better, x, kept), bitcast<V>(bits | U(0x7fc00000u)), negative);
}
//% endmacro

// a / b: the driver's quotient with one correction step, if the quotient is finite and not 0.
//% macro quotient()
fn quotient(a: V, b: V) -> V {
  let q = a / b;
  let rest = (a - q * b) * (1.0f / b);
  let size = bitcast<U>(rest) & U(0x7fffffffu);
  return select(q, q + rest, (size - U(1u)) < U(0x7f7fffffu));
}
//% endmacro

// a - n b, exactly, where n is a / b rounded toward zero. It is a long division of the mantissas,
// with eight bits in each step.
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
  let divisor = select(d, U(0xffffffffu), left < I());  // |a| < |b|: a is the remainder
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
