// /// kernel
// doc = "One gradient's share of a window: dst[m, :] (+)= sum over k of a[k, m] * b[k, :], for some heads."
// part_of = "flash_attn_backward"
// axes.VEC = [4]
// axes.TILE = ["32", "128x64", "128"]
// inputs.a = { dtype = "f32", vec = "VEC", index = false, readonly = true, doc = "(window's heads, k, m)" }
// inputs.b = { dtype = "f32", vec = "VEC", index = false, readonly = true, doc = "(heads or KV heads, k, columns)" }
// outputs.dst = { dtype = "f32", vec = "VEC", index = false, doc = "(batch, heads, m, columns) by strides" }
// params.a_step = { type = "u32" }
// params.b_step = { type = "u32" }
// params.b_rows = { type = "u32" }
// params.deep = { type = "u32" }
// params.across = { type = "u32" }
// params.down = { type = "u32" }
// params.first_head = { type = "u32" }
// params.first_row = { type = "u32" }
// params.first_k = { type = "u32" }
// params.rows = { type = "u32" }
// params.cols = { type = "u32" }
// params.heads = { type = "u32" }
// params.sharing = { type = "u32" }
// params.lowest = { type = "i32" }
// params.highest = { type = "i32" }
// params.dst_sb = { type = "u32" }
// params.dst_sh = { type = "u32" }
// params.dst_sr = { type = "u32" }
// params.add = { type = "u32" }
// uses = ["panels"]
// grid = "a.shape[0] * down * across"
// ///

// One workgroup computes a tile of one head's gradient. k runs over the tiles of the window that
// `scores` has written: those with lowest <= k - m <= highest somewhere.
//
// Bounds, for unchecked compilation: panels of a are whole tiles, columns of b are clamped to its
// last vector, k stays inside the window; stores are guarded; indices of workgroup memory are lanes.
//% set NT, M, N, TR, TC = {"32": (64, 32, 32, 4, 4), "128x64": (256, 128, 64, 8, 4), "128": (256, 128, 128, 8, 8)}[TILE]
//% set LOG = 5 if M == 32 else 7
${panels.memory(M, N)}

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let inside = g / (p.down * p.across);
  let tile = g - inside * (p.down * p.across);
  let tile_row = tile / p.across;
  let m0 = tile_row * ${M}u;
  let n0 = (tile - tile_row * p.across) * ${N // 4}u;
  let head = p.first_head + inside;

  // The first and the last tile of k where some k - m lies in the band.
  let ahead = i32(p.first_row + m0) - i32(p.first_k);
  let first = max((ahead + p.lowest) >> ${LOG}u, 0);
  let last = min((ahead + p.highest + ${M - 1}) >> ${LOG}u, i32(p.deep) - 1);
  let rounds = u32(max(last - first + 1, 0)) * ${M // 16}u;
  if ((rounds | (1u - p.add)) == 0u) { return; }
  let k0 = min(u32(first), p.deep - 1u) * ${M}u;

  ${panels.first("a", M, NT, "p.a_off + (inside * p.deep * " ~ M ~ "u + k0) * p.a_step", "m0 / 4u")}
  ${panels.first("b", N, NT, "p.b_off + ((head / p.sharing) * p.b_rows + p.first_k + k0) * p.b_step", "n0", "p.b_step - 1u")}
  ${panels.lanes(N, TR, TC)}
//% for i in range(TR)
//% for j in range(TC // 4)
  var c${i}_${j} = vec4<f32>();
//% endfor
//% endfor
  for (var left = rounds; left > 0u; left -= 1u) {
    ${panels.round(M, N, NT, TR, TC, "left > 1u")}
  }

  let base = p.dst_off + (head / p.heads) * p.dst_sb + (head % p.heads) * p.dst_sh;
//% for i in range(TR)
  {
    let row = p.first_row + m0 + (at_row + ${i // 4 * 4}u) * 4u + ${i % 4}u;
//% for j in range(TC // 4)
    let col${j} = n0 + at_col + ${8 * j}u;
    if ((row < p.rows) & (col${j} < p.cols)) {
      let at = base + row * p.dst_sr + col${j};
      if (p.add == 1u) { c${i}_${j} += dst_mem[at]; }
      dst_store(at, c${i}_${j});
    }
//% endfor
  }
//% endfor
}
