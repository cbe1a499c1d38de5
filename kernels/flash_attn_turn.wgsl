// /// kernel
// doc = "Queries or keys for flash_attn_tile: f32, depth first, padded with zeros."
// part_of = "flash_attn"
// axes.T = ["f32", "f16"]
// axes.WG = [256]
// pick.T = "dtype(src)"
// pick.WG = "256"
// inputs.src = { dtype = "T", readonly = true, doc = "(batch, heads, length, depth)" }
// outputs.dst = { dtype = "f32", doc = "(batch * heads / group, padded depth, width): head in group and position are one axis" }
// params.first_matrix = { type = "u32" }
// params.group = { type = "u32" }
// params.kv_heads = { type = "u32" }
// params.count = { type = "u32", value = "src.shape[2]" }
// params.depth = { type = "u32", value = "src.shape[3]" }
// params.pitch = { type = "u32" }
// params.padded = { type = "u32", value = "dst.shape[1]" }
// params.width = { type = "u32", value = "dst.shape[2]" }
// params.sb = { type = "u32", value = "src.strides[0] // src.dtype.itemsize & 0xffffffff" }
// params.sh = { type = "u32", value = "src.strides[1] // src.dtype.itemsize & 0xffffffff" }
// params.st = { type = "u32", value = "src.strides[2] // src.dtype.itemsize & 0xffffffff" }
// params.sd = { type = "u32", value = "src.strides[3] // src.dtype.itemsize & 0xffffffff" }
// params.depth_last = { type = "u32" }
// grid = "dst.shape[0] * cdiv(dst.shape[1], 32) * cdiv(dst.shape[2], 64)"
// ///

// One workgroup turns 64 positions x 32 depths in workgroup memory, so that both sides are
// coalesced whichever way src lies. An invocation reads 8 positions of one depth, or two positions
// at 4 depths.
var<workgroup> tile: array<array<f32, 65>, 32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let down = (p.padded + 31u) >> 5u;
  let across = (p.width + 63u) >> 6u;
  let one = g / across;
  let first_row = (g - one * across) << 6u;
  let local = one / down;
  let matrix = p.first_matrix + local;
  let first_depth = (one - local * down) << 5u;
  let batch = matrix / p.kv_heads;
  let first_head = (matrix - batch * p.kv_heads) * p.group;
  let start = p.src_off + batch * p.sb;
  let low = li & 31u;
  let high = li >> 5u;
  let turn = p.depth_last == 1u;  // neighbouring invocations take neighbouring depths
  let row0 = select(low, high, turn);
  let depth0 = select(high, low, turn);
  let member = first_row / p.pitch;
  let first_place = first_row - member * p.pitch;
  let whole = (member < p.group) & (first_place + 64u <= min(p.pitch, p.count)) & (first_depth + 32u <= p.depth);
  if (whole) {
    let at = start + (first_head + member) * p.sh + (first_place + row0) * p.st + (first_depth + depth0) * p.sd;
    let near = select(32u, 8u, turn) * p.st;
    let far = select(8u * p.sd, 16u * p.st, turn);
//% for u in range(8)
    let x${u} = src_load(at + ${u % 2}u * near + ${u // 2}u * far);
//% endfor
//% for u in range(8)
    tile[select(depth0 + ${u // 2 * 8}u, depth0, turn)][row0 + select(${u % 2 * 32}u, ${u * 8}u, turn)] = x${u};
//% endfor
  } else {
    for (var u = 0u; u < 8u; u += 1u) {
      let depth = select(depth0 + (u >> 1u) * 8u, depth0, turn);
      let row = row0 + select((u & 1u) * 32u, u * 8u, turn);
      let head = (first_row + row) / p.pitch;
      let place = first_row + row - head * p.pitch;
      let inside = (head < p.group) & (place < p.count) & (first_depth + depth < p.depth);
      let x = src_load(start + (first_head + min(head, p.group - 1u)) * p.sh
        + min(place, p.count - 1u) * p.st + min(first_depth + depth, p.depth - 1u) * p.sd);
      tile[depth][row] = select(0.0f, x, inside);
    }
  }
  workgroupBarrier();
  let to = p.dst_off + (local * p.padded + first_depth + high) * p.width + first_row + low;
//% for u in range(8)
  if ((first_depth + high + ${u // 2 * 8}u < p.padded) & (first_row + low + ${u % 2 * 32}u < p.width)) {
    dst_store(to + ${u // 2 * 8}u * p.width + ${u % 2 * 32}u, tile[high + ${u // 2 * 8}u][low + ${u % 2 * 32}u]);
  }
//% endfor
}
