// Code that the bodies of softmax share: reading logits, and the meaning of -inf, +inf and NaN.
//
// Infinities and NaN are recognised by their bits, because comparisons with them are not portable.
// The maximum of a row holds all of its special cases: +inf means that an allowed logit is NaN or
// +inf, and -inf that no key is allowed (a key whose mask is -inf is skipped); if all allowed
// logits are -inf, the maximum is LOWEST.

// Types and functions, for vectors of VEC logits.
//% macro functions(VEC)
//% for name, type in (("V", "f32"), ("VI", "i32"), ("VU", "u32"), ("VB", "bool"))
alias ${name} = ${"vec4<" ~ type ~ ">" if VEC == 4 else type};
//% endfor
const LOWEST = -0x1.fffffep+127f;
const MINUS_INF = 0xff800000u;
const PLUS_INF = 0x7f800000u;

// e^d for d <= 0 (the difference from a maximum); 0 if the true value is below 2^-150.
fn exp_shifted(d: V) -> V { return select(exp(d), V(), d < V(-104.0f)); }

// A maximum as a number that can be subtracted.
fn finite(m: f32) -> f32 { return select(m, LOWEST, bitcast<u32>(m) == MINUS_INF); }

fn is_bad(l: f32) -> bool {
  let bits = bitcast<u32>(l);
  return ((bits & 0x7fffffffu) > PLUS_INF) | (bits == PLUS_INF);
}
//% endmacro

// Declares l0 .. l{N-1}, the logits of the columns first, first + stride, ...: -inf where the key is
// skipped or past the end; and `m`, their maximum as described above.
// All loads come first, at clamped columns, because loads in branches would wait for each other.
//% macro load(N, first, stride, MASK, VEC)
//% for k in range(N)
  let c${k} = min(${first} + ${k * stride}u, p.cols - 1u);
  let x${k} = x_load(x_at(x_base, c${k}));
//% if MASK
  let mask${k} = mask_load(mask_at(mask_base, c${k}));
//% endif
//% endfor
  let none = V(bitcast<f32>(p.minus_inf));
  var m_v = none;
  // The largest bit pattern, compared as a signed number, shows +inf and NaN; compared as an
  // unsigned number, it shows NaN with its sign set.
  var high_s = VI();
  var high_u = VU();
//% for k in range(N)
  let out${k} = ${first} + ${k * stride}u >= p.cols;
//% if MASK
  // The x of a skipped key must have no effect, even if it is NaN.
  let skip${k} = (bitcast<VU>(mask${k}) == VU(MINUS_INF)) | VB(out${k});
  let l${k} = select(fma(V(slope), mask${k}, x${k} * p.scale), none, skip${k});
  m_v = max(m_v, select(max(l${k}, V(LOWEST)), none, skip${k}));
//% else
  let l${k} = select(x${k} * p.scale, none, out${k});
  m_v = max(m_v, l${k});
//% endif
  high_s = max(high_s, bitcast<VI>(l${k}));
  high_u = max(high_u, bitcast<VU>(l${k}));
//% endfor
//% if not MASK
  m_v = select(max(m_v, V(LOWEST)), none, out0);  // every key is allowed, even if its logit is -inf
//% endif
  let bad = any(high_s >= VI(0x7f800000)) | any(high_u > VU(MINUS_INF));
//% if VEC == 4
  var m = max(max(m_v.x, m_v.y), max(m_v.z, m_v.w));
//% else
  var m = m_v;
//% endif
  m = select(m, bitcast<f32>(p.minus_inf & 0x7fffffffu), bad);
//% endmacro

// The sum of the components of a vector.
//% macro vector_sum(v, VEC)
${"(" ~ v ~ ".x + " ~ v ~ ".y) + (" ~ v ~ ".z + " ~ v ~ ".w)" if VEC == 4 else v}
//% endmacro

// r0 ..: the values from which `store` computes the results when the sum is known: e^(l - m), or l for
// the logarithm.
//% macro unnormalized(N)
  let logarithm = p.log != 0u;
//% for k in range(N)
  let r${k} = select(e${k}, l${k}, logarithm);
//% endfor
//% endmacro

// Stores the results of the columns that `load` read. It uses r0 .. of `unnormalized`, `row_max`
// (over the keys of the row), `m` (the finite maximum that was subtracted), `row_sum`, and `lost`
// (the row is NaN).
//% macro store(N, first, stride, VEC)
  let empty = bitcast<u32>(row_max) == MINUS_INF;
  if (lost | empty | logarithm) {
    let result = select(select(0u, p.minus_inf, logarithm), p.nan, lost);
    let log_sum = log(max(row_sum, 0x1p-126f));
//% for k in range(N)
    if (${first} + ${k * stride}u < p.cols) {
      let skipped = bitcast<VU>(r${k}) == VU(MINUS_INF);
      let y = select((r${k} - V(m)) - V(log_sum), V(bitcast<f32>(p.minus_inf)), skipped);
      dst_store(dst_at(dst_base, ${first} + ${k * stride}u),
                select(y, V(bitcast<f32>(result)), lost | empty));
    }
//% endfor
    return;
  }
  let inverse = 1.0f / row_sum;
//% for k in range(N)
  if (${first} + ${k * stride}u < p.cols) {
    dst_store(dst_at(dst_base, ${first} + ${k * stride}u), r${k} * inverse);
  }
//% endfor
//% endmacro
