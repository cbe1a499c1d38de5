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
// params.left = { type = "u32" }
// params.right = { type = "u32" }
// iterate = "tiles"
// grid = "cdiv(it.batches, WG >> (row_bits + col_bits)) * cdiv(dst.shape[-2], 4 << row_bits) * cdiv(dst.shape[-1], 4 << col_bits)"
// ///

// One workgroup moves 256 blocks of 4 x 4 elements of one dtype, one an invocation: it reads four
// vectors along the source's rows, transposes them in registers, and blocks change places through
// workgroup memory. A tile has 2^row_bits x 2^col_bits blocks, 16 x 16 where both sides have as many,
// else as wide or as high as the matrix; where that makes less than 256, several matrices of the batch
// are moved together. Everything is a multiple of four elements. Tiles that lie next to each other in
// the destination come one after the other.
//% set V = "vec4<u32>" if S == 4 else "vec2<u32>"
// Column j of blocks is permuted by XOR with j, shifted by the plan so that neither a row nor a column
// of blocks meets a bank twice.
var<workgroup> tile: array<array<${V}, 256>, 4>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let rows = 1u << p.row_bits;
  let cols = 1u << p.col_bits;
  let bits = p.row_bits + p.col_bits;
  let across = (p.width + cols - 1u) >> p.col_bits;
  let down = (p.height + rows - 1u) >> p.row_bits;
  let line = g / across;
  let c0 = (g - line * across) << p.col_bits;
  let together = line / down;
  let r0 = (line - together * down) << p.row_bits;
  let matrix = li >> bits;
  let first = together * (WG >> bits) + matrix;
  let batch = min(first, p.batches - 1u);
  let base = matrix << bits;

  // Blocks past the edge read the last one again; all positions here count vectors.
  let i = li & (rows - 1u);
  let j = (li >> p.row_bits) & (cols - 1u);
  let r = min(r0 + i, p.height - 1u);
  let c = min(c0 + j, p.width - 1u) * 4u;
  let source = src_batch(batch) / 4u + r;
  // Strides may be negative: an arithmetic shift.
  let src_step = bitcast<u32>(bitcast<i32>(p.src_cs) >> 2u);
//% for k in range(4)
  let x${k} = src_mem[source + (c + ${k}u) * src_step];
//% endfor
  let here = base + (j << p.row_bits) + (i ^ (((j << p.left) >> p.right) & (rows - 1u)));
//% for k in range(4)
//% if S == 4
  tile[${k}][here] = vec4<u32>(x0[${k}], x1[${k}], x2[${k}], x3[${k}]);
//% else
//% set half = "& 0xffffu" if k % 2 == 0 else ">> 16u"
  tile[${k}][here] = vec2<u32>((x0[${k // 2}] ${half}) | ((x1[${k // 2}] ${half}) << 16u),
                            (x2[${k // 2}] ${half}) | ((x3[${k // 2}] ${half}) << 16u));
//% endif
//% endfor
  workgroupBarrier();
  let u = li & (cols - 1u);
  let v = (li >> p.col_bits) & (rows - 1u);
  if ((r0 + v < p.height) & (c0 + u < p.width) & (first < p.batches)) {
    let there = base + (u << p.row_bits) + (v ^ (((u << p.left) >> p.right) & (rows - 1u)));
    let target_first = dst_batch(batch) / 4u + (r0 + v) * p.dst_rs + c0 + u;
    let dst_step = bitcast<u32>(bitcast<i32>(p.dst_rs) >> 2u);
//% for k in range(4)
    dst_mem[target_first + ${k}u * dst_step] = tile[${k}][there];
//% endfor
  }
}
