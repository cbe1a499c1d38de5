// /// kernel
// doc = "Copy rows of contiguous bytes, which may begin at any byte of a word in the source and in the destination."
// part_of = "cpy"
// axes.S = { values = [1, 4], pick = "src.dtype.itemsize" }
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'u32'" }
// outputs.dst = { dtype = "*", bind = "'u32' if S == 4 else 'atomic<u32>'" }
// params.width = { type = "u32", value = "dst.shape[-1]" }
// params."lane_bits tiles" = { type = "u32" }
// iterate = "rows"
// uses = ["words"]
// grid = "tiles * cdiv(it.rows, WG >> lane_bits)"
// ///

// 2^lane_bits lanes share a row, and each moves four words of the destination that lie 2^lane_bits apart.
// With S = 1, the views count bytes. A word is cut out of two neighbouring source words; a word at
// the end of a row, which other invocations may write too, is merged by atomics.
//% if S == 1
${words.functions()}
//% endif

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  let block = g / p.tiles;
  let lanes = 1u << p.lane_bits;
  let row = block * (WG >> p.lane_bits) + (li >> p.lane_bits);
  if (row >= p.rows) { return; }
  let c0 = (g - block * p.tiles) * (4u * lanes) + (li & (lanes - 1u));
  let s = src_row(row);
  let d = dst_row(row);
//% if S == 4
//% for k in range(4)
  let x${k} = src_mem[s + min(c0 + ${k}u * lanes, p.width - 1u)];
//% endfor
//% for k in range(4)
  if (c0 + ${k}u * lanes < p.width) { dst_mem[d + c0 + ${k}u * lanes] = x${k}; }
//% endfor
//% else
  let end = d + p.width;
  let first = s >> 2u;
  let last = (s + p.width - 1u) >> 2u;
//% for k in range(4)
  let w${k} = (d >> 2u) + c0 + ${k}u * lanes;
  // The position is four bytes larger, because the first word may begin before the row.
  let b${k} = s + w${k} * 4u - d + 4u;
  let lo${k} = src_mem[clamp(b${k} >> 2u, first + 1u, last + 1u) - 1u];
  let hi${k} = src_mem[clamp(b${k} >> 2u, first, last)];
//% endfor
//% for k in range(4)
  if (w${k} * 4u < end) {
    let shift = (b${k} & 3u) << 3u;
    let value = select((lo${k} >> shift) | (hi${k} << ((32u - shift) & 31u)), lo${k}, shift == 0u);
    let mask = word_mask(w${k} * 4u, d, end);
    if (mask == 0xffffffffu) {
      atomicStore(&dst_mem[w${k}], value);
    } else {
      atomicAnd(&dst_mem[w${k}], ~mask);
      atomicOr(&dst_mem[w${k}], value & mask);
    }
  }
//% endfor
//% endif
}
