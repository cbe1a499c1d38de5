// Functions of numbers that drivers have not, or have too rough: helpers of operations. Their types
// are written as in the text of a row: V of a value, U, I and B of its bits and conditions.

// e^x to 1.5 units in the last place: x = n ln 2 + r (Cody and Waite), a polynomial in r (Moshier's
// Cephes), and 2^n in two factors, as one would leave the range of f32. Below -104 the value is 0.
//% macro accurate_exp()
fn accurate_exp(x: V) -> V {
  let bounded = clamp(x, V(-104.0f), V(89.0f));
  let n = floor(bounded * 1.44269504f + 0.5f);
  let r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  var q = 1.9875691500e-4f * r + 1.3981999507e-3f;
  q = q * r + 8.3334519073e-3f;
  q = q * r + 4.1665795894e-2f;
  q = q * r + 1.6666665459e-1f;
  q = q * r + 5.0000001201e-1f;
  q = q * (r * r) + r + 1.0f;
  let high = I(n) >> U(1u);
  let low = I(n) - high;
  let scaled = q * bitcast<V>((high + 127) << U(23u)) * bitcast<V>((low + 127) << U(23u));
  let nan = (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u);
  return select(scaled, x, nan);
}
//% endmacro
