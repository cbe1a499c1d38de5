// /// kernel
// doc = "Copy a transposed matrix (or a batch of them) in blocks of 4 x 4 or 8 x 8 elements."
// part_of = "cpy"
// axes.S = { values = [2, 4], pick = "src.dtype.itemsize" }
// axes.SIDE = [4, 8]
// when = ["SIDE == 4 or S == 2"]
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'vec4<u32>' if S * SIDE == 16 else 'vec2<u32>'" }
// outputs.dst = { dtype = "*", bind = "'vec4<u32>' if S * SIDE == 16 else 'vec2<u32>'" }
// params.height = { type = "u32", value = "dst.shape[-2] // SIDE" }
// params.width = { type = "u32", value = "dst.shape[-1] // SIDE" }
// params."row_bits col_bits" = { type = "u32" }
// iterate = "tiles"
// grid = "cdiv(it.batches, WG >> (row_bits + col_bits)) * cdiv(dst.shape[-2], SIDE << row_bits) * cdiv(dst.shape[-1], SIDE << col_bits)"
// ///

// One workgroup moves 256 blocks of SIDE x SIDE elements of one dtype. Each invocation moves one block:
// it reads SIDE vectors along rows of the source, transposes them in registers, and writes SIDE vectors
// along rows of the destination. A tile has 2^row_bits x 2^col_bits blocks: 16 x 16 if the matrix has
// that many rows and columns of blocks, else the tile is as wide or as high as the matrix. If the tile
// has fewer than 256 blocks, several matrices of the batch are moved together. Sizes and steps are
// multiples of SIDE. Of 32 neighbouring invocations, eight write along a row of the destination and
// four read along a row of the source, so both sides have whole sectors. Tiles that lie next to
// each other in the destination come one after the other.
//% set LOG = 2 if SIDE == 4 else 3
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

  // All positions count vectors. Strides may be negative, so the shift is arithmetic.
  let source = src_batch(batch) / ${SIDE}u + r;
  let src_step = bitcast<u32>(bitcast<i32>(p.src_cs) >> ${LOG}u);
//% for k in range(SIDE)
  let x${k} = src_mem[source + (c * ${SIDE}u + ${k}u) * src_step];
//% endfor
  let target_first = dst_batch(batch) / ${SIDE}u + r * p.dst_rs + c;
  let dst_step = bitcast<u32>(bitcast<i32>(p.dst_rs) >> ${LOG}u);
//% for k in range(SIDE)
//% if S == 4
  dst_mem[target_first + ${k}u * dst_step] = vec4<u32>(x0[${k}], x1[${k}], x2[${k}], x3[${k}]);
//% else
//% set half = "& 0xffffu" if k % 2 == 0 else ">> 16u"
  dst_mem[target_first + ${k}u * dst_step] = vec${SIDE // 2}<u32>(
//% for n in range(0, SIDE, 2)
    (x${n}[${k // 2}] ${half}) | ((x${n + 1}[${k // 2}] ${half}) << 16u),
//% endfor
  );
//% endif
//% endfor
}
