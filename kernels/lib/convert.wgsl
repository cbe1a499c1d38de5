// Conversion between storage formats in integer arithmetic, so that every device gives the same
// bits: WGSL leaves the rounding of f16(x), subnormals and NaN to the driver.
//
// `kind` numbers: 0 f32, 1 f16, 2 bf16, 3 i32, 4 u32, 5 i16, 6 u16, 7 i8, 8 u8, 9 bool.

// The bits of the f16 that is nearest to an f32; ties go to even.
//% macro half()
fn f16_bits_of_f32(bits: u32) -> u32 {
  let sign = (bits >> 16u) & 0x8000u;
  let a = bits & 0x7fffffffu;
  // Normal halves come first, after one comparison, because most numbers are normal halves.
  if (a - 0x38800000u < 0x477ff000u - 0x38800000u) {
    return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13u) & 1u)) >> 13u);
  }
  if (a > 0x7f800000u) { return sign | 0x7e00u | ((a >> 13u) & 0x1ffu); }
  if (a >= 0x477ff000u) { return sign | 0x7c00u; }  // 65520 and above round to infinity
  if (a <= 0x33000000u) { return sign; }  // up to half of the smallest subnormal
  let m = (a & 0x7fffffu) | 0x800000u;
  let shift = 126u - (a >> 23u);
  let kept = m >> shift;
  let lost = m & ((1u << shift) - 1u);
  let half = 1u << (shift - 1u);
  let up = (lost > half) | ((lost == half) & ((kept & 1u) == 1u));
  return sign | (kept + select(0u, 1u, up));
}
//% endmacro

// The bits of the f32 that equals an f16.
//% macro wide()
fn f32_bits_of_f16(h: u32) -> u32 {
  let sign = (h & 0x8000u) << 16u;
  let rest = h & 0x7fffu;
  if (rest >= 0x7c00u) { return sign | 0x7f800000u | ((rest & 0x3ffu) << 13u); }
  // Subnormal halves are exact as an integer times 2^-24, a normal f32.
  if (rest < 0x400u) { return sign | bitcast<u32>(f32(rest) * 0x1p-24f); }
  return sign | ((rest << 13u) + 0x38000000u);
}
//% endmacro

//% macro functions()
${wide()}

${half()}

fn bf16_bits_of_f32(bits: u32) -> u32 {
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return (bits >> 16u) | 0x40u; }
  return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

// A magnitude as f32, rounded to nearest even. With `odd` it is rounded to odd, so that rounding it
// again to bf16 gives the same result as a single rounding. (f16 needs no such care, because every
// integer in its range is exact in f32.)
fn f32_bits_of_magnitude(v: u32, odd: bool) -> u32 {
  if (v == 0u) { return 0u; }
  let zeros = countLeadingZeros(v);
  let s = v << zeros;
  let lost = s & 0xffu;
  let kept = s >> 8u;
  if (odd) { return ((157u - zeros) << 23u) + (kept | select(0u, 1u, lost != 0u)); }
  let up = (lost > 0x80u) | ((lost == 0x80u) & ((kept & 1u) == 1u));
  return ((157u - zeros) << 23u) + kept + select(0u, 1u, up);
}

// The truncated magnitude of a finite f32, saturated to 32 bits.
fn magnitude_of_f32(bits: u32) -> u32 {
  let e = (bits >> 23u) & 0xffu;
  let m = (bits & 0x7fffffu) | 0x800000u;
  if (e < 127u) { return 0u; }
  if (e >= 159u) { return 0xffffffffu; }
  if (e >= 150u) { return m << (e - 150u); }
  return m >> (150u - e);
}

fn float_source(bits: u32, kind: u32) -> u32 {
  if (kind == 1u) { return f32_bits_of_f16(bits); }
  if (kind == 2u) { return bits << 16u; }
  return bits;
}

fn float_target(bits: u32, kind: u32) -> u32 {
  if (kind == 1u) { return f16_bits_of_f32(bits); }
  if (kind == 2u) { return bf16_bits_of_f32(bits); }
  return bits;
}

fn target_mask(kind: u32) -> u32 {
  if (kind >= 7u) { return 0xffu; }
  if (kind >= 5u) { return 0xffffu; }
  return 0xffffffffu;
}

// A float, truncated and clamped to the target's range [-low, high]; 0 for NaN.
fn saturate_to(bits: u32, kind: u32) -> u32 {
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0u; }
  let m = magnitude_of_f32(bits);
  var high = 0xffffffffu;
  var low = 0u;
  if (kind == 3u) { high = 0x7fffffffu; low = 0x80000000u; }
  if (kind == 5u) { high = 0x7fffu; low = 0x8000u; }
  if (kind == 6u) { high = 0xffffu; }
  if (kind == 7u) { high = 0x7fu; low = 0x80u; }
  if (kind == 8u) { high = 0xffu; }
  if (bits >= 0x80000000u) { return (0u - min(m, low)) & target_mask(kind); }
  return min(m, high);
}

// The integer value of a source element, as 32 bits in two's complement.
fn int_source(bits: u32, kind: u32) -> u32 {
  if (kind == 5u) { return bitcast<u32>(bitcast<i32>(bits << 16u) >> 16u); }
  if (kind == 7u) { return bitcast<u32>(bitcast<i32>(bits << 24u) >> 24u); }
  return bits;
}

fn is_signed(kind: u32) -> bool { return (kind == 3u) | (kind == 5u) | (kind == 7u); }

fn convert(bits: u32, src_kind: u32, dst_kind: u32) -> u32 {
  if (src_kind == dst_kind) { return bits; }
  if (src_kind < 3u) {
    let f = float_source(bits, src_kind);
    if (dst_kind < 3u) { return float_target(f, dst_kind); }
    if (dst_kind == 9u) { return select(0u, 1u, (f & 0x7fffffffu) != 0u); }
    return saturate_to(f, dst_kind);
  }
  let v = int_source(bits, src_kind);
  if (dst_kind == 9u) { return select(0u, 1u, v != 0u); }
  if (dst_kind >= 3u) { return v & target_mask(dst_kind); }
  let negative = is_signed(src_kind) & (v >= 0x80000000u);
  let f = f32_bits_of_magnitude(select(v, 0u - v, negative), dst_kind == 2u);
  return float_target(f | select(0u, 0x80000000u, negative), dst_kind);
}
//% endmacro
