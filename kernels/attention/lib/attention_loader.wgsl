// Loads chunks of q, k and v. Stores these chunks, and chunks of p, to workgroup memory, which has
// two stages of each. L: attention_layout.
//
// If an invocation loads as many vectors of a chunk as it multiplies, it stores them at literal
// indices, else (`q_part`, `k_part`, `v_part`) at computed indices.

// The vectors of a chunk that this invocation loads (row: depth or key), their positions, and the
// variables that hold them until they are stored: q_v0 .., k_v0 .., v_v0 ...
//% macro loader_init(L)
//% set q_whole, k_whole, v_whole = L.QL == L.RV, L.KL == L.CV, L.VL == L.DV
  let q_row = li >> ${L.log2[L.QH if q_whole else L.QV]}u;
  let q_part = ${"0u" if q_whole else "(li >> %du) & %du" % (L.log2[L.QH], L.RV - 1)};
  let q_at = li & ${L.QH - 1}u;
  let k_row = li >> ${L.log2[L.CL if k_whole else L.KV]}u;
  let k_part = ${"0u" if k_whole else "(li >> %du) & %du" % (L.log2[L.CL], L.CV - 1)};
  let k_at = li & ${L.CL - 1}u;
  let v_row = li >> ${L.log2[L.CL if v_whole else L.VV]}u;
  let v_part = ${"0u" if v_whole else "(li >> 3u) & %du" % (L.DV - 1)};
  let v_at = ${"li & %du" % (L.CL - 1) if v_whole else "((li >> %du) & %du) | (li & 7u)" % (L.log2[L.DV], L.CL - 8)};

  let q_start = p.q_off + local * p.chunks * 16u * p.q_width + row0 / 4u + q_row * p.q_width + q_part * ${L.QH}u + q_at;
  let k_start = p.k_off + local * p.chunks * 16u * p.k_width + k_row * p.k_width + k_part * ${L.CL}u + k_at;
  let v_head = p.v_off${" / 2u" if L.VPL == 2 else ""} + (batch - p.first_batch) * p.v_sb + (kv_head - p.first_head) * p.v_sh;
//% for u in range(L.VL // L.VPL)
//% if L.VPL == 2
  let v_start${u} = v_head + min(col0 / 8u + v_at * ${L.DV // 2}u + ${u}u, (p.value_depth - 1u) / 8u);
//% else
  let v_start${u} = v_head + min(col0 / 4u + (((v_at >> 3u) * ${L.DV}u + v_part + ${u}u) << 3u) + (v_at & 7u), (p.value_depth - 1u) / 4u);
//% endif
//% endfor
//% for t in range(2)
  let q_from${t} = q_start + ${8 * t}u * p.q_width;
  let k_from${t} = k_start + ${8 * t}u * p.k_width;
//% endfor
  var q_pos = 0u;
  var k_pos = tile_from * ${L.KV}u;
  // Row n of a chunk of v belongs to a key of column lane n, whose first key is 4 n.
  let v_lane = v_row * 4u;
//% for u in range(L.QL)
  var q_v${u} = vec4<f32>();
//% endfor
//% for u in range(L.KL)
  var k_v${u} = vec4<f32>();
//% endfor
//% for u in range(L.VL // L.VPL)
  var v_v${u} = ${"vec2" if VT == "f16" and L.DVP == 64 else "vec4"}<u32>();
//% endfor
//% endmacro

// Loads the chunk of stage t of q and k at the positions.
//% macro load_next_qk(L, t)
//% for u in range(L.QL)
      q_v${u} = q_mem[q_from${t} + q_pos + ${u * L.QH}u];
//% endfor
//% for u in range(L.KL)
      k_v${u} = k_mem[k_from${t} + k_pos + ${u * L.CL}u];
//% endfor
//% endmacro

// Stores the loaded chunk to stage t.
//% macro store_stage_qk(L, t)
//% for u in range(L.QL)
      a_tile[q_row][${u if L.QL == L.RV else 'q_part'}][q_at + ${t * L.QH}u] = q_v${u};
//% endfor
//% for u in range(L.KL)
      b_tile[k_row][${u if L.KL == L.CV else 'k_part'}][k_at + ${t * L.CL}u] = k_v${u};
//% endfor
//% endmacro

// Loads the chunk of v whose first key is `from`. The chunk after the last chunk is loaded, too.
//% macro load_next_v(L, from)
      {
        let key_at = min(${from} + v_lane, ${key_range.COUNT} - 1u) * p.v_st;
//% for u in range(L.VL // L.VPL)
        v_v${u} = v_mem[v_start${u} + key_at];
//% endfor
      }
//% endmacro

//% macro loaded_v(L, u)
//% if VT == "f32"
bitcast<vec4<f32>>(v_v${u})
//% else
vec4<f32>(unpack2x16float(v_v${u // L.VPL}.${"xz"[u % L.VPL]}), unpack2x16float(v_v${u // L.VPL}.${"yw"[u % L.VPL]}))
//% endif
//% endmacro

// Stores the loaded values to stage t. If bit `ahead` of `hidden_chunks` is set, no query of the block
// sees these keys, and their values count as 0.
//% macro store_stage_v(L, ahead, t)
//% for u in range(L.VL)
      b_tile[v_row][${u if L.VL == L.DV else 'v_part'}][v_at + ${t * L.CL}u] = ${loaded_v(L, u)};
//% endfor
//% for u in range(L.VL)
      if ((hidden_chunks & ${2 ** ahead}u) != 0u) { b_tile[v_row][${u if L.VL == L.DV else 'v_part'}][v_at + ${t * L.CL}u] = vec4<f32>(); }
//% endfor
//% endmacro

// Stores part `part` of p to a_tile, chunk after chunk; this lane stores row lc.
//% macro store_p(L, part)
//% for i in range(L.NE)
//% set j, x = (part * L.NE + i) // 4, (part * L.NE + i) % 4
//% for r in range(L.RV)
      a_tile[lc][${r}][p_to + ${i * L.WA * L.QH}u] = vec4<f32>(s${4 * r}_${j}[${x}], s${4 * r + 1}_${j}[${x}], s${4 * r + 2}_${j}[${x}], s${4 * r + 3}_${j}[${x}]);
//% endfor
//% endfor
//% endmacro
