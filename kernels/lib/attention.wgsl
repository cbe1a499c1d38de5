// What the bodies of flash_attn share. Logits are counted in powers of two: s * log2(e).
//
// `n`: how many neighbouring keys a call of `logits` handles, 1 or 4. `banded`: `logits` looks after
// the band of keys that a query may see; else its caller does.
//% macro rules(n, banded=true)
//% for name, type in (("V", "f32"), ("VI", "i32"), ("VU", "u32"))
alias ${name} = ${"vec4<" ~ type ~ ">" if n == 4 else type};
//% endfor
const LOG2E = 1.44269504f;
const LN2 = 0.693147181f;
const LOWEST = -0x1.fffffep+127f;
const MINUS_INF = 0xff800000u;

// 2^d for d <= 0; 0 below 2^-126 and for -inf, NaN for NaN.
fn weight(d: V) -> V { return select(exp2(d), V(), d < V(-126.0f)); }

fn is_lost(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u; }

// What is added to the logit of one key: kind 1 f32, 2 f16, 3 bool.
fn mask_value(i: u32) -> f32 {
  let word = mask_mem[i >> (p.mask_kind - 1u)];
  if (p.mask_kind == 1u) { return bitcast<f32>(word); }
  if (p.mask_kind == 2u) {
    let pair = unpack2x16float(word);
    return select(pair.x, pair.y, (i & 1u) == 1u);
  }
  let seen = ((word >> ((i & 3u) << 3u)) & 0xffu) != 0u;
  return bitcast<f32>(select(p.minus_inf, 0u, seen));
}

// ALiBi: 2^-e for e >= 0, exact in the integer part of e; 1 without a bias.
fn slope_of(head: u32) -> f32 {
  if (p.max_bias == 0.0f) { return 1.0f; }
  let lower = head < p.alibi_heads;
  let n = select(f32(2u * (head - p.alibi_heads) + 1u) * 0.5f, f32(head + 1u), lower);
  let e = p.max_bias * n / f32(p.alibi_heads);
  let whole = floor(e);
  return ldexp(exp2(whole - e), -i32(min(whole, 250.0f)));
}

// softcap * tanh(s / softcap), of and as logits in powers of two; NaN stays NaN.
fn capped(s: V) -> V {
  // tanh(u) = 1 - 2 / (e^(2 u) + 1), and s is log2(e) times what softcap divides.
  let power = exp2(clamp(2.0f / p.softcap * s, V(-80.0f), V(80.0f)));
  let bent = (1.0f - 2.0f / (power + 1.0f)) * (LOG2E * p.softcap);
  return select(bent, s, (bitcast<VU>(s) & VU(0x7fffffffu)) > VU(0x7f800000u));
}

// The logits of the keys from `key` on for one query: soft cap, mask (its row begins at
// `mask_at`), and the band of keys that the query may see. -inf: masked.
fn logits(raw: V, ${"query: u32, " if banded else ""}key: u32, mask_at: u32, slope: f32) -> V {
  var s = raw * p.scale;
  if (p.softcap != 0.0f) { s = capped(s); }
  let none = V(bitcast<f32>(p.minus_inf));
//% if n == 4
  let keys = VU(key) + VU(0u, 1u, 2u, 3u);
//% else
  let keys = key;
//% endif
  if (p.mask_kind != 0u) {
    let at = VU(mask_at) + min(keys, VU(p.keys - 1u)) * p.mask_st;
//% if n == 4
    let m = V(mask_value(at.x), mask_value(at.y), mask_value(at.z), mask_value(at.w));
//% else
    let m = mask_value(at);
//% endif
    s = select(fma(V(slope * LOG2E), m, s), none, bitcast<VU>(m) == VU(MINUS_INF));
  }
//% if banded
  let apart = bitcast<VI>(keys) - VI(i32(query));
  let hidden = (apart < VI(p.band_low)) | (apart > VI(p.band_high)) | (keys >= VU(p.keys));
  return select(s, none, hidden);
//% else
  return s;
//% endif
}
//% endmacro
