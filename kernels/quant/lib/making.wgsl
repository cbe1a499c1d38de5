// Quantises a block of 32 numbers by ggml's rule: `make_block` reads `numbers`, sets `stored` and
// returns the record of scales.

//% macro functions()
var<private> numbers: array<f32, 32>;
var<private> stored: array<u32, 32>;

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }

// a / n, correctly rounded, because a device's own division may be wrong by some units in the last
// place. n + 1 is a power of two.
fn by(a: f32, n: f32) -> f32 {
  let near = a / n;
  let rest = (a - near * (n + 1.0f)) + near;
  return select(near, near + rest / n, abs(near) < 0x1p+118f);
}

// The first of the numbers with the largest magnitude.
fn top_of() -> f32 {
  var top = 0.0f;
  for (var i = 0u; i < 32u; i++) { top = select(top, numbers[i], abs(numbers[i]) > abs(top)); }
  return top;
}

fn inverse_of(d: f32) -> f32 { return select(1.0f / d, 0.0f, d == 0.0f); }

fn half(x: f32) -> u32 { return f16_bits_of_f32(bitcast<u32>(x)); }

// This tests bits, because compilers may assume that there is no NaN.
fn any_nan() -> bool {
  var found = false;
  for (var i = 0u; i < 32u; i++) { found |= is_nan(numbers[i]); }
  return found;
}
${quant.making()}
//% endmacro
