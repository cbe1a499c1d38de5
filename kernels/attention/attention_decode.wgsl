// /// kernel
// doc = "flash_attn of a few rows, heads up to 256 deep: split-KV; groups of lanes read keys in one pass."
// part_of = "flash_attn"
// configs.lanes8 = { LANES = 8, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// configs.lanes16 = { LANES = 16, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// configs.lanes16x2 = { LANES = 16, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 256, workgroup_bytes = 25600 }
// configs.lanes32 = { LANES = 32, DEPTHS = 8, ROWS = 4, LOADS = 4, threads = 128, workgroup_bytes = 16384 }
// axes.T = ["f32", "f16"]
// axes.GROUP = "configs"
// axes.SG = [true, false]
// axes.LENGTHS = ["", "i32"]
// pick.T = "dtype(k)"
// pick.SG = "caps.subgroups"
// pick.LENGTHS = "dtype(lengths)"
// when = ["SG or GROUP == 'lanes16'"]
// workgroup_bytes = "CFG.workgroup_bytes"
// subgroups = "SG"
// inputs.q = { dtype = "*", dtypes = ["float32", "float16"], bind = "'u32'", axes = "b h s d", doc = "(B, H, S, D)" }
// inputs.k = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, Hkv, T, D)" }
// inputs.v = { dtype = "*", dtypes = ["float32", "float16"], bind = "'vec4<u32>'", doc = "(B, Hkv, T, Dv)" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, axes = "b h s t" }
// inputs.lengths = { dtype = "LENGTHS", when = "LENGTHS != ''", optional = true, readonly = true, axes = "b" }
// outputs.sums = { dtype = "f32", doc = "(splits, B, H, S): lse of each split" }
// outputs.partials = { dtype = "*", dtypes = ["float32"], bind = "'vec4<u32>'", doc = "(splits, B, H, S, padded Dv)" }
// include sizes
// params.matrices = { type = "u32" }
// params.row_groups = { type = "u32" }
// params.splits = { type = "u32" }
// params.first_key = { type = "u32" }
// params.last_key = { type = "u32" }
// params.band_low = { type = "i32" }
// params.band_high = { type = "i32" }
// params.q_kind = { type = "u32", value = "q.dtype.itemsize" }
// params.k_sb = { type = "u32", value = "k.strides[0] // 16 & 0xffffffff" }
// params.k_sh = { type = "u32", value = "k.strides[1] // 16 & 0xffffffff" }
// params.k_st = { type = "u32", value = "k.strides[2] // 16 & 0xffffffff" }
// params.v_sb = { type = "u32", value = "v.strides[0] // 16 & 0xffffffff" }
// params.v_sh = { type = "u32", value = "v.strides[1] // 16 & 0xffffffff" }
// params.v_st = { type = "u32", value = "v.strides[2] // 16 & 0xffffffff" }
// params.mask_kind = { type = "u32", value = "0 if mask is None else 3 if mask.dtype.name == 'bool' else 1 if mask.dtype.itemsize == 4 else 2" }
// include scores
// uses = ["scalar", "key_range", "decode_layout", "lane_group", "tile/mask", "online_softmax"]
// grid = "matrices * row_groups * splits"
// ///

// Decoding: a few query rows against all keys. One workgroup takes up to ROWS rows of one KV head and
// one split of the keys, so that k and v are read once. A lane group of LANES lanes reads a key
// together, DEPTHS depths each. A group takes KEYS keys at a time and has its own running maximum. It
// adds the products of its keys and rows across its lanes, so that each lane ends with one logit. The
// lane turns the logit into a weight and sends it to all lanes. No barrier is needed until the groups
// are combined, unless subgroups are smaller than a group: then lanes exchange by workgroup memory.
//
// Bounds, for unchecked compilation: keys are clamped to their count, depths to theirs, rows to the
// last; stores are guarded.
//% set L = decode_layout
${L.memory()}

${online_softmax.functions(1)}
${mask.functions(1, false)}
${scalar.quotient()}
${scalar.half_of()}
${L.functions()}

//% macro key_loop(shuffles)
    for (var offset = 0u; offset < count; offset += stride) {
      ${L.load_values()}
//% for u in range(L.U)
      // s = q k^T, one of them for each lane.
//% for j in range(L.KEYS)
//% for h in range(2)
      let y${u}_${j}_${h} = ${L.part("k", u * L.KEYS + j, h)};
//% endfor
//% for r in range(L.ROWS)
      let s${u}_${j * L.ROWS + r} = dot8(y${u}_${j}_0, y${u}_${j}_1, q_tile[${r}][q_at0], q_tile[${r}][q_at1]);
//% endfor
//% endfor
//% if u == L.U - 1
      if (offset + stride < count) {  // behind `if`, or the driver moves it to the end of the loop
        ${L.load_keys("k", "offset + stride")}
      }
//% endif
      ${lane_group.reduce_scatter(L, "s" ~ u ~ "_", shuffles)}
      let n${u} = offset + own_key + ${u * L.KEYS * L.GROUPS}u;
      let x${u} = select(none, logits(s${u}_, key0 + n${u}, mask_at, slope), n${u} - seen0 < seen);
//% endfor
      // Online softmax: m, l, o, and the weights w = 2^(x - m).
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

  // The first keys are on their way while q is stored.
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
  // The logit that this lane ends with: number `own` of its group, of one row and key.
  let own = lane / ${L.SHARE}u;
  let own_row = own & ${L.ROWS - 1}u;
  let own_key = own / ${L.ROWS}u + lane_group * ${L.KEYS}u;
  let mine = min(row0 + own_row, rows - 1u);
  let member = quotient(mine, p.queries);
  let query = mine - member * p.queries;
  let head = kv_head * p.group + member;
  let mask_at = p.mask_off + batch * p.mask_bs + head * p.mask_hs + query * p.mask_ss;
  let slope = alibi_slope(p.alibi_first + head);
  let none = bitcast<f32>(p.minus_inf);
  // The keys from key0 on that this query may see: `seen` of them from `seen0` on.
  let from_here = i32(query) - i32(key0);
  let seen0 = u32(max(from_here + ${key_range.LOW}, 0));
  let seen = u32(max(min(from_here + ${key_range.HIGH} + 1, i32(count)) - i32(seen0), 0));

  var m = LOWEST;  // of the keys of this lane's row that the group has seen
  var l = 0.0f;  // weights that this lane has given
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
    let apart${bit} = select(0u, ${bit}u, subgroup_width >= 32u);  // 0: the lane itself
//% endif
//% endfor
    ${key_loop(true)}
    ${lane_group.all_reduce(L, "l", "%s + %s")}
  } else {
//% else
  {
//% endif
    let lane0 = lane_group * ${L.LANES}u;
    ${key_loop(false)}
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
