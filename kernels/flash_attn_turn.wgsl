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
// grid = "dst.shape[0] * cdiv(dst.shape[1], 32) * (dst.shape[2] // 32)"
// ///

// One workgroup turns 32 x 32 elements in workgroup memory, so that both sides are coalesced
// whichever way src lies.
var<workgroup> tile: array<array<f32, 33>, 32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let down = (p.padded + 31u) >> 5u;
  let across = p.width >> 5u;
  let one = g / across;
  let first_row = (g - one * across) << 5u;
  let local = one / down;
  let matrix = p.first_matrix + local;
  let first_depth = (one - local * down) << 5u;
  let batch = matrix / p.kv_heads;
  let first_head = (matrix - batch * p.kv_heads) * p.group;
  let start = p.src_off + batch * p.sb;
  let low = li & 31u;
  let high = li >> 5u;
  let turn = p.depth_last == 1u;  // neighbouring invocations take neighbouring depths
  let member = first_row / p.pitch;
  let first_place = first_row - member * p.pitch;
  let whole = (member < p.group) & (first_place + 32u <= min(p.pitch, p.count)) & (first_depth + 32u <= p.depth);
  if (whole) {
    let place = first_place + select(low, high, turn);
    let depth = first_depth + select(high, low, turn);
    let at = start + (first_head + member) * p.sh + place * p.st + depth * p.sd;
    let apart = 8u * select(p.sd, p.st, turn);
//% for u in range(4)
    let x${u} = src_load(at + ${u}u * apart);
//% endfor
//% for u in range(4)
    tile[select(high + ${8 * u}u, low, turn)][select(low, high + ${8 * u}u, turn)] = x${u};
//% endfor
  } else {
//% for u in range(4)
    let row${u} = select(low, high + ${8 * u}u, turn);
    let depth${u} = first_depth + select(high + ${8 * u}u, low, turn);
    let head${u} = (first_row + row${u}) / p.pitch;
    let place${u} = first_row + row${u} - head${u} * p.pitch;
    let inside${u} = (head${u} < p.group) & (place${u} < p.count) & (depth${u} < p.depth);
    let x${u} = src_load(start + (first_head + min(head${u}, p.group - 1u)) * p.sh
      + min(place${u}, p.count - 1u) * p.st + min(depth${u}, p.depth - 1u) * p.sd);
//% endfor
//% for u in range(4)
    tile[depth${u} - first_depth][row${u}] = select(0.0f, x${u}, inside${u});
//% endfor
  }
  workgroupBarrier();
  let to = p.dst_off + (local * p.padded + first_depth) * p.width + first_row + low;
//% for u in range(4)
  if (first_depth + high + ${8 * u}u < p.padded) {
    dst_store(to + (high + ${8 * u}u) * p.width, tile[high + ${8 * u}u][low]);
  }
//% endfor
}
