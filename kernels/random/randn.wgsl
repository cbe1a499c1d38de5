// /// kernel
// doc = """
// Random numbers of the standard normal distribution, by Box and Muller's method.
//
// Elements 2 j and 2 j + 1 in C order come from two words of block j // 2 of Philox4x32-10: word 2
// j % 4 gives the radius, and word 2 j % 4 + 1 the angle. No function of the driver is used, and no
// product is fused with a sum, so the numbers are the same on every device and in every layout;
// float16 and bfloat16 are rounded to nearest even. The largest number is 6.7. `seed` and `state`
// are as in `rand`."""
// source = "Box and Muller 1958; Salmon, Moraes, Dror and Shaw 2011"
// axes.S = [2, 4]
// axes.V = [1, 4]
// inputs.state = { dtype = "u32", optional = true, index = false, axes = "w", doc = "(6,): two words of the key, four of the counter." }
// outputs.dst = { dtype = "*", dtypes = ["float32", "float16", "bfloat16"], bind = "'vec4<u32>' if S * V == 16 else 'vec2<u32>' if S * V == 8 else 'u32' if S == 4 else 'atomic<u32>'" }
// params.has_state = { type = "u32", value = "1 if state else 0" }
// params."first kind" = { type = "u32" }
// params.zero = { type = "u32", value = "0" }
// params.seed = { type = "bits", of = "int64", default = 0, doc = "The key, if there is no state." }
// moves_bytes = true
// iterate = "nd"
// uses = ["convert", "words", "philox"]
// grid = "cdiv(it.total, 256) if V == 4 else cdiv(it.total, 1024)"
// ///

// One invocation draws one block, which gives two pairs of neighbouring elements.
${convert.functions()}
${philox.functions()}

// A rounded product. Compilers may fuse a * b + c, or simplify expressions with known values; they
// do not know that p.zero is 0.
fn rounded(v: vec2<f32>) -> vec2<f32> { return bitcast<vec2<f32>>(bitcast<vec2<u32>>(v) ^ vec2<u32>(p.zero)); }

//% set LOGARITHM = ["0.3333333134651184f", "-0.25000306963920593f", "0.20001044869422913f", "-0.166412815451622f"]
//% set LOGARITHM = LOGARITHM + ["0.14214496314525604f", "-0.12998183071613312f", "0.12622319161891937f", "-0.0790274366736412f"]
//% set SINE = ["1.5707963705062866f", "-0.6459634900093079f", "0.07968021929264069f", "-0.004602149128913879f"]
//% set COSINE = ["-1.2337005138397217f", "0.253669410943985f", "-0.02086152881383896f", "0.0009067398495972157f"]
//% macro horner(coefficients, x)
  var y = vec2<f32>(${coefficients[-1]});
//% for c in coefficients[:-1] | reverse
  y = rounded(y * ${x}) + ${c};
//% endfor
//% endmacro

// -ln(u) for u = x / 2^32, where x = 0 counts as 1, and the lowest bits are dropped. It uses u =
// 2^-n (1 + r) with 1 + r in [sqrt(1/2), sqrt(2)]. A polynomial gives (ln(1 + r) - r + r^2 / 2) /
// r^3, with an error of 2e-8 of the logarithm.
fn minus_log(x: vec2<u32>) -> vec2<f32> {
  let given = x | vec2<u32>(1u);
  let zeros = countLeadingZeros(given);
  let mantissa = (((given << zeros) >> vec2<u32>(8u)) & vec2<u32>(0x7fffffu)) | vec2<u32>(0x3f800000u);
  let large = mantissa > vec2<u32>(0x3fb504f3u);
  let r = bitcast<vec2<f32>>(mantissa - select(vec2<u32>(), vec2<u32>(0x800000u), large)) - 1.0f;
  let n = vec2<f32>(zeros + select(vec2<u32>(1u), vec2<u32>(), large));
  ${horner(LOGARITHM, "r")}
  let square = rounded(r * r);
  let tail = rounded(rounded(rounded(square * r) * y) - rounded(square * 0.5f));
  let log = rounded(tail + r);
  return rounded(n * 0.6931471824645996f) - log;
}

// sqrt(2 w), computed as w / sqrt(w / 2). Newton's method finds the inverse root; the exponent of w
// gives its first guess.
fn radius(w: vec2<f32>) -> vec2<f32> {
  let twice = w + w;
  var y = bitcast<vec2<f32>>(vec2<u32>(0x5f3759dfu) - (bitcast<vec2<u32>>(twice) >> vec2<u32>(1u)));
//% for step in range(3)
  y = rounded(y * (1.5f - rounded(rounded(w * y) * y)));
//% endfor
  return rounded(twice * y);
}

// The cosine and sine of 2 pi x / 2^32: x is split into a number of quarters of the circle, and t
// in [-1/2, 1/2) of a quarter.
fn direction(x: vec2<u32>) -> array<vec2<f32>, 2> {
  let quarter = x >> vec2<u32>(30u);
  let t = vec2<f32>(bitcast<vec2<i32>>(x << vec2<u32>(2u)) >> vec2<u32>(8u)) * 0x1p-24f;
  let square = rounded(t * t);
  var sine: vec2<f32>;
  var cosine: vec2<f32>;
  {
    ${horner(SINE, "square")}
    sine = rounded(y * t);
  }
  {
    ${horner(COSINE, "square")}
    cosine = rounded(y * square) + 1.0f;
  }
  let odd = (quarter & vec2<u32>(1u)) == vec2<u32>(1u);
  let high = quarter >= vec2<u32>(2u);
  let turned = high != odd;
  let a = select(cosine, sine, odd);
  let b = select(sine, cosine, odd);
  return array<vec2<f32>, 2>(select(a, -a, turned), select(b, -b, high));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let q = group_id(wg) * 256u + li;
  if (q >= ${"p.total" if V == 4 else "(p.total + 3u) / 4u"}) { return; }
  let w = draw(p.first + q);
  let distance = radius(minus_log(w.xz));
  let unit = direction(w.yw);
  let a = bitcast<vec2<u32>>(distance * unit[0]);
  let b = bitcast<vec2<u32>>(distance * unit[1]);
//% if S == 4
  let bits = vec4<u32>(a.x, b.x, a.y, b.y);
  _ = p.kind;
//% else
  let bits = vec4<u32>(
    float_target(a.x, p.kind), float_target(b.x, p.kind), float_target(a.y, p.kind), float_target(b.y, p.kind),
  );
//% endif
  ${words.store_four(S, V, "q", "bits")}
}
