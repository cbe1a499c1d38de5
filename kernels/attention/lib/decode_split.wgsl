// Code that the bodies of decoding share: the rows of a workgroup, and its split of the keys. L is
// decode_layout.

//% macro functions(L)
${L.memory()}

${online_softmax.functions(1)}
${mask.functions(1, false, L.MASKED)}
${scalar.quotient()}
${scalar.half_of()}
${L.functions()}
//% endmacro

//% macro key_loop(L, shuffles)
    for (var offset = 0u; offset < count; offset += stride) {
      ${L.load_values()}
//% for u in range(L.U)
      // s = q k^T, one score for each lane.
//% for j in range(L.KEYS)
//% for h in range(2)
      let y${u}_${j}_${h} = ${L.part("k", u * L.KEYS + j, h)};
//% endfor
//% for r in range(L.ROWS)
      let s${u}_${j * L.ROWS + r} = dot8(y${u}_${j}_0, y${u}_${j}_1, q_tile[${r}][q_at0], q_tile[${r}][q_at1]);
//% endfor
//% endfor
//% if u == L.U - 1
      // Without this condition, the driver moves the loads to the end of the loop.
      if (offset + stride < count) {
        ${L.load_keys("k", "offset + stride")}
      }
//% endif
      ${lane_group.reduce_scatter(L, "s" ~ u ~ "_", shuffles)}
      let n${u} = offset + own_key + ${u * L.KEYS * L.GROUPS}u;
      let x${u} = select(none, logits(s${u}_, key0 + n${u}, mask_at, slope), n${u} - seen0 < seen);
//% endfor
      // The online softmax: updates m, l and o, and computes the weights w = 2^(x - m).
      ${lane_group.raise_row_max(L, shuffles)}
//% for u in range(L.U)
      let w${u} = exp2_shifted(x${u} - m);
      l += w${u};
//% endfor
      ${lane_group.share_weights(L, shuffles)}
      // o += w v
//% for u in range(L.U)
//% for j in range(L.KEYS)
      {
        ${lane_group.weights_of_key(L, u, j, shuffles)}
//% for h in range(2)
        let z${h} = ${L.part("v", u * L.KEYS + j, h)};
//% endfor
//% for r in range(L.ROWS)
//% for h in range(2)
        o${r}_${h} = fma(c${r}, z${h}, o${r}_${h});
//% endfor
//% endfor
      }
//% endfor
//% endfor
//% if not shuffles
      workgroupBarrier();  // exchange has been read
//% endif
    }
//% endmacro

//% macro main(L)
@compute @workgroup_size(${L.WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>,
//% if SG
        @builtin(subgroup_id) subgroup: u32, @builtin(subgroup_size) subgroup_width: u32,
        @builtin(subgroup_invocation_id) subgroup_lane: u32,
//% else
        @builtin(local_invocation_index) li: u32,
//% endif
) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
//% if SG
  let li = min(subgroup * subgroup_width + subgroup_lane, ${L.WG - 1}u);
//% endif
  let matrix = quotient(g, p.row_groups * p.splits);
  let rest = g - matrix * p.row_groups * p.splits;
  let split = quotient(rest, p.row_groups);
  let row0 = (rest - split * p.row_groups) * ${L.ROWS}u;
  let batch = quotient(matrix, p.kv_heads);
  let kv_head = matrix - batch * p.kv_heads;
  ${key_range.ends()}
  let key0 = ${key_range.FIRST} + split * ${L.STEP}u;
  let stride = p.splits * ${L.STEP}u;
  let count = ${key_range.LAST} - key0;
  let rows = p.group * p.queries;
  ${key_range.leave_without_keys("sums", L.ROWS)}

  // The first keys are loaded while q is stored.
  ${L.loader_init()}
  ${L.load_q()}
  ${L.load_keys("k", "0u", "var ")}
  ${L.store_q()}
  workgroupBarrier();

//% for bit in (1, 2, 4, 8, 16)
//% if SG and bit < L.LANES
  let up${bit} = (lane & ${bit}u) != 0u;
//% endif
//% endfor
  // The number of the logit that this lane owns in its group; it is the logit of one row and one
  // key.
  let own = lane / ${L.SHARE}u;
  let own_row = own & ${L.ROWS - 1}u;
  let own_key = own / ${L.ROWS}u + lane_group * ${L.KEYS}u;
  let mine = min(row0 + own_row, rows - 1u);
  let member = quotient(mine, p.queries);
  let query = mine - member * p.queries;
  let head = kv_head * p.group + member;
//% if L.MASKED
  let mask_at = p.mask_off + batch * p.mask_bs + head * p.mask_hs + query * p.mask_ss;
//% else
  let mask_at = 0u;
//% endif
  let slope = alibi_slope(p.alibi_first + head);
  let none = bitcast<f32>(p.minus_inf);
  // The keys of the split (from key0 on) that this query may see: `seen` keys from `seen0` on.
  let from_here = i32(query) - i32(key0);
  let seen0 = u32(max(from_here + ${key_range.LOW}, 0));
  let seen = u32(max(min(from_here + ${key_range.HIGH} + 1, i32(count)) - i32(seen0), 0));

  var m = LOWEST;  // maximum of this lane's row over the keys that the group has seen
  var l = 0.0f;  // sum of the weights that this lane has computed
//% for r in range(L.ROWS)
//% for h in range(2)
  var o${r}_${h} = vec4<f32>();
//% endfor
//% endfor
//% if SG
  if (subgroup_width >= ${L.LANES}u) {
    let lane0 = subgroup_lane & ~${L.LANES - 1}u;
//% for bit in (8, 16)
//% if L.LANES <= bit
    let apart${bit} = select(0u, ${bit}u, subgroup_width >= 32u);  // 0 stands for the lane itself
//% endif
//% endfor
    ${key_loop(L, true)}
    ${lane_group.all_reduce(L, "l", "%s + %s")}
  } else {
//% else
  {
//% endif
    let lane0 = lane_group * ${L.LANES}u;
    ${key_loop(L, false)}
    ${lane_group.sum_weights(L)}
  }

  let part_row = (split * p.matrices + matrix) * rows + row0;
  let columns = (p.value_depth + 3u) >> 2u;
//% if SG and L.LANES < 32
  if (subgroup_width >= 32u) {
    ${lane_group.combine(L, 32)}
  } else {
    ${lane_group.combine(L, L.LANES)}
  }
//% else
  {
    ${lane_group.combine(L, L.LANES)}
  }
//% endif
}
//% endmacro
