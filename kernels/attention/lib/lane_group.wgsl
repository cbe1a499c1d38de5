// Lane groups of attention_decode: sums, online softmax and combine across the lanes of a group, by
// subgroup shuffles (`shuffles`) or through workgroup memory (`exchange`), which takes barriers.
// L: decode_layout.

// Each lane has L.VALUES values `name`0, `name`1, ...; declares `name`, the sum over the group of
// the value that the lane owns.
//% macro reduce_scatter(L, name, shuffles)
//% if shuffles
//% set ns = namespace(n=L.VALUES, bit=L.LANES, old="")
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
//% for h0 in range(0, L.VALUES // 4, L.PER)
//% for h in range(h0, [h0 + L.PER, L.VALUES // 4] | min)
      exchange[${(h - h0) * L.WG}u + li] = vec4<f32>(${name}${4 * h}, ${name}${4 * h + 1}, ${name}${4 * h + 2}, ${name}${4 * h + 3});
//% endfor
      workgroupBarrier();
//% for h in range(h0, [h0 + L.PER, L.VALUES // 4] | min)
      if ((own >> 2u) == ${h}u) {
        for (var i = 0u; i < ${L.LANES}u; i += 1u) { ${name} += exchange[${(h - h0) * L.WG}u + lane_group * ${L.LANES}u + i][own & 3u]; }
      }
//% endfor
      workgroupBarrier();  // exchange has been read
//% endfor
//% endif
//% endmacro

// Reduces `value` over the keys that the lanes of a group own; `op` is a Python format string with
// `%s` for each of the two operands.
//% macro all_reduce(L, value, op)
//% for bit in (1, 2, 4, 8, 16)
//% if L.SHARE * L.ROWS <= bit < L.LANES
      ${value} = ${op % (value, "subgroupShuffleXor(" ~ value ~ ", " ~ bit ~ "u)")};
//% endif
//% endfor
//% endmacro

// Raises m to the largest of the logits x0 .. of its row, and scales l and o down by 2 to the power
// of the difference. If lanes exchange values through memory, share_weights scales o instead.
//% macro raise_row_max(L, shuffles)
      var new_max = x0;
//% for u in range(1, L.U)
      new_max = max(new_max, x${u});
//% endfor
//% if shuffles
      // m is raised only if a logit is far above it, because weights up to 2^8 are exact enough.
      // Groups whose sums are combined by shuffles share one m.
      ${all_reduce(L, "new_max", "max(%s, %s)")}
//% if L.LANES < 32
      new_max = max(new_max, subgroupShuffleXor(new_max, apart16));
//% if L.LANES < 16
      new_max = max(new_max, subgroupShuffleXor(new_max, apart8));
//% endif
//% endif
      let higher = select(m, new_max, new_max > m + 8.0f);
      let shrink = exp2_shifted(m - higher);
      m = higher;
      l *= shrink;
//% for r in range(L.ROWS)
      let f${r} = subgroupShuffle(shrink, lane0 + ${r * L.SHARE}u);
//% endfor
      if (subgroupAny(shrink != 1.0f)) {
//% for r in range(L.ROWS)
        o${r}_0 *= f${r};
        o${r}_1 *= f${r};
//% endfor
      }
//% else
      exchange[li] = vec4<f32>(new_max);
      workgroupBarrier();
      new_max = max(new_max, m);
      for (var i = own & ${L.ROWS - 1}u; i < ${L.VALUES}u; i += ${L.ROWS}u) { new_max = max(new_max, exchange[lane_group * ${L.LANES}u + i * ${L.SHARE}u].x); }
      let shrink = exp2_shifted(m - new_max);
      m = new_max;
      l *= shrink;
      workgroupBarrier();  // exchange has been read
//% endif
//% endmacro

// Gives the weights w0 .. to all lanes of the group. Values of keys that no row sees count as 0,
// even if they are NaN.
//% macro share_weights(L, shuffles)
//% if shuffles
//% for u in range(L.U)
      let sees${u} = subgroupBallot(x${u} != none)[subgroup_lane >> 5u] >> (lane0 & 31u);
//% endfor
      if (subgroupAny(${"(x0 == none) | (x1 == none)" if L.U == 2 else "x0 == none"})) {
//% for u in range(L.U)
//% for j in range(L.KEYS)
        let seen${u}_${j} = (sees${u} & ${(2 ** (L.SHARE * L.ROWS) - 1) * 2 ** (j * L.SHARE * L.ROWS)}u) != 0u;
${L.drop_value(u * L.KEYS + j, "seen%d_%d" % (u, j))}
//% endfor
//% endfor
      }
//% else
      // -1 marks a weight of 0 whose value counts as 0, even if it is NaN.
      exchange[li] = vec4<f32>(shrink
//% for u in range(2)
        , ${"select(w" ~ u ~ ", -1.0f, x" ~ u ~ " == none)" if u < L.U else "0.0f"}
//% endfor
        , 0.0f);
      workgroupBarrier();
//% for r in range(L.ROWS)
      let f${r} = exchange[lane0 + ${r * L.SHARE}u].x;
//% for h in range(2)
      o${r}_${h} *= f${r};
//% endfor
//% endfor
//% endif
//% endmacro

// Sets c0, c1, ... to the weights that rows 0, 1, ... give to key j of round u.
//% macro weights_of_key(L, u, j, shuffles)
//% for r in range(L.ROWS)
//% if shuffles
        let c${r} = vec4<f32>(subgroupShuffle(w${u}, lane0 + ${(j * L.ROWS + r) * L.SHARE}u));
//% else
        let t${r} = exchange[lane0 + ${(j * L.ROWS + r) * L.SHARE}u][${u + 1}];
        let c${r} = vec4<f32>(select(t${r}, 0.0f, t${r} == -1.0f));
//% endif
//% endfor
//% if not shuffles
        let seen = !(
//% for r in range(L.ROWS)
          ${"& " if r else ""}(t${r} == -1.0f)
//% endfor
        );
${L.drop_value(u * L.KEYS + j, "seen")}
//% endif
//% endmacro

// Computes l of each row: the sum over the lanes of a group that have weights of this row.
//% macro sum_weights(L)
    exchange[li] = vec4<f32>(l);
    workgroupBarrier();
    if (lane == own_row * ${L.SHARE}u) {
      for (var i = lane + ${L.SHARE * L.ROWS}u; i < ${L.LANES}u; i += ${L.SHARE * L.ROWS}u) { l += exchange[lane0 + i].x; }
    }
    workgroupBarrier();  // exchange has been read
//% endmacro

// Combines and stores the results of runs of `apart` lanes: groups, or subgroups of 32. The groups of
// a subgroup share one maximum; their results are added first, after which each lane holds half (or a
// quarter) of the rows.
//% macro combine(L, apart)
//% set ns = namespace(bit=L.LANES, n=2 * L.ROWS)
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
    if ((li & ${apart - 1}u) == own_row * ${L.SHARE}u) {
      row_max[li / ${apart}u][own_row] = m;
      row_sum[li / ${apart}u][own_row] = l;
    }
//% set some = [ns.n, L.PER] | min
//% for n0 in range(0, ns.n, some)
//% if n0
    workgroupBarrier();  // exchange has been read
//% endif
//% for n in range(some)
    exchange[${n * L.WG}u + li] = o${(n0 + n) // 2}_${(n0 + n) % 2};
//% endfor
    workgroupBarrier();
    if (li < ${some * apart}u) {
      let n = li / ${apart}u;
      let unit_lane = li & ${apart - 1}u;
//% if ns.n == 2 * L.ROWS
      let r = (${n0}u + n) >> 1u;
//% elif ns.n == L.ROWS
      let r = ((${n0}u + n) >> 1u) + ((unit_lane / ${L.LANES}u) & 1u) * 2u;
//% else
      let r = ((unit_lane / ${L.LANES}u) & 1u) * 2u + ((unit_lane / ${2 * L.LANES}u) & 1u);
//% endif
      ${_combine_row(L, L.WG // apart, apart)}
    }
//% endfor
//% endmacro

// Stores the result of the split for row r, and its lse.
//% macro _combine_row(L, units, apart)
//% for i in range(units)
      let m${i} = row_max[${i}][r];
      let l${i} = row_sum[${i}][r];
      let o${i} = exchange[n * ${L.WG}u + ${i * apart}u + unit_lane];
//% endfor
      var highest = m0;
//% for i in range(1, units)
      highest = max(highest, m${i});
//% endfor
      var sum = 0.0f;
      var value = vec4<f32>();
//% for i in range(units)
      let w${i} = exp2_shifted(m${i} - highest);
      sum = fma(w${i}, l${i}, sum);
      value = fma(vec4<f32>(w${i}), o${i}, value);
//% endfor
      let c = select(q_at0, q_at1, (n & 1u) == 1u);
      if (row0 + r < rows) {
        let empty = sum == 0.0f;
        if (c < columns) {
          partials_mem[(p.partials_off >> 2u) + (part_row + r) * columns + c] = bitcast<vec4<u32>>(value * select(1.0f / sum, 0.0f, empty));
        }
        if (c == 0u) {
          let lse = select((highest + log2(sum)) * LN2, none, empty);
          sums_store(p.sums_off + part_row + r, select(lse, bitcast<f32>(p.nan), is_lost(sum) | is_lost(highest)));
        }
      }
//% endmacro
