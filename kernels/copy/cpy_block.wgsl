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
// iterate = "tiles"
// grid = "it.batches * cdiv(dst.shape[-2], 64) * cdiv(dst.shape[-1], 64)"
// ///

// One workgroup moves 64 x 64 elements of one dtype, one invocation a block of 4 x 4: it reads four
// vectors along the source's rows, transposes them in registers, and blocks change places through
// workgroup memory. Everything is a multiple of four elements. Tiles that lie next to each other
// in the destination come one after the other.
//% set V = "vec4<u32>" if S == 4 else "vec2<u32>"
// Block (i, j) lies at j * 16 + (i ^ j): neither a row nor a column of blocks meets a bank twice.
var<workgroup> tile: array<array<${V}, 256>, 4>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let across = (p.width + 15u) / 16u;
  let down = (p.height + 15u) / 16u;
  let line = g / across;
  let c0 = (g - line * across) * 16u;
  let batch = line / down;
  let r0 = (line - batch * down) * 16u;
  let i = li & 15u;
  let j = li >> 4u;

  // Blocks past the edge read the last one again; all positions here count vectors.
  let r = min(r0 + i, p.height - 1u);
  let c = min(c0 + j, p.width - 1u) * 4u;
  let source = src_batch(batch) / 4u + r;
  // Strides may be negative: an arithmetic shift.
  let src_step = bitcast<u32>(bitcast<i32>(p.src_cs) >> 2u);
//% for k in range(4)
  let x${k} = src_mem[source + (c + ${k}u) * src_step];
//% endfor
//% for k in range(4)
//% if S == 4
  tile[${k}][j * 16u + (i ^ j)] = vec4<u32>(x0[${k}], x1[${k}], x2[${k}], x3[${k}]);
//% else
//% set half = "& 0xffffu" if k % 2 == 0 else ">> 16u"
  tile[${k}][j * 16u + (i ^ j)] = vec2<u32>((x0[${k // 2}] ${half}) | ((x1[${k // 2}] ${half}) << 16u),
                                        (x2[${k // 2}] ${half}) | ((x3[${k // 2}] ${half}) << 16u));
//% endif
//% endfor
  workgroupBarrier();
  if ((r0 + j < p.height) & (c0 + i < p.width)) {
    let target_first = dst_batch(batch) / 4u + (r0 + j) * p.dst_rs + c0 + i;
    let dst_step = bitcast<u32>(bitcast<i32>(p.dst_rs) >> 2u);
//% for k in range(4)
    dst_mem[target_first + ${k}u * dst_step] = tile[${k}][i * 16u + (j ^ i)];
//% endfor
  }
}
