// /// kernel
// doc = "Computes the part of a gradient that comes from one window: dst[m, :] (+)= sum over k of b[k, m] * a[k, :], for some heads."
// part_of = "flash_attn_backward"
// configs.tile32 = { BM = 32, BN = 32, BK = 16, TM = 4, TN = 4, LM = 4, LN = 8, threads = 64 }
// configs.tile128x64 = { BM = 128, BN = 64, BK = 16, TM = 8, TN = 4, LM = 4, LN = 8, threads = 256 }
// configs.tile128 = { BM = 128, BN = 128, BK = 16, TM = 8, TN = 8, LM = 4, LN = 8, threads = 256 }
// axes.VEC = [4]
// axes.TILE = "configs"
// inputs.a = { dtype = "f32", vec = "VEC", index = false, readonly = true, doc = "(heads or KV heads, k, columns)" }
// inputs.b = { dtype = "f32", vec = "VEC", index = false, readonly = true, doc = "(window's heads, k, m)" }
// outputs.dst = { dtype = "f32", vec = "VEC", index = false, axes = "b h m c", doc = "(batch, heads, m, columns) by strides" }
// params."a_rs a_rows b_rs k_tiles across down first_head first_row first_k rows cols" = { type = "u32" }
// params."heads sharing" = { type = "u32" }
// params."lowest highest" = { type = "i32" }
// params.add = { type = "u32" }
// uses = ["tile/loader", "tile/outer_product"]
// grid = "b.shape[0] * down * across"
// ///

// One workgroup computes a tile of one head's gradient. k runs over the tiles of the window that
// flash_attn_backward_scores has written: tiles in which some k - m lies from lowest to highest.
//
// Bounds, for unchecked compilation: panels of b are whole tiles, columns of a are clamped to its
// last vector, k stays inside the window; stores are guarded; indices of workgroup memory are lane
// numbers.
//% set BM, BN, BK, TM, TN, LM, LN = CFG.BM, CFG.BN, CFG.BK, CFG.TM, CFG.TN, CFG.LM, CFG.LN
//% set LOG = 5 if BM == 32 else 7
//% set A_TILE = {"x": "a", "storage": "f32", "V": 4, "K_ROWS": true, "EXTENT": BN, "BK": BK, "threads": CFG.threads}
//% set B_TILE = {"x": "b", "storage": "f32", "V": 4, "K_ROWS": true, "EXTENT": BM, "BK": BK, "threads": CFG.threads}
${outer_product.memory(BM, BN, BK)}

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let inside = g / (p.down * p.across);
  let tile = g - inside * (p.down * p.across);
  let tile_row = tile / p.across;
  let m0 = tile_row * ${BM}u;
  let n0 = (tile - tile_row * p.across) * ${BN}u;
  let own_head = p.first_head + inside;

  // The first and the last tile of k where some k - m lies in the band.
  let ahead = i32(p.first_row + m0) - i32(p.first_k);
  let first = max((ahead + p.lowest) >> ${LOG}u, 0);
  let last = min((ahead + p.highest + ${BM - 1}) >> ${LOG}u, i32(p.k_tiles) - 1);
  let rounds = u32(max(last - first + 1, 0)) * ${BM // BK}u;
  if ((rounds | (1u - p.add)) == 0u) { return; }
  let k0 = min(u32(first), p.k_tiles - 1u) * ${BM}u;

  let k_prologue = ${BK}u;  // all tiles are whole
  let a_start = p.a_off + ((own_head / p.sharing) * p.a_rows + p.first_k + k0) * p.a_rs;
  let b_start = p.b_off + (inside * p.k_tiles * ${BM}u + k0) * p.b_rs;
  ${loader.init(A_TILE, "n0", "(p.a_rs * 4u)")}
  ${loader.init(B_TILE, "m0", "(p.b_rs * 4u)")}
  ${loader.load_prologue(A_TILE)}
  ${loader.load_prologue(B_TILE)}
  ${outer_product.lane_layout(TM, TN, LM, LN, BN)}
  ${outer_product.accumulators(TM, TN)}
  for (var left = rounds; left > 0u; left -= 1u) {
    workgroupBarrier();  // the last tiles have been read
    ${loader.store_stage(A_TILE)}
    ${loader.store_stage(B_TILE)}
    workgroupBarrier();
    if (left > 1u) {
      ${loader.load_next(A_TILE)}
      ${loader.load_next(B_TILE)}
    }
    ${outer_product.multiply(TM, TN, LM, LN, BK)}
  }

  let base = p.dst_off + (own_head / p.heads) * p.dst_bs + (own_head % p.heads) * p.dst_hs;
//% for i in range(TM)
  {
    let row = p.first_row + m0 + (at_row + ${i // 4 * LM}u) * 4u + ${i % 4}u;
//% for j in range(TN // 4)
    let col${j} = n0 / 4u + at_col + ${LN * j}u;
    if ((row < p.rows) & (col${j} < p.cols)) {
      let at = base + row * p.dst_ms + col${j};
      if (p.add == 1u) { c${i}_${j} += dst_mem[at]; }
      dst_store(at, c${i}_${j});
    }
//% endfor
  }
//% endfor
}
