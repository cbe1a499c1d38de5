// /// kernel
// doc = "Attention of blocks of query rows on matrix units, with halves, f32 sums and an online softmax."
// part_of = "flash_attn"
// configs.d64 = { BR = 64, BC = 32, DEPTH = 64, ACROSS = 1, threads = 128 }
// configs.d128 = { BR = 128, BC = 64, DEPTH = 128, ACROSS = 2, threads = 256 }
// configs.emulated = { BR = 32, BC = 32, DEPTH = 64, ACROSS = 2, threads = 64 }
// axes.MMA = "mma"
// axes.TILE = "configs"
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.LENGTHS = { values = ["", "i32"], pick = "dtype(lengths)" }
// axes.RULES = ["band", "all"]
// axes.VEC = { values = [4], pick = "4" }
// when = [
//   "(MMA == 'emulated') == (TILE == 'emulated')",
//   "MMA != 'cooperative_matrix' or (D == 'f32' and LENGTHS == '')",  # for naga's verdict only
// ]
// fragments = "'f16'"
// inputs.q = { dtype = "u32", vec = "VEC", axes = "b h s d", doc = "(batch, heads, queries, depth) in words of two halves; rows are whole 16-byte units; the same for k and v" }
// inputs."k v" = { dtype = "u32", vec = "VEC", axes = "b h t d" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, axes = "b h s t" }
// inputs.sinks = { dtype = "f32", optional = true, axes = "h" }
// inputs.lengths = { dtype = "LENGTHS", when = "LENGTHS != ''", optional = true, readonly = true, axes = "b" }
// outputs.lse = { dtype = "f32", axes = "p b h s", doc = "A part for each split of the keys" }
// outputs.dst = { dtype = "D", vec = "VEC", axes = "p b h s d", doc = "Rows of whole vectors; a part for each split." }
// include sizes
// params."pitch run breadth columns" = { type = "u32" }
// params.matrices = { type = "u32", value = "k.shape[0] * k.shape[1]" }
// params."ranks split_tiles longest" = { type = "u32" }
// params.units = { type = "u32", value = "CFG.BC // 8" }
// params."band_low band_high" = { type = "i32" }
// params."spread rest" = { type = "u32" }
// params.mask_kind = { type = "u32", value = "0 if mask is None else 3 if mask.dtype.name == 'bool' else 1 if mask.dtype.itemsize == 4 else 2" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// include scores
// workgroup_bytes = "(2 if MMA == 'cooperative_matrix' else 1) * CFG.BR * (CFG.BC // 4 + 1) * 16 + 1024"
// uses = ["mma/${MMA}", "tile/mma_loader", "key_range", "attention_mma_layout", "tile/mask", "online_softmax", "query_block"]
// grid = "ranks * dst.shape[0]"
// ///

// FlashAttention: one workgroup computes a block of BR query rows of one KV head (the query heads
// that share it are rows too), in DEPTH columns of dst, over one split of the keys, in tiles of BC.
// ACROSS subgroups share 16 * ACROSS rows: each multiplies all of these rows, first with its part
// of the keys, then with its part of the columns of v.
//
// Fragments of q stay in registers. One array of workgroup memory holds, one after the other, keys,
// their scores, the weights p as halves in the place of the scores, and values. Two lanes share a
// row of scores.
//
// Matrix units truncate the terms that they add, so a sum must not run over many keys; and
// fragments cannot be scaled. So if a row's maximum rises, or after `longest` tiles, the sums in
// fragments are added to `total`, the f32 sums of each lane, and start again from 0. This is done
// outside the loop over tiles, because inside it the driver would move all of `total` in each tile.
// Loops over `total` have a bound that the driver does not know, so it does not unroll them and
// keeps `total` out of the registers.
//
// Bounds, for unchecked compilation: rows of q, keys, and units of all rows are clamped to their
// counts; mask rows and columns are clamped; stores are guarded; indices into workgroup memory are
// lane numbers below the sizes of the arrays, and clamped where the compiler cannot prove this.
//% set L = attention_mma_layout
${L.memory()}
${mma_loader.functions()}
${online_softmax.functions(4)}
//% if RULES == "all"
${mask.functions(4)}
//% else
${mask.band(4)}
//% endif
// SLACK: by how many powers of two a logit may exceed its row's maximum. LIFT: the maximum of a row
// has the weight 2^LIFT, so that weights down to 2^-21 of it are normal halves.
const SLACK = 8.0f;
const LIFT = 7.0f;

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32${mma.arguments()}) {
  let g = ${mma.group()};
  if (g >= p.groups) { return; }
  ${mma.position()}
  ${query_block.tile_index(L)}
  ${L.position()}
  ${L.load_q()}
//% for r in range(L.RF)
//% for d in range(L.VF)
  ${mma.zero("o%d_%d" % (r, d))}
//% endfor
//% endfor
  var total: array<vec4<f32>, ${L.PASSES * L.UNITS}>;
  var m = LOWEST;
  var l = 0.0f;

  var key_tile = tile_from;
  if (tile_from < tile_to) { ${L.load("k", "tile_from * %du" % L.BC)} }
  loop {
    // The sums of the tiles before `run_to` stay in fragments.
    let run_to = min(key_tile + p.longest, tile_to);
    var next_m = LOWEST;
    for (; key_tile < run_to; key_tile += 1u) {
      let key0 = key_tile * ${L.BC}u;
      workgroupBarrier();  // weights and values have been read
      ${L.store_keys()}
      workgroupBarrier();
//% for u in range(L.LOADS)
      var v_v${u}: vec4<u32>;
//% endfor
      if (key0 < seen_to) { ${L.load("v", "key0")} }

      // s = q k^T
      ${L.scores()}

      // Scale, soft cap, ALiBi, mask. `whole`: every row sees all keys.
      let whole = (i32(key0) >= i32(last_row) + ${key_range.LOW}) & (i32(key0 + ${L.BC - 1}u) <= i32(first_row) + ${key_range.HIGH})
        & (key0 + ${L.BC}u <= ${key_range.COUNT});
//% if RULES == "all"
      let plain = whole & (p.mask_kind == 0u);
      let raw = plain & (p.softcap == 0.0f);
//% else
      let plain = whole;
      let raw = whole;
//% endif
      var factor = p.scale;
      if (!raw) {
        factor = 1.0f;
        ${L.logits()}
      }
//% for n in range(L.UNITS)
      var s${n} = ${mma.result_unit("own + %du" % L.AT[n])} * factor;
//% endfor

      // A row's maximum is set by its first tile; later it changes only if a logit is far above it.
      var top4 = s0;
//% for n in range(1, L.UNITS)
      top4 = max(top4, s${n});
//% endfor
      let top = max(max(top4.x, top4.y), max(top4.z, top4.w));
      ${mma.shuffle_xor("other_top", "top", 1)}
      let new_max = max(m, max(top, other_top) - LIFT);
      if (key_tile == tile_from) { m = new_max; }
      ${mma.any("any_rises", "(new_max > m + SLACK)", CFG.threads)}
      if (lane == 0u) { raised[warp] = select(0u, 1u, any_rises); }

      // p = 2^(s - m), as halves, in the place of the scores that this lane has read.
//% for n in range(L.UNITS)
      s${n} -= m;
//% endfor
      if (!plain) {  // masked logits must not reach exp2
//% for n in range(L.UNITS)
        s${n} = select(s${n}, V(-200.0f), s${n} < V(-126.0f));
//% endfor
      }
//% for n in range(L.UNITS)
      s${n} = exp2(s${n});
//% endfor
//% for n in range(0, L.UNITS, 2)
      ${mma.store_unit("own + %du" % L.P_AT[n // 2], "vec4<u32>(pack2x16float(s%d.xy), pack2x16float(s%d.zw), pack2x16float(s%d.xy), pack2x16float(s%d.zw))" % (n, n, n + 1, n + 1))}
//% endfor
      let flags = workgroupUniformLoad(&raised);  // also a barrier: all weights are stored
      if (${L.any_flag("flags")}) {
        // The sums restart with this tile; its keys are still in registers.
        next_m = new_max;
        break;
      }

      // l += row sums of the unrounded weights; o += p v
      var sum4 = s0;
//% for n in range(1, L.UNITS)
      sum4 += s${n};
//% endfor
      l += (sum4.x + sum4.y) + (sum4.z + sum4.w);
      ${L.weights()}
      workgroupBarrier();
      ${L.store_values()}
      workgroupBarrier();
      if (key_tile + 1u < tile_to) { ${L.load("k", "(key0 + %du)" % L.BC)} }
      ${L.outputs()}
    }
    if (key_tile >= tile_to) { break; }

    let to_m = max(m, next_m);
    let shrink = exp2_shifted(V(m - to_m)).x;
    m = to_m;
    l *= shrink;
    workgroupBarrier();
//% for pass in range(L.PASSES)
    ${L.exchange(pass)}
    for (var n = 0u; n < p.units; n += 4u) {
//% for e in range(4)
      let v${e} = (total[n + ${pass * L.UNITS + e}u] + ${mma.result_unit("own + n * 2u + %du" % e)}) * shrink;
//% endfor
//% for e in range(4)
      total[n + ${pass * L.UNITS + e}u] = v${e};
//% endfor
    }
    workgroupBarrier();
//% endfor
//% for r in range(L.RF)
//% for d in range(L.VF)
    ${mma.clear("o%d_%d" % (r, d))}
//% endfor
//% endfor
  }

  ${mma.shuffle_xor("other_l", "l", 1)}
  var sum = l + other_l;
  ${query_block.end_of_row(L, "row0 + own_row", "(half == 0u)")}
//% for pass in range(L.PASSES)
  workgroupBarrier();
  ${L.exchange(pass)}
  for (var n = 0u; n < p.units; n += 4u) {
//% for e in range(4)
    {
      let v = total[n + ${pass * L.UNITS + e}u] + ${mma.result_unit("own + n * 2u + %du" % e)};
      let unit = half * 4u + n * 2u + ${e}u;
      let column = unit / ${4 * L.KF}u * ${4 * L.VF}u + ${4 * L.KF * pass}u + unit % ${4 * L.KF}u;
      if (inside & (column < (p.value_depth - col0 + 3u) / 4u)) { dst_store(to + column, v * row_scale); }
    }
//% endfor
  }
//% endfor
}
