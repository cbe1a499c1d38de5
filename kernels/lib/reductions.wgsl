// Code that the bodies of reductions share: reads values, combines several values into a state, and
// combines and stores the states of a row.

// `batch`: the state of N values, of which only the first n count; x0 is at position i, and the
// next values follow `step` positions apart.
//% macro batch(ROW, N, V, U)
fn batch(
//% for u in range(N)
  x${u}: ${V},
//% endfor
  i: ${U}, step: u32, n: u32,
) -> S {
//% if ROW.batch == "moments"
  ${moments(N, V)}
//% elif ROW.batch == "positions"
  ${positions(N, V, U)}
//% elif ROW.batch == "exponentials"
  ${exponentials(N, V, U)}
//% else
//% for u in range(N)
//% if u == 0
  let s0 = one(x0, i);
//% else
  var s${u} = init();
  if (n > ${u}u) { s${u} = one(x${u}, i + ${u}u * step); }
//% endif
//% endfor
  return ${tree("follow", "s", N)};
//% endif
}
//% endmacro

// x0, x1, ...
//% macro values(N)
//% for u in range(N)
x${u},
//% endfor
//%- endmacro

// f(f(f(s0, s1), f(s2, s3)), ...): sums of many terms are most accurate if they are added in pairs.
//% macro tree(f, s, N, first=0)
${s ~ first if N == 1 else f ~ "(" ~ tree(f, s, N // 2, first) ~ ", " ~ tree(f, s, N // 2, first + N // 2) ~ ")"}
//%- endmacro

//% macro plus(s, N, first=0)
${s ~ first if N == 1 else "(" ~ plus(s, N // 2, first) ~ " + " ~ plus(s, N // 2, first + N // 2) ~ ")"}
//%- endmacro

// Computes the rounded mean first, then differences from it, their mean and their squares, so that
// numbers cancel before they are squared.
//% macro moments(N, V)
//% for u in range(N)
  let v${u} = ${"x0" if u == 0 else "select(" ~ V ~ "(), x" ~ u ~ ", n > " ~ u ~ "u)"};
//% endfor
  let pivot = ${plus("v", N)} / f32(n);
//% for u in range(N)
  let d${u} = ${"x0 - pivot" if u == 0 else "select(" ~ V ~ "(), x" ~ u ~ " - pivot, n > " ~ u ~ "u)"};
  let q${u} = d${u} * d${u};
//% endfor
  return S(pivot, ${plus("d", N)} / f32(n), ${plus("q", N)}, f32(n));
//% endmacro

// A key of a float takes three operations if there is no NaN and the largest value is not zero.
// Otherwise both zeros get the same key, and NaN gets the largest key, even if the order is
// flipped.
//% macro positions(N, V, U)
//% set I = U.replace("u32", "i32")
//% for u in range(N)
  let v${u} = ${"x0" if u == 0 else "select(x0, x" ~ u ~ ", n > " ~ u ~ "u)"};
//% if "f32" in V
  let b${u} = bitcast<${I}>(v${u});
  let k${u} = b${u} ^ (((b${u} >> ${U}(31u)) & ${I}(0x7fffffff)) ^ ${I}(p.flip));
//% elif "u32" in V
  let k${u} = bitcast<${I}>(v${u} ^ ${U}(0x80000000u)) ^ ${I}(p.flip);
//% else
  let k${u} = v${u} ^ ${I}(p.flip);
//% endif
//% endfor
  ${first_of("k", N, U)}
//% if "f32" in V
  let low = ${tree("min", "k", N)};
  let zero = (k_top == ${I}()) | (k_top == ${I}(-1));
  let odd = zero | (k_top > ${I}(0x7f800000)) | (low < ${I}(-0x7f800001));
  if (${"any(odd)" if U != "u32" else "odd"}) {
//% for u in range(N)
    let a${u} = b${u} & ${I}(0x7fffffff);
    let c${u} = select(select(k${u}, ${I}(), a${u} == ${I}()), ${I}(0x7fffffff), a${u} > ${I}(0x7f800000));
//% endfor
    ${first_of("c", N, U)}
    return S(c_top, i + step * c_at);
  }
//% endif
  return S(k_top, i + step * k_at);
//% endmacro

// Declares k_top, the largest of k0, k1, ..., and k_at, the number of the first key that equals it.
//% macro first_of(k, N, U)
//% for left in [4, 2, 1] if left < N
//% for j in range(left)
//% set a = k ~ 2 * j if 2 * left == N else k ~ "_" ~ 2 * left ~ "_" ~ 2 * j
//% set b = k ~ (2 * j + 1) if 2 * left == N else k ~ "_" ~ 2 * left ~ "_" ~ (2 * j + 1)
//% set at_a = U ~ "(" ~ 2 * j ~ "u)" if 2 * left == N else a ~ "_at"
//% set at_b = U ~ "(" ~ (2 * j + 1) ~ "u)" if 2 * left == N else b ~ "_at"
  let ${k}_${left}_${j}_at = select(${at_a}, ${at_b}, ${b} > ${a});
  let ${k}_${left}_${j} = max(${a}, ${b});
//% endfor
//% endfor
  let ${k}_top = ${k ~ "0" if N == 1 else k ~ "_1_0"};
  let ${k}_at = ${U ~ "()" if N == 1 else k ~ "_1_0_at"};
//% endmacro

//% macro exponentials(N, V, U)
//% set I = U.replace("u32", "i32")
//% for u in range(N)
  let v${u} = ${"x0" if u == 0 else "select(x0, x" ~ u ~ ", n > " ~ u ~ "u)"};
  let b${u} = bitcast<${I}>(v${u});
  let k${u} = b${u} ^ ((b${u} >> ${U}(31u)) & ${I}(0x7fffffff));
//% endfor
  let high = ${tree("max", "k", N)};
  let low = ${tree("min", "k", N)};
  let top = finite(high);
//% for u in range(N)
  let e${u} = ${"exp_shifted(v0 - top)" if u == 0 else "select(" ~ V ~ "(), exp_shifted(v" ~ u ~ " - top), n > " ~ u ~ "u)"};
//% endfor
  return S(select(high, ${I}(0x7fffffff), low < ${I}(-0x7f800001)), ${plus("e", N)});
//% endmacro

// Bits of a result at element `at` of dst: a word, or a part of one (p.kind).
//% macro store(at, bits, PACKED)
//% if PACKED
  {
    let at = ${at};
    let bits = ${bits};
    if (p.kind == 1u) {
      ${words.store_shared("dst_mem", 2, "at", "f16_bits_of_f32(bits)")}
    } else if (p.kind == 2u) {
      ${words.store_shared("dst_mem", 2, "at", "(bits & 0xffffu)")}
    } else {
      ${words.store_shared("dst_mem", 1, "at", "(bits & 0xffu)")}
    }
  }
//% else
  dst_mem[${at}] = ${bits};
//% endif
//% endmacro
