// Turns raw scores into logits: scale, soft cap, ALiBi, mask and the band of keys that a query may
// see.

// ALiBi: the slope of head `head`, 2^-e for e >= 0, exact in the integer part of e; 1 without a bias.
// `argument`: the parameter of the function, from which `let head` is computed.
//% macro alibi_slope(argument="head: u32", head="")
fn alibi_slope(${argument}) -> f32 {
  if (p.max_bias == 0.0f) { return 1.0f; }
//% if head
  let head = ${head};
//% endif
  let lower = head < p.alibi_heads;
  let n = select(f32(2u * (head - p.alibi_heads) + 1u) * 0.5f, f32(head + 1u), lower);
  let e = p.max_bias * n / f32(p.alibi_heads);
  let whole = floor(e);
  return ldexp(exp2(whole - e), -i32(min(whole, 250.0f)));
}
//% endmacro

// For the bodies of flash_attn, with online_softmax. Logits are exponents of two: s * log2(e).
//
// s for the keys in the band that the query may see, and -inf outside of the band.
//% macro band(N)
fn in_band(s: V, query: u32, key: u32${key_range.PARAMETERS}) -> V {
  let keys = ${"VU(key) + VU(0u, 1u, 2u, 3u)" if N == 4 else "key"};
  let apart = bitcast<VI>(keys) - VI(i32(query));
  let hidden = (apart < VI(${key_range.LOW})) | (apart > VI(${key_range.HIGH})) | (keys >= VU(${key_range.COUNT}));
  return select(s, V(bitcast<f32>(p.minus_inf)), hidden);
}
//% endmacro

//% macro capped()
// softcap * tanh(s / softcap); s and the result are exponents of two, as all logits here; NaN stays
// NaN.
fn capped(s: V) -> V {
  // tanh(u) = 1 - 2 / (e^(2 u) + 1), and s is log2(e) times the logit that softcap divides.
  let power = exp2(clamp(2.0f / p.softcap * s, V(-80.0f), V(80.0f)));
  let bent = (1.0f - 2.0f / (power + 1.0f)) * (LOG2E * p.softcap);
  return select(bent, s, (bitcast<VU>(s) & VU(0x7fffffffu)) > VU(0x7f800000u));
}
//% endmacro

// N: the number of neighbouring keys that a call of `logits` handles, 1 or 4. `banded`: `logits` hides
// the keys outside the band that a query may see; otherwise its caller hides them. `masked` is set
// if there may be a mask.
//% macro functions(N, banded=true, masked=true)
//% if masked
// The term that the mask adds to the logit of one key: kind 1 is f32, 2 f16, 3 bool.
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

//% endif
${alibi_slope()}

${capped()}

//% if banded
${band(N)}
//% endif
// The logits of the keys from `key` on for one query: soft cap, mask (its row begins at
// `mask_at`), and the band of keys that the query may see. -inf: masked.
fn logits(raw: V, ${"query: u32, " if banded else ""}key: u32, mask_at: u32, slope: f32${key_range.PARAMETERS if banded else ""}) -> V {
  var s = raw * p.scale;
  if (p.softcap != 0.0f) { s = capped(s); }
//% if masked
  let none = V(bitcast<f32>(p.minus_inf));
//% if N == 4
  let keys = VU(key) + VU(0u, 1u, 2u, 3u);
//% else
  let keys = key;
//% endif
  if (p.mask_kind != 0u) {
    let at = VU(mask_at) + min(keys, VU(p.keys - 1u)) * p.mask_ts;
//% if N == 4
    let m = V(mask_value(at.x), mask_value(at.y), mask_value(at.z), mask_value(at.w));
//% else
    let m = mask_value(at);
//% endif
    s = select(fma(V(slope * LOG2E), m, s), none, bitcast<VU>(m) == VU(MINUS_INF));
  }
//% endif
//% if banded
  return in_band(s, query, key${key_range.ARGUMENTS});
//% else
  return s;
//% endif
}
//% endmacro

// -- The tiles of attention_tile: L is attention_layout -------------------------------------------------

// From scores s = q k to the logits that `factor` multiplies; -inf if masked. If every query of the
// block sees all keys of a tile, the tile needs only the scale, which is then applied with the
// exponential (`plain`). The same holds for a tile in which only the band hides keys.
//% macro apply(L)
    let whole = (i32(key0) >= i32(last_row) + ${key_range.LOW}) & (i32(key0 + ${L.BC - 1}u) <= i32(first_row) + ${key_range.HIGH})
      & (key0 + ${L.BC}u <= ${key_range.COUNT});
    let plain = whole & (p.mask_kind == 0u);
    let bare = (p.mask_kind == 0u) & (p.softcap == 0.0f) & (p.scale > 0.0f);
    var factor = p.scale;
    if (bare & !whole & ((p.head_blocks > 1u) | (p.group == 1u))) {
      ${_apply_band(L)}
    } else if (!(bare & whole)) {
      factor = 1.0f;
      ${_apply_all(L)}
    }
//% endmacro

//% macro _apply_band(L)
//% for j in range(L.CV)
      let keys${j} = vec4<i32>(i32(key0 + (column + ${L.CL * j}u) * 4u)) + vec4<i32>(0, 1, 2, 3);
//% endfor
//% for i in range(L.TR)
      {
        let query = i32(first_row + (at_row + ${i // 4 * L.QH}u) * 4u + ${i % 4}u);
        let low = vec4<i32>(query + ${key_range.LOW});
        let high = vec4<i32>(min(query + ${key_range.HIGH}, i32(${key_range.COUNT}) - 1));
//% for j in range(L.CV)
        s${i}_${j} = select(s${i}_${j}, vec4<f32>(bitcast<f32>(p.minus_inf)), (keys${j} < low) | (keys${j} > high));
//% endfor
      }
//% endfor
//% endmacro

// This is a loop, because unrolled code would be larger than the products. Each round computes the
// first row; then all rows move up by one, because an indexed array would go through memory.
//% macro _apply_all(L)
      for (var n = 0u; n < ${L.TR}u; n += 1u) {
        let row = row0 + (at_row + (n >> 2u) * ${L.QH}u) * 4u + (n & 3u);
        let member = row / p.pitch;
        let query = min(row - member * p.pitch, p.queries - 1u);
        let head = kv_head * p.group + min(member, p.group - 1u);
        let mask_at = p.mask_off + batch * p.mask_bs + head * p.mask_hs + query * p.mask_ss;
        let slope = alibi_slope(p.alibi_first + head);
//% for j in range(L.CV)
        let first${j} = logits(s0_${j}, query, key0 + (column + ${L.CL * j}u) * 4u, mask_at, slope${key_range.ARGUMENTS});
//% for i in range(L.TR - 1)
        s${i}_${j} = s${i + 1}_${j};
//% endfor
        s${L.TR - 1}_${j} = first${j};
//% endfor
      }
//% endmacro

// Writes to b_tile, for each group of rows, which keys its rows leave unmasked.
//% macro store_unmasked(L)
    if (p.mask_kind != 0u) {
//% for j in range(L.CV)
      {
        var unmasked = vec4<f32>();
//% for i in range(L.TR)
        unmasked = select(unmasked, vec4<f32>(1.0f), bitcast<vec4<u32>>(s${i}_${j}) != vec4<u32>(MINUS_INF));
//% endfor
        let row_group = (w / ${L.WA}u) * 4u + lr;
        b_tile[row_group & 7u][${j}][column + (row_group >> 3u) * ${L.CL}u] = unmasked;
      }
//% endfor
    }
//% endmacro

// `hidden_chunks`: a bit for each chunk of v, set where no row of the block sees the key that this
// invocation loads from it.
//% macro hidden_chunks(L)
    var hidden_chunks = 0u;
    if (!plain) {
      for (var n = 0u; n < ${L.CV * L.WA}u; n += 1u) {
        let across = n % ${L.WA}u;
        let j = n / ${L.WA}u;
        let at = across * 8u + v_row;
        var unmasked = vec4<f32>(1.0f);
        if (p.mask_kind != 0u) {
          unmasked = b_tile[0][j][at];
//% for n in range(1, L.RG)
          unmasked = max(unmasked, b_tile[${n % 8}][j][at + ${n // 8 * L.CL}u]);
//% endfor
        }
        let keys = vec4<u32>(key0 + (j * ${L.CL}u + at) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        let hidden = (unmasked == vec4<f32>()) | (keys < vec4<u32>(seen_from)) | (keys >= vec4<u32>(seen_to));
//% set bit = 2 ** L.WA
        let bits = select(vec4<u32>(), vec4<u32>(1u, ${bit}u, ${bit ** 2}u, ${bit ** 3}u), hidden);
        let first = 4u * j * ${L.WA}u + across;
        hidden_chunks |= (bits.x | bits.y | bits.z | bits.w) << first;
      }
    }
    if (p.mask_kind != 0u) { workgroupBarrier(); }  // b_tile has been read
//% endmacro
