// /// kernel
// doc = "Attention of blocks of query rows: two products with tiles in registers, and an online softmax."
// part_of = "flash_attn"
// configs.small64 = { BR = 32, BC = 32, TR = 4, PK = 32, DVP = 64, threads = 64, workgroup_bytes = 16384 }
// configs.small128 = { BR = 32, BC = 32, TR = 4, PK = 32, DVP = 128, threads = 64, workgroup_bytes = 16384 }
// configs.large64 = { BR = 128, BC = 64, TR = 8, PK = 32, DVP = 64, threads = 128, workgroup_bytes = 25600 }
// configs.large128 = { BR = 64, BC = 128, TR = 8, PK = 32, DVP = 128, threads = 128, workgroup_bytes = 25600 }
// axes.D = { values = ["f32", "f16"], pick = "dtype(dst)" }
// axes.TILE = "configs"
// axes.VT = { values = ["f32", "f16"], pick = "v.dtype.short" }
// axes.LENGTHS = { values = ["", "i32"], pick = "dtype(lengths)" }
// axes.VEC = { values = [4], pick = "4" }
// inputs.q = { dtype = "f32", vec = "VEC", readonly = true, doc = "From pack_qk: (batch * kv_heads, padded depth, blocks * rows of a block)" }
// inputs.k = { dtype = "f32", vec = "VEC", readonly = true, doc = "From pack_qk: (batch * kv_heads, padded depth, tiles * keys of a tile)" }
// inputs.v = { dtype = "*", vec = "VEC", dtypes = ["float32", "float16"], bind = "'vec2<u32>' if VT == 'f16' and CFG.DVP == 64 else 'vec4<u32>'", doc = "The values that belong to q and k: those of whole batches, or of some KV heads of one batch" }
// inputs.mask = { dtype = "*", dtypes = ["float32", "float16", "bool"], bind = "'u32'", optional = true, axes = "b h s t" }
// inputs.sinks = { dtype = "f32", optional = true, axes = "h" }
// inputs.lengths = { dtype = "LENGTHS", when = "LENGTHS != ''", optional = true, readonly = true, axes = "b" }
// outputs.lse = { dtype = "f32", axes = "p b h s", doc = "A part for each split of the keys" }
// outputs.dst = { dtype = "D", vec = "VEC", axes = "p b h s d", doc = "Rows of whole vectors; a part for each split." }
// params."first_batch first_head kv_heads group queries keys" = { type = "u32" }
// params.chunks = { type = "u32", value = "q.shape[1] // 16" }
// params.q_width = { type = "u32", value = "q.shape[2] // 4" }
// params.k_width = { type = "u32", value = "k.shape[2] // 4" }
// params."value_depth pitch head_blocks run breadth columns" = { type = "u32" }
// params.matrices = { type = "u32", value = "q.shape[0]" }
// params."first_rank ranks long_tiles split_tiles rows_before" = { type = "u32" }
// params."band_low band_high" = { type = "i32" }
// params."spread rest" = { type = "u32" }
// params.v_sb = { type = "u32", value = "v.strides[0] // (8 if VT == 'f16' and CFG.DVP == 64 else 16) & 0xffffffff" }
// params.v_sh = { type = "u32", value = "v.strides[1] // (8 if VT == 'f16' and CFG.DVP == 64 else 16) & 0xffffffff" }
// params.v_st = { type = "u32", value = "v.strides[2] // (8 if VT == 'f16' and CFG.DVP == 64 else 16) & 0xffffffff" }
// params.mask_kind = { type = "u32", value = "0 if mask is None else 3 if mask.dtype.name == 'bool' else 1 if mask.dtype.itemsize == 4 else 2" }
// params.has_sinks = { type = "u32", value = "1 if sinks else 0" }
// include scores
// workgroup_bytes = "CFG.workgroup_bytes"
// uses = ["tile/outer_product", "key_range", "attention_layout", "attention_loader", "tile/mask", "online_softmax", "query_block"]
// grid = "ranks * dst.shape[0]"
// ///

// FlashAttention: one workgroup computes a block of BR query rows of one KV head (the query heads that
// share it are rows too), in DVP columns of dst, over one split of the keys. It goes through the keys
// in tiles of BC: scores s = q k^T in registers, from chunks of 8 depths; online softmax; then p
// goes to workgroup memory in parts of PK keys, and o += p v from chunks of 8 keys.
//
// Chunks of q, k and v go through two stages of workgroup memory, with one barrier each: in the
// middle of a chunk the next chunk is stored and the chunk after it is loaded.
//
// The speed depends on how many instructions of the loops are not multiply-adds, and on the size of
// the text. So the arrays in workgroup memory have an axis for the vectors of one invocation. Its
// index is a literal, and one position in the last axis, which is clamped once, serves all vectors
// of k (or of v).
//
// Bounds, for unchecked compilation: q and k are padded to whole blocks, tiles and pairs of chunks,
// and positions move on only while two or more pairs are left; rows of v are clamped to the keys,
// columns to its depth; mask rows and columns are clamped; stores are guarded; indices into
// workgroup memory are lane numbers below the sizes of the arrays.
//% set L = attention_layout
//% set loader = attention_loader
${L.memory()}
${online_softmax.tile_memory(L.BR)}
${query_block.memory(L)}
${online_softmax.tile_functions()}
${online_softmax.functions(4)}
${mask.functions(4)}

@compute @workgroup_size(${L.NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  ${query_block.tile_index(L)}
  ${L.position()}
  ${loader.loader_init(L)}
  ${online_softmax.tile_registers(L.TR, L.DV)}
  ${online_softmax.tile_init(L.BR)}
  if (tile_from < tile_to) { ${loader.load_next_qk(L, 0)} }
  for (var tile = tile_from; tile < tile_to; tile += 1u) {
    let key0 = tile * ${L.BC}u;
    // The number of chunks of v to read. The first chunks hold the first keys of each lane; if no
    // row sees later keys of this tile, only these chunks are read.
    let chunks = select(${L.PARTS * L.WN}u, ${L.PARTS * L.WN // L.CV}u, key0 + ${L.BC // L.CV}u >= seen_to);

    // s = q k^T, two chunks a round.
    ${L.zeros("s", L.TR, L.CV)}
    ${loader.store_stage_qk(L, 0)}
    ${loader.load_next_qk(L, 1)}
    workgroupBarrier();
    q_pos = select(0u, 16u * p.q_width, p.chunks > 1u);
    k_pos += select(0u, 16u * p.k_width, p.chunks > 1u);
    for (var left = p.chunks; left > 0u; left -= 1u) {
//% for t in range(2)
//% for n in range(8)
      ${L.multiply("s", n, "at_row + " ~ t * L.QH ~ "u", t, L.CV, L.DVP == 64)}
//% if n == 3
      ${loader.store_stage_qk(L, 1 - t)}
      ${loader.load_next_qk(L, t)}
//% endif
//% endfor
      workgroupBarrier();
//% endfor
      q_pos += select(0u, 16u * p.q_width, left > 2u);
      k_pos += select(0u, 16u * p.k_width, left > 2u);
    }
    ${loader.load_next_v(L, "key0")}

    // Scale, soft cap, ALiBi, mask; then p = 2^(s - m) in the place of s, and l += row sums of p.
    ${mask.apply(L)}
    ${online_softmax.raise_row_max(L.TR, L.CV, L.QH)}
    ${mask.store_unmasked(L)}
    workgroupBarrier();
    ${online_softmax.rescale(L.TR, L.DV, L.QH)}
    ${mask.hidden_chunks(L)}
    ${online_softmax.exponentiate(L.TR, L.CV)}

    // o += p v, two chunks a round. The first chunk goes to stage 1, because stage 0 is still being
    // read.
    ${loader.store_p(L, 0)}
    ${loader.store_stage_v(L, 0, 1)}
    ${loader.load_next_v(L, "key0 + " ~ (32 if L.WA == 2 else 1) ~ "u")}
    workgroupBarrier();
    q_pos = 0u;
    k_pos = min(tile + 1u, tile_to - 1u) * ${L.KV}u;
    var chunk = 0u;
    loop {
//% for part in range(1, L.PARTS)
      if (chunk == ${part * L.WN}u) {
        ${loader.store_p(L, part)}
        workgroupBarrier();
      }
//% endfor
      let p_at = at_row + (chunk & ${L.WN - 1}u) * ${L.QH}u;
      let component = ${"(chunk >> 1u) + 1u" if L.WA == 2 else "chunk + 2u"};
      let from_key = key0 + (component >> 2u) * ${4 * L.CL}u + (component & 3u);
//% for t in range(2)
//% for n in range(8)
      ${L.multiply("o", n, "p_at + " ~ t * L.QH ~ "u", 1 - t, L.DV, L.VPL == 2)}
//% if n == 3
      ${loader.store_stage_v(L, t + 1, t)}
      ${loader.load_next_v(L, "from_key + " ~ (32 * t if L.WA == 2 else t) ~ "u")}
//% endif
//% endfor
      workgroupBarrier();
//% endfor
      hidden_chunks >>= 2u;
      continuing {
        chunk += 2u;
        break if chunk >= chunks;
      }
    }
    ${loader.load_next_qk(L, 0)}
  }
  ${query_block.epilogue(L)}
}
