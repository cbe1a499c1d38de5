// Teams of lanes of attention_decode: a team of TEAM lanes reads a key, ROWS rows of queries share it.
// NT: invocations; VALUES: products of a team, each the sum over all its lanes, that its lanes then
// own, SHARE lanes each; PER: vectors of each lane that workgroup memory (`red`) holds.

// From `name`0 .. of each lane (the values of a team, VALUES of them) to the sum over the team of
// the one that the lane owns, `name`.
//% macro across(name, by_lanes, NT, TEAM, VALUES, PER)
//% if by_lanes
//% set ns = namespace(n=VALUES, bit=TEAM, old="")
//% for step in range(8)
//% if ns.bit > 1
//% set ns.bit = ns.bit // 2
//% set new = name ~ "s" ~ step ~ "_"
//% if ns.n > 1
//% set ns.n = ns.n // 2
//% for n in range(ns.n)
      let ${new}${n} = select(${ns.old or name}${n}, ${ns.old or name}${n + ns.n}, up${ns.bit})
        + subgroupShuffleXor(select(${ns.old or name}${n + ns.n}, ${ns.old or name}${n}, up${ns.bit}), ${ns.bit}u);
//% endfor
//% else
      let ${new}0 = ${ns.old or name}0 + subgroupShuffleXor(${ns.old or name}0, ${ns.bit}u);
//% endif
//% set ns.old = new
//% endif
//% endfor
      let ${name} = ${ns.old}0;
//% else
      var ${name} = 0.0f;
//% for h0 in range(0, VALUES // 4, PER)
//% for h in range(h0, [h0 + PER, VALUES // 4] | min)
      red[${(h - h0) * NT}u + li] = vec4<f32>(${name}${4 * h}, ${name}${4 * h + 1}, ${name}${4 * h + 2}, ${name}${4 * h + 3});
//% endfor
      workgroupBarrier();
//% for h in range(h0, [h0 + PER, VALUES // 4] | min)
      if ((own >> 2u) == ${h}u) {
        for (var i = 0u; i < ${TEAM}u; i += 1u) { ${name} += red[${(h - h0) * NT}u + team * ${TEAM}u + i][own & 3u]; }
      }
//% endfor
      workgroupBarrier();  // red has been read
//% endfor
//% endif
//% endmacro

// value, joined over the keys that the lanes of a team own.
//% macro over_keys(value, op, TEAM, lanes)
//% for bit in (1, 2, 4, 8, 16)
//% if lanes <= bit < TEAM
      ${value} = ${op % (value, "subgroupShuffleXor(" ~ value ~ ", " ~ bit ~ "u)")};
//% endif
//% endfor
//% endmacro

// Joins and stores what units of `apart` lanes have: teams, or subgroups of 32. These hold several
// teams, which have one maximum: they are added first, so that a lane ends with half (a quarter) of
// the rows.
//% macro join(apart, NT, TEAM, ROWS, SHARE, PER)
//% set ns = namespace(bit=TEAM, n=2 * ROWS)
//% for step in range(2)
//% if ns.bit < apart
//% set half = ns.n // 2
    let upper${ns.bit} = (subgroup_lane & ${ns.bit}u) != 0u;
    l += subgroupShuffleXor(l, ${ns.bit}u);
//% for n in range(half)
//% set a = "o" ~ (n // 2) ~ "_" ~ (n % 2)
//% set b = "o" ~ ((n + half) // 2) ~ "_" ~ ((n + half) % 2)
    ${a} = select(${a}, ${b}, upper${ns.bit})
      + subgroupShuffleXor(select(${b}, ${a}, upper${ns.bit}), ${ns.bit}u);
//% endfor
//% set ns.n = half
//% set ns.bit = ns.bit * 2
//% endif
//% endfor
//% set units = NT // apart
    if ((li & ${apart - 1}u) == own_row * ${SHARE}u) {
      tops[li / ${apart}u][own_row] = m;
      shares[li / ${apart}u][own_row] = l;
    }
//% set some = [ns.n, PER] | min
//% for n0 in range(0, ns.n, some)
//% if n0
    workgroupBarrier();  // red has been read
//% endif
//% for n in range(some)
    red[${n * NT}u + li] = o${(n0 + n) // 2}_${(n0 + n) % 2};
//% endfor
    workgroupBarrier();
    if (li < ${some * apart}u) {
      let n = li / ${apart}u;
      let spot = li & ${apart - 1}u;
//% if ns.n == 2 * ROWS
      let r = (${n0}u + n) >> 1u;
//% elif ns.n == ROWS
      let r = ((${n0}u + n) >> 1u) + ((spot / ${TEAM}u) & 1u) * 2u;
//% else
      let r = ((spot / ${TEAM}u) & 1u) * 2u + ((spot / ${2 * TEAM}u) & 1u);
//% endif
//% for i in range(units)
      let t${i} = tops[${i}][r];
      let s${i} = shares[${i}][r];
      let v${i} = red[n * ${NT}u + ${i * apart}u + spot];
//% endfor
      var highest = t0;
//% for i in range(1, units)
      highest = max(highest, t${i});
//% endfor
      var sum = 0.0f;
      var value = vec4<f32>();
//% for i in range(units)
      let w${i} = exp2_shifted(t${i} - highest);
      sum = fma(w${i}, s${i}, sum);
      value = fma(vec4<f32>(w${i}), v${i}, value);
//% endfor
      let c = select(q_at0, q_at1, (n & 1u) == 1u);
      if (row0 + r < rows) {
        let empty = sum == 0.0f;
        if (c < columns) {
          parts_mem[(p.parts_off >> 2u) + (part_row + r) * columns + c] = bitcast<vec4<u32>>(value * select(1.0f / sum, 0.0f, empty));
        }
        if (c == 0u) {
          let s = select((highest + log2(sum)) * LN2, none, empty);
          sums_store(p.sums_off + part_row + r, select(s, bitcast<f32>(p.nan), is_lost(sum) | is_lost(highest)));
        }
      }
    }
//% endfor
//% endmacro
