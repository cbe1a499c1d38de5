// /// kernel
// doc = "Copy a transposed matrix (or a batch of them) in blocks of 4 x 4 elements."
// part_of = "cpy"
// axes.S = [2, 4]
// pick.S = "src.dtype.itemsize"
// axes.WG = [256]
// pick.WG = "256"
// inputs.src = { dtype = "*", bind = "'vec4<u32>' if S == 4 else 'vec2<u32>'" }
// outputs.dst = { dtype = "*", bind = "'vec4<u32>' if S == 4 else 'vec2<u32>'" }
// params.height = { type = "u32", value = "dst.shape[-2] // 4" }
// params.width = { type = "u32", value = "dst.shape[-1] // 4" }
// params.row_bits = { type = "u32" }
// params.col_bits = { type = "u32" }
// iterate = "tiles"
// grid = "cdiv(it.batches, WG >> (row_bits + col_bits)) * cdiv(dst.shape[-2], 4 << row_bits) * cdiv(dst.shape[-1], 4 << col_bits)"
// ///

// One workgroup moves 256 blocks of 4 x 4 elements of one dtype, one an invocation: it reads four
// vectors along the source's rows, transposes them in registers, and writes four along the
// destination's. A tile has 2^row_bits x 2^col_bits blocks, 16 x 16 where both sides have as many,
// else as wide or as high as the matrix; where that makes less than 256, several matrices of the batch
// are moved together. Everything is a multiple of four elements. Of 32 neighbours, eight write along a
// row of the destination and four read along one of the source: whole sectors on both sides. Tiles that
// lie next to each other in the destination come one after the other.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let bits = p.row_bits + p.col_bits;
  let across = (p.width + (1u << p.col_bits) - 1u) >> p.col_bits;
  let down = (p.height + (1u << p.row_bits) - 1u) >> p.row_bits;
  let line = g / across;
  let together = line / down;
  let batch = together * (WG >> bits) + (li >> bits);
  let low_c = min(p.col_bits, 3u);
  let low = low_c + min(p.row_bits, 2u);
  let high_c = low + p.col_bits - low_c;
  let u = extractBits(li, 0u, low_c) | (extractBits(li, low, high_c - low) << low_c);
  let v = extractBits(li, low_c, low - low_c) | (extractBits(li, high_c, bits - high_c) << (low - low_c));
  let c = ((g - line * across) << p.col_bits) + u;
  let r = ((line - together * down) << p.row_bits) + v;
  if ((r >= p.height) | (c >= p.width) | (batch >= p.batches)) { return; }

  // All positions count vectors; strides may be negative: an arithmetic shift.
  let source = src_batch(batch) / 4u + r;
  let src_step = bitcast<u32>(bitcast<i32>(p.src_cs) >> 2u);
//% for k in range(4)
  let x${k} = src_mem[source + (c * 4u + ${k}u) * src_step];
//% endfor
  let target_first = dst_batch(batch) / 4u + r * p.dst_rs + c;
  let dst_step = bitcast<u32>(bitcast<i32>(p.dst_rs) >> 2u);
//% for k in range(4)
//% if S == 4
  dst_mem[target_first + ${k}u * dst_step] = vec4<u32>(x0[${k}], x1[${k}], x2[${k}], x3[${k}]);
//% else
//% set half = "& 0xffffu" if k % 2 == 0 else ">> 16u"
  dst_mem[target_first + ${k}u * dst_step] =
    vec2<u32>((x0[${k // 2}] ${half}) | ((x1[${k // 2}] ${half}) << 16u),
              (x2[${k // 2}] ${half}) | ((x3[${k // 2}] ${half}) << 16u));
//% endif
//% endfor
}
