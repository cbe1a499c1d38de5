// What the bodies of softmax share: reading logits, and what -inf, +inf and NaN mean.
//
// Values are told apart by their bits: comparisons with NaN and infinities are not portable.
// A key whose mask is -inf is skipped. `flags` collects 1: a key is allowed, 2: an allowed logit
// is NaN or +inf. -inf itself needs no care: its weight is exactly 0.

// Weights and flags alone.
//% macro weights(VEC)
//% set V = "vec4<f32>" if VEC == 4 else "f32"
const LOWEST = -0x1.fffffep+127f;

// e^d for d <= 0 (a difference to a maximum); 0 where the true value is below 2^-150.
fn weight(d: ${V}) -> ${V} {
  return select(exp(max(d, ${V}(-104.0f))), ${V}(), d < ${V}(-104.0f));
}

fn flags_of(l: f32) -> u32 {
  let bits = bitcast<u32>(l);
  let bad = ((bits & 0x7fffffffu) > 0x7f800000u) | (bits == 0x7f800000u);
  return select(1u, 3u, bad);
}
//% endmacro

//% macro functions(MASK, VEC)
${weights(VEC)}
// ALiBi: 2^-e for e >= 0, exact in the integer part of e.
fn alibi_slope(head: u32) -> f32 {
  if (p.max_bias == 0.0f) { return 1.0f; }
  let lower = head < p.alibi_heads;
  let n = select(f32(2u * (head - p.alibi_heads) + 1u) * 0.5f, f32(head + 1u), lower);
  let e = p.max_bias * n / f32(p.alibi_heads);
  let whole = floor(e);
  return ldexp(exp2(whole - e), -i32(min(whole, 250.0f)));
}

fn row_head(row: u32) -> u32 { return (row / p.head_rows) % p.heads; }

//% if MASK
fn one_logit(x: f32, mask: f32, slope: f32) -> f32 {
  // A skipped key must not let its x through, be it NaN.
  return select(fma(slope, mask, x * p.scale), bitcast<f32>(p.minus_inf),
                bitcast<u32>(mask) == 0xff800000u);
}
//% endif
//% endmacro

// Declares l{k}: the logit of column `c`, -inf where the key is skipped or past the end; updates
// `flags` and the maximum `m`.
//% macro load(k, c, MASK, VEC)
  var l${k} = ${"vec4<f32>" if VEC == 4 else "f32"}(bitcast<f32>(p.minus_inf));
  if (live & (${c} < p.cols)) {
    let x = x_load(x_at(x_base, ${c}));
//% if MASK
    let mask = mask_load(mask_at(mask_base, ${c}));
//% if VEC == 4
    l${k} = vec4<f32>(one_logit(x.x, mask.x, slope), one_logit(x.y, mask.y, slope),
                      one_logit(x.z, mask.z, slope), one_logit(x.w, mask.w, slope));
//% for i in range(4)
    flags |= select(flags_of(l${k}[${i}]), 0u, bitcast<u32>(mask[${i}]) == 0xff800000u);
//% endfor
//% else
    l${k} = one_logit(x, mask, slope);
    flags |= select(flags_of(l${k}), 0u, bitcast<u32>(mask) == 0xff800000u);
//% endif
//% else
    l${k} = x * p.scale;
//% if VEC == 4
    flags |= flags_of(l${k}.x) | flags_of(l${k}.y) | flags_of(l${k}.z) | flags_of(l${k}.w);
//% else
    flags |= flags_of(l${k});
//% endif
//% endif
//% if VEC == 4
    m = max(max(m, max(l${k}.x, l${k}.y)), max(l${k}.z, l${k}.w));
//% else
    m = max(m, l${k});
//% endif
  }
//% endmacro

// From m, sum and flags of a whole row: what its elements become. `plain`: e^(l - m) / sum.
//% macro outcome()
  let logarithm = p.log != 0u;
  let nothing = bitcast<f32>(select(0u, p.minus_inf, logarithm));
  let allowed = (flags & 1u) != 0u;
  let lost = ((flags & 2u) != 0u) | (allowed & (sum == 0.0f));
  let plain = allowed & !lost;
  let whole = select(nothing, bitcast<f32>(p.nan), lost);
  let inverse = 1.0f / sum;
  let shift = m + log(max(sum, 0x1p-126f));
//% endmacro

// Store vector `k` at column `c`: `e` is e^(l - m).
//% macro finish(k, c, e, VEC)
//% set V = "vec4<f32>" if VEC == 4 else "f32"
  if (${c} < p.cols) {
    var y = ${e} * inverse;
    if (logarithm) {
      y = l${k} - ${V}(shift);
//% if VEC == 4
//% for i in range(4)
      if (bitcast<u32>(l${k}[${i}]) == 0xff800000u) { y[${i}] = nothing; }
//% endfor
//% else
      if (bitcast<u32>(l${k}) == 0xff800000u) { y = nothing; }
//% endif
    }
    if (!plain) { y = ${V}(whole); }
    dst_store(dst_at(dst_base, ${c}), y);
  }
//% endmacro
