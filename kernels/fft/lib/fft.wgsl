// Code that the passes of a Fourier transform share: loads, stores, twiddles and butterflies.
//
// A complex number is a vec2<f32>: real part, imaginary part. Transforms are forward; an inverse
// transform conjugates the elements that it reads and the elements that it writes.

//% macro functions()
fn times(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
  return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
fn table_at(i: u32) -> vec2<f32> { return bitcast<vec2<f32>>(table_mem[p.table_off + i]); }

// w^m for the length of the whole transform, as a product of two entries of the table.
fn outer_twiddle(m: u32) -> vec2<f32> {
  return times(table_at(p.coarse + (m >> p.fine_bits)), table_at(p.fine + (m & ((1u << p.fine_bits) - 1u))));
}

//% endmacro

// Reads the elements `places` of a row that begins at `base` into the variables `v`; elements
// beyond the end are zeros. All loads come first, at clamped places.
//% macro load(v, base, places, factor)
//% for e in range(v | length)
  let place${e} = ${places[e]};
//% endfor
//% if S == 8
  if ((p.flags & 32u) != 0u) {
    // The second half of a symmetric spectrum has the conjugates of the first.
//% for e in range(v | length)
    {
      let mirrored = 2u * place${e} > p.length;
      let at = select(place${e}, p.length - place${e}, mirrored);
      let read = bitcast<vec2<f32>>(x_mem[${base} + min(at, p.taken - 1u) * p.x_cs]);
      ${v[e]} = select(vec2<f32>(), read, (at < p.taken) & (place${e} < p.length));
      ${v[e]}.y = select(${v[e]}.y, -${v[e]}.y, mirrored);
    }
//% endfor
  } else {
//% else
  {
//% endif
//% for e in range(v | length)
//% set i = base ~ " + min(place" ~ e ~ ", p.taken - 1u) * p.x_cs"
    ${v[e]} = ${"bitcast<vec2<f32>>(x_mem[" ~ i ~ "])" if S == 8 else "vec2<f32>(bitcast<f32>(x_mem[" ~ i ~ "]), 0.0f)"};
//% endfor
    if (p.taken < p.across * ${factor}) {
//% for e in range(v | length)
      ${v[e]} = select(vec2<f32>(), ${v[e]}, place${e} < p.taken);
//% endfor
    }
  }
//% if S == 8
  if ((p.flags & 1u) != 0u) {
//% for e in range(v | length)
    ${v[e]}.y = -${v[e]}.y;
//% endfor
  }
//% endif
  if ((p.flags & 2u) != 0u) {
//% for e in range(v | length)
    ${v[e]} = times(${v[e]}, table_at(p.before + min(place${e}, p.length - 1u)));
//% endfor
  }
//% endmacro

// Write the variables `v` to the elements `places` of a row that begins at `base`.
//% macro store(v, base, places)
  let conjugate = select(p.scale, -p.scale, (p.flags & 4u) != 0u);
//% for e in range(v | length)
  let put${e} = ${places[e]};
  ${v[e]} = ${v[e]} * vec2<f32>(p.scale, conjugate);
//% endfor
  if ((p.flags & 8u) != 0u) {
    let conjugate_after = select(1.0f, -1.0f, (p.flags & 16u) != 0u);
//% for e in range(v | length)
    ${v[e]} = times(${v[e]}, table_at(p.after + min(put${e}, p.kept - 1u)));
    ${v[e]}.y = ${v[e]}.y * conjugate_after;
//% endfor
  }
//% for e in range(v | length)
  if (put${e} < p.kept) { dst_mem[${base} + put${e} * p.dst_cs] = ${"bitcast<vec2<u32>>(" ~ v[e] ~ ")" if D == 8 else "bitcast<u32>(" ~ v[e] ~ ".x)"}; }
//% endfor
//% endmacro

// Butterflies: the transform of the named variables, in place, in their order.
//% macro butterfly(v)
//% set R = v | length
//% if R == 2
  { let d = ${v[0]} - ${v[1]}; ${v[0]} = ${v[0]} + ${v[1]}; ${v[1]} = d; }
//% elif R == 4
  {
    let s0 = ${v[0]} + ${v[2]};
    let s1 = ${v[0]} - ${v[2]};
    let s2 = ${v[1]} + ${v[3]};
    let s3 = vec2<f32>(${v[1]}.y - ${v[3]}.y, ${v[3]}.x - ${v[1]}.x);
    ${v[0]} = s0 + s2;
    ${v[1]} = s1 + s3;
    ${v[2]} = s0 - s2;
    ${v[3]} = s1 - s3;
  }
//% elif R == 8
  ${butterfly([v[0], v[2], v[4], v[6]])}
  ${butterfly([v[1], v[3], v[5], v[7]])}
  {
    let o0 = ${v[1]};
    let o1 = vec2<f32>(${v[3]}.x + ${v[3]}.y, ${v[3]}.y - ${v[3]}.x) * 0.70710678118654752f;
    let o2 = vec2<f32>(${v[5]}.y, -${v[5]}.x);
    let o3 = vec2<f32>(${v[7]}.y - ${v[7]}.x, -${v[7]}.x - ${v[7]}.y) * 0.70710678118654752f;
    let e0 = ${v[0]};
    let e1 = ${v[2]};
    let e2 = ${v[4]};
    let e3 = ${v[6]};
//% for k in range(4)
    ${v[k]} = e${k} + o${k};
    ${v[k + 4]} = e${k} - o${k};
//% endfor
  }
//% elif R == 16
//% for n in range(4)
  ${butterfly([v[n], v[n + 4], v[n + 8], v[n + 12]])}
//% endfor
//% set cos = [1.0, 0.92387953251128674, 0.70710678118654752, 0.38268343236508977, 0.0, -0.38268343236508977, -0.70710678118654752, -0.92387953251128674, -1.0, -0.92387953251128674]
//% set sin = [0.0, -0.38268343236508977, -0.70710678118654752, -0.92387953251128674, -1.0, -0.92387953251128674, -0.70710678118654752, -0.38268343236508977, 0.0, 0.38268343236508977]
//% for n in range(1, 4)
//% for k in range(1, 4)
  ${v[n + 4 * k]} = times(${v[n + 4 * k]}, vec2<f32>(${cos[n * k]}f, ${sin[n * k]}f));
//% endfor
//% endfor
//% for k in range(4)
  ${butterfly([v[4 * k], v[4 * k + 1], v[4 * k + 2], v[4 * k + 3]])}
//% endfor
//% for k in range(4)
//% for j in range(k)
  { let t = ${v[4 * k + j]}; ${v[4 * k + j]} = ${v[4 * j + k]}; ${v[4 * j + k]} = t; }
//% endfor
//% endfor
//% elif R == 3
  {
    let s = ${v[1]} + ${v[2]};
    let d = (${v[1]} - ${v[2]}) * 0.86602540378443865f;
    let m = ${v[0]} - 0.5f * s;
    ${v[0]} = ${v[0]} + s;
    ${v[1]} = vec2<f32>(m.x + d.y, m.y - d.x);
    ${v[2]} = vec2<f32>(m.x - d.y, m.y + d.x);
  }
//% else
//% set cos = {5: [0.30901699437494742, -0.80901699437494742], 7: [0.62348980185873353, -0.22252093395631440, -0.90096886790241913]}[R]
//% set sin = {5: [0.95105651629515357, 0.58778525229247313], 7: [0.78183148246802981, 0.97492791218182361, 0.43388373911755812]}[R]
//% set half = R // 2
  {
//% for j in range(1, half + 1)
    let s${j} = ${v[j]} + ${v[R - j]};
    let d${j} = ${v[j]} - ${v[R - j]};
//% endfor
//% for k in range(1, half + 1)
    let c${k} = ${v[0]}
//% for j in range(1, half + 1)
//% set m = (j * k) % R
      + ${cos[(m if m <= half else R - m) - 1]}f * s${j}
//% endfor
    ;
    let q${k} = vec2<f32>()
//% for j in range(1, half + 1)
//% set m = (j * k) % R
      + ${sin[m - 1] if m <= half else -sin[R - m - 1]}f * d${j}
//% endfor
    ;
//% endfor
    ${v[0]} = ${v[0]}
//% for j in range(1, half + 1)
      + s${j}
//% endfor
    ;
//% for k in range(1, half + 1)
    ${v[k]} = vec2<f32>(c${k}.x + q${k}.y, c${k}.y - q${k}.x);
    ${v[R - k]} = vec2<f32>(c${k}.x - q${k}.y, c${k}.y + q${k}.x);
//% endfor
  }
//% endif
//% endmacro

// Multiply the variables, from the second on, by the powers 1, 2, .. of the twiddle number `at` of
// the table. Powers above the third are products of two entries, so several powers share an entry.
//% macro twiddles(v, at)
//% set R = v | length
  {
//% for q in range(1, [R, 4] | min)
    let w${q} = table_at(${at[0]} + ${q}u * ${at[1]});
//% endfor
//% for q in range(4, R, 4)
    let w${q} = table_at(${at[0]} + ${q}u * ${at[1]});
//% endfor
//% for q in range(1, R)
//% if q < 4 or q % 4 == 0
    ${v[q]} = times(${v[q]}, w${q});
//% else
    ${v[q]} = times(${v[q]}, times(w${q // 4 * 4}, w${q % 4}));
//% endif
//% endfor
  }
//% endmacro
