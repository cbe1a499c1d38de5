// How a workgroup of attention_mma holds a block: fragments, and their places in workgroup memory.
//
// BR: query rows of a block; BC: keys of a tile; DVP: depth and columns of dst, padded; ACROSS: subgroups
// that share rows. A subgroup holds RF fragments of rows, KF of keys, and VF of columns of dst.
//% set BR, BC, DVP, ACROSS = CFG.BR, CFG.BC, CFG.DEPTH, CFG.ACROSS
// query_block reads this: one dispatch has all heads and rows.
//% set ONE_DISPATCH = true
//% set RF, KF, VF = ACROSS, BC // mma.N // ACROSS, DVP // mma.N // ACROSS
//% set SUBGROUPS = CFG.threads // 32
// Number of 16-byte units in a row of q, k and v. Rows of q, k, v and of the scores are an odd
// number of units apart, so that they fall on different banks. The sums of all rows go through
// workgroup memory in PASSES passes, each as wide as the scores.
//% set ROW_UNITS = DVP // mma.UNIT
//% set ROW, SCORES = ROW_UNITS + 1, BC // 4 + 1
//% set PASSES = VF // KF
// Rows of q, k or v that all invocations load at a time, and the number of such loads for k or v.
//% set ROWS = CFG.threads // ROW_UNITS
//% set LOADS = BC // ROWS
// A lane has units of four scores; unit n lies AT[n] units after the first. The other lane of the row has
// the units between them.
//% set UNITS = BC // 8
//% set AT = [0, 1, 2, 3, 8, 9, 10, 11]
//% set AT_N = "(n & 3u) + (n >> 2u) * 8u"
// Where a lane stores weights. They may take only the places of the lane's own scores, so the two units
// of weights of a fragment lie at the beginning of its four units of scores.
//% set P_AT = [0, 1, 8, 9]

//% macro memory()
${mma.memory([BC * ROW, BR * ROW, BR * SCORES] | max, BR * SCORES, CFG.threads)}
// For each subgroup, 1 if the maximum of one of its rows has risen.
var<workgroup> raised: array<u32, ${SUBGROUPS}>;
//% if RULES == "all"
// With a mask, there is a bit for each key that some row sees.
var<workgroup> unmasked: array<atomic<u32>, ${BC // 32}>;
//% endif
//% endmacro

// Positions: of this lane's row of scores and of p (`own`), of the subgroup's scores (`zone`), of its p,
// its keys and its columns of values; and which unit of which rows this lane loads.
//% macro position()
//% set RANKS = BR // (16 * ACROSS) - 1
  let own_row = warp * 16u + (lane >> 1u);
  let half = lane & 1u;
  let own = min(own_row * ${SCORES}u + half * 4u, ${(BR - 1) * SCORES + 4}u);
  let team = min(warp / ${ACROSS}u, ${RANKS}u);
  let across = warp % ${ACROSS}u;
  let p_at = team * ${16 * ACROSS * SCORES}u;
  let zone = p_at + across * ${4 * KF}u;
  let q_at = team * ${16 * ACROSS * ROW}u;
  let k_at = across * ${KF * mma.N * ROW}u;
  let v_at = across * ${VF * mma.N // mma.UNIT}u;
  let unit = li % ${ROW_UNITS}u;
  let unit_row = li / ${ROW_UNITS}u;
  let unit_to = min(unit_row * ${ROW}u + unit, ${(ROWS - 1) * ROW + ROW_UNITS - 1}u);
  let qk_unit = min(unit, (p.depth - 1u) / ${mma.UNIT}u);
  let k_from = p.k_off + batch * p.k_bs + kv_head * p.k_hs + qk_unit;
  let v_from = p.v_off + batch * p.v_bs + kv_head * p.v_hs + min(col0 / ${mma.UNIT}u + unit, (p.value_depth - 1u) / ${mma.UNIT}u);
//% for u in range(LOADS)
  var k_v${u} = vec4<u32>();
//% endfor
//% endmacro

// Elements of q and k beyond the depth count as 0.
//% macro _in_depth()
first_of_unit(vec4<u32>(0xffffffffu), max(p.depth, unit * ${mma.UNIT}u) - unit * ${mma.UNIT}u)
//%- endmacro

// The block of q as fragments.
//% macro load_q()
  for (var n = 0u; n < ${BR // ROWS}u; n += 1u) {
    let row = row0 + n * ${ROWS}u + unit_row;
    let member = row / p.pitch;
    let query = min(row - member * p.pitch, p.queries - 1u);
    let head = kv_head * p.group + min(member, p.group - 1u);
    let v = q_mem[p.q_off + batch * p.q_bs + head * p.q_hs + query * p.q_ss + qk_unit];
    ${mma.store_unit("unit_to + n * %du" % (ROWS * ROW), "(v & " ~ _in_depth() ~ ")")}
  }
  workgroupBarrier();
//% for r in range(RF)
//% for d in range(DVP // mma.K)
  ${mma.left("q%d_%d" % (r, d), "q_at + %du" % (r * 16 * ROW + d * mma.K // mma.UNIT), ROW ~ "u")}
//% endfor
//% endfor
//% endmacro

// Loads units of the keys from `key` on. The loads are in a branch, because the driver would
// otherwise move them down to their first use.
//% macro load(x, key)
//% for u in range(LOADS)
      ${x}_v${u} = ${x}_mem[${x}_from + min(${key} + unit_row + ${u * ROWS}u, ${key_range.COUNT} - 1u) * p.${x}_ts];
//% endfor
//% endmacro

// If elements beyond the depth must become 0, the changed units are stored once more, in a branch:
// a variable that a branch may change would cost registers and moves in all tiles.
//% macro store_keys()
//% for u in range(LOADS)
    ${mma.store_unit("unit_to + %du" % (u * ROWS * ROW), "k_v%d" % u)}
//% endfor
    if (p.depth != ${DVP}u) {
      let in_depth = ${_in_depth()};
//% for u in range(LOADS)
      ${mma.store_unit("unit_to + %du" % (u * ROWS * ROW), "(k_v%d & in_depth)" % u)}
//% endfor
    }
//% if RULES == "all"
    if (li < ${BC // 32}u) { atomicStore(&unmasked[li], 0u); }
//% endif
//% endmacro

// Values of keys that no row of the block sees count as 0, because they may be NaN.
//% macro store_values()
//% for u in range(LOADS)
    ${mma.store_unit("unit_to + %du" % (u * ROWS * ROW), "v_v%d" % u)}
//% endfor
    if (!plain) {
      for (var at = unit_row; at < ${BC}u; at += ${ROWS}u) {
        var seen = (key0 + at >= seen_from) & (key0 + at < seen_to);
//% if RULES == "all"
        if (p.mask_kind != 0u) { seen &= ((atomicLoad(&unmasked[(at >> 5u) & ${BC // 32 - 1}u]) >> (at & 31u)) & 1u) == 1u; }
//% endif
        if (!seen) {
          ${mma.store_unit("unit_to + (at - unit_row) * %du" % ROW, "vec4<u32>()")}
        }
      }
    }
//% endmacro

// s = q k^T to workgroup memory.
//% macro scores()
//% for r in range(RF)
//% for n in range(KF)
    ${mma.zero("c%d_%d" % (r, n))}
//% endfor
//% endfor
//% for d in range(DVP // mma.K)
    {
//% for n in range(KF)
      ${mma.right("k%d" % n, "k_at + %du" % (n * mma.N * ROW + d * mma.K // mma.UNIT), ROW ~ "u", true)}
//% endfor
//% for r in range(RF)
//% for n in range(KF)
      ${mma.multiply_add("c%d_%d" % (r, n), "q%d_%d" % (r, d), "k%d" % n)}
//% endfor
//% endfor
    }
//% endfor
    workgroupBarrier();  // the keys have been read
//% for r in range(RF)
//% for n in range(KF)
    ${mma.store("c%d_%d" % (r, n), "zone + %du" % (r * 16 * SCORES + 4 * n), SCORES ~ "u")}
//% endfor
//% endfor
    workgroupBarrier();
//% endmacro

// Writes logits over this lane's scores, and notes which keys its row leaves unmasked.
//% macro logits()
        let row = row0 + own_row;
        let member = row / p.pitch;
        let query = min(row - member * p.pitch, p.queries - 1u);
//% if RULES == "all"
        let head = kv_head * p.group + min(member, p.group - 1u);
        let mask_at = p.mask_off + batch * p.mask_bs + head * p.mask_hs + query * p.mask_ss;
        let slope = alibi_slope(p.alibi_first + head);
        var seen = vec2<u32>();
//% endif
        for (var n = 0u; n < ${UNITS}u; n += 1u) {
          let at = ${AT_N};
          let four = half * 4u + at;
//% if RULES == "all"
          let v = logits(${mma.result_unit("own + at")}, query, key0 + four * 4u, mask_at, slope${key_range.ARGUMENTS});
          let some = select(vec4<u32>(), vec4<u32>(1u, 2u, 4u, 8u), bitcast<vec4<u32>>(v) != vec4<u32>(MINUS_INF));
          seen[four >> 3u] |= (some.x | some.y | some.z | some.w) << ((four & 7u) * 4u);
//% else
          let v = in_band(${mma.result_unit("own + at")} * p.scale, query, key0 + four * 4u${key_range.ARGUMENTS});
//% endif
          ${mma.store_result_unit("own + at", "v")}
        }
//% if RULES == "all"
        if (p.mask_kind != 0u) {
//% for word in range(BC // 32)
          atomicOr(&unmasked[${word}], seen[${word}]);
//% endfor
        }
//% endif
//% endmacro

//% macro any_flag(flags)
(${flags}[0]
//%- for n in range(1, SUBGROUPS)
 | ${flags}[${n}]
//%- endfor
) != 0u
//%- endmacro

// Loads p as fragments.
//% macro weights()
//% for r in range(RF)
//% for j in range(BC // mma.K)
    ${mma.left("p%d_%d" % (r, j), "p_at + %du" % (r * 16 * SCORES + 4 * j), SCORES ~ "u")}
//% endfor
//% endfor
//% endmacro

// o += p v
//% macro outputs()
//% for j in range(BC // mma.K)
    {
//% for d in range(VF)
      ${mma.right("v%d" % d, "v_at + %du" % (j * mma.K * ROW + d * mma.N // mma.UNIT), ROW ~ "u")}
//% endfor
//% for r in range(RF)
//% for d in range(VF)
      ${mma.multiply_add("o%d_%d" % (r, d), "p%d_%d" % (r, j), "v%d" % d)}
//% endfor
//% endfor
    }
//% endfor
//% endmacro

// Stores a part of the sums to workgroup memory. Each subgroup stores as many columns as it has
// columns of scores.
//% macro exchange(pass)
//% for r in range(RF)
//% for d in range(KF)
      ${mma.store("o%d_%d" % (r, pass * KF + d), "zone + %du" % (r * 16 * SCORES + 4 * d), SCORES ~ "u")}
//% endfor
//% endfor
      workgroupBarrier();
//% endmacro
