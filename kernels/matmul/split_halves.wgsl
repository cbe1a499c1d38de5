// /// kernel
// doc = "Converts f32 matrices to two planes of halves, for gemm_split."
// part_of = "mul_mat"
// configs.32x64 = { BM = 32, BN = 64, threads = 256 }
// axes.TILE = { values = "configs", pick = "'32x64'" }
// axes.DV = { values = [4], pick = "4" }
// inputs.x = { dtype = "f32", readonly = true, doc = "(..., N, K), or (..., K, M) with k_rows" }
// inputs.top = { dtype = "f32", readonly = true, doc = "The largest |x| of each row, or of each column with k_rows, broadcast to x" }
// outputs.dst = { dtype = "u32", vec = "DV", doc = "(..., N, K), or (..., K, M), in words of two halves, with K twice as long: 16 steps of k of the high plane, then the same steps of the low plane; padded with zeros to a multiple of 16 steps and to whole units of 8 columns" }
// iterate = "tiles"
// params.height = { type = "u32", value = "x.shape[-2]" }
// params.width = { type = "u32", value = "x.shape[-1]" }
// params."rows across down k_rows flip" = { type = "u32" }
// uses = ["planes"]
// grid = "it.batches * across * down"
// ///

// One workgroup splits BM x BN numbers. It reads them along the axis with the smaller stride (with
// `flip`, along rows), and writes units of eight halves along columns. Each invocation writes one
// unit of each plane.
//
// A number is multiplied with the power of two of its row. high is the product rounded to 11 bits
// (to nearest, ties away from zero). low is the remainder times 2048, which gives 11 more bits. The
// error of both together is below 2^-23 of the number, or 2^-39 of the row's largest number. high is at
// least 2^-14, the smallest normal half, unless the number is zero. So products with inf are inf, and no
// half is subnormal. Everything is computed with integers, because conversions to halves differ between
// drivers.
${planes.exponents()}

// The bits of high, with the bits of low above them.
fn split(x: f32) -> u32 {
  let word = bitcast<u32>(x);
  let size = word & 0x7fffffffu;
  let sign = word & 0x80000000u;
  let near = max((size + 0x1000u) & 0xffffe000u, 0x38800000u);
  let rest = bitcast<u32>((x - bitcast<f32>(sign | near)) * 2048.0f);
  let rest_size = (rest & 0x7fffffffu) + 0x1000u;
  let high = (sign >> 16u) | ((near >> 13u) - 0x1c000u);
  let low = ((rest >> 16u) & 0x8000u) | ((max(rest_size, 0x38800000u) >> 13u) - 0x1c000u);
  let finite = high | select(0u, low << 16u, rest_size >= 0x38800000u);
  let special = select((sign >> 16u) | 0x7c00u, 0x7e00u, size > 0x7f800000u);
  return select(select(finite, special, size >= 0x7f800000u), 0u, size == 0u);
}

// x times the power of two of its row; the result is zero only if x is zero.
fn scaled(x: f32, top: f32) -> f32 {
  let size = bitcast<u32>(x) & 0x7fffffffu;
  let v = times_power(vec4<f32>(x), vec4<i32>(exponent_of(top))).x;
  let least = bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | 0x20000000u);  // 2^-63
  let kept = select(v, least, abs(v) < 0x1p-63f);
  return select(kept, x, (size == 0u) | (size >= 0x7f800000u));
}

var<workgroup> tile: array<f32, ${CFG.BM * (CFG.BN + 1)}>;

@compute @workgroup_size(${CFG.threads})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  let line = g / p.across;
  let batch = line / p.down;
  let row0 = (line - batch * p.down) * ${CFG.BM}u;
  let col0 = (g - line * p.across) * ${CFG.BN}u;

  // All loads come first, at clamped positions, because loads in branches would wait for each
  // other.
  let source = x_batch(batch);
  let tops = top_batch(batch);
//% for n in range(CFG.BM * CFG.BN // CFG.threads)
  let i${n} = li + ${n * CFG.threads}u;
  let r${n} = select(i${n} / ${CFG.BN}u, i${n} % ${CFG.BM}u, p.flip == 1u);
  let c${n} = select(i${n} % ${CFG.BN}u, i${n} / ${CFG.BM}u, p.flip == 1u);
  let near_r${n} = min(row0 + r${n}, p.height - 1u);
  let near_c${n} = min(col0 + c${n}, p.width - 1u);
  let x${n} = x_load(x_at(source, near_r${n}, near_c${n}));
  let top${n} = top_load(top_at(tops, near_r${n}, near_c${n}));
//% endfor
//% for n in range(CFG.BM * CFG.BN // CFG.threads)
  tile[r${n} * ${CFG.BN + 1}u + c${n}] = select(0.0f, scaled(x${n}, top${n}), (row0 + r${n} < p.height) & (col0 + c${n} < p.width));
//% endfor
  workgroupBarrier();

  let r = li / ${CFG.BN // 8}u;
  let unit = li % ${CFG.BN // 8}u;
  let at = r * ${CFG.BN + 1}u + unit * 8u;
//% for e in range(8)
  let h${e} = split(tile[at + ${e}u]);
//% endfor
  var high = vec4<u32>();
  var low = vec4<u32>();
//% for e in range(4)
  high[${e}] = (h${2 * e} & 0xffffu) | (h${2 * e + 1} << 16u);
  low[${e}] = (h${2 * e} >> 16u) | (h${2 * e + 1} & 0xffff0000u);
//% endfor
  let row = row0 + r;
  let first = dst_batch(batch);
  if (p.k_rows == 1u) {
    let to = (row / 16u) * 32u + row % 16u;
    let units = (p.width + 7u) / 8u;
    let u = col0 / 8u + unit;
    if ((row < p.rows) & (u < units)) {
      dst_store(dst_at(first, to, u), high);
      dst_store(dst_at(first, to + 16u, u), low);
    }
  } else {
    let units = (p.width + 15u) / 16u * 2u;
    let u = col0 / 8u + unit;
    let to = (u / 2u) * 4u + u % 2u;
    if ((row < p.rows) & (u < units)) {
      dst_store(dst_at(first, row, to), high);
      dst_store(dst_at(first, row, to + 2u), low);
    }
  }
}
