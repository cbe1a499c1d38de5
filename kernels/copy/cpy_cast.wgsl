// /// kernel
// doc = "Convert contiguous elements of 1, 2 or 4 bytes."
// part_of = "cpy"
// axes.S = { values = [1, 2, 4], pick = "src.dtype.itemsize" }
// axes.D = { values = [1, 2, 4], pick = "dst.dtype.itemsize" }
// axes.VEC = { values = [1, 4], pick = "4 if dst.padded and src.padded and dst.offset % (4 * D) == 0 and src.offset % (4 * S) == 0 else 1" }
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'u32' if VEC * S <= 4 else 'vec4<u32>' if S == 4 else 'vec2<u32>'" }
// outputs.dst = { dtype = "*", bind = "'u32' if VEC * D <= 4 else 'vec4<u32>' if D == 4 else 'vec2<u32>'" }
// params.count = { type = "u32", value = "dst.size" }
// params."src_kind dst_kind" = { type = "u32" }
// uses = ["convert", "words"]
// grid = "cdiv(dst.size, 4 * WG) if VEC == 4 else cdiv(dst.offset % 4 + dst.nbytes, 4 * WG)"
// ///

// VEC = 4: one invocation converts four elements, aligned on both sides. VEC = 1: one invocation
// owns one word of the destination, at any alignment of the source.
${convert.functions()}
${words.functions()}

//% if VEC == 4
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i * 4u >= p.count) { return; }
  let x = src_mem[p.src_off / 4u + i];
  let j = p.dst_off / 4u + i;
//% for k in range(4)
//% if S == 4
  let b${k} = x[${k}];
//% elif S == 2
  let b${k} = (x[${k // 2}] >> ${16 * (k % 2)}u) & 0xffffu;
//% else
  let b${k} = (x >> ${8 * k}u) & 0xffu;
//% endif
  var v${k} = 0u;
//% endfor
//% if (S, D) in ((4, 2), (2, 4))
//% set fast = ("f16_bits_of_f32", 0, 1) if S == 4 else ("f32_bits_of_f16", 1, 0)
  // The most frequent pair of formats has a branch of its own.
  if ((p.src_kind == ${fast[1]}u) & (p.dst_kind == ${fast[2]}u)) {
//% for k in range(4)
    v${k} = ${fast[0]}(b${k});
//% endfor
  } else {
//% else
  {
//% endif
//% for k in range(4)
    v${k} = convert(b${k}, p.src_kind, p.dst_kind);
//% endfor
  }
  let left = p.count - i * 4u;
//% if D == 4
  if (left >= 4u) {
    dst_mem[j] = vec4<u32>(v0, v1, v2, v3);
  } else {
    dst_mem[j][0] = v0;
    if (left > 1u) { dst_mem[j][1] = v1; }
    if (left > 2u) { dst_mem[j][2] = v2; }
  }
//% elif D == 2
  let value = vec2<u32>(v0 | (v1 << 16u), v2 | (v3 << 16u));
  let mask = vec2<u32>(word_mask(0u, 0u, left * 2u), word_mask(4u, 0u, left * 2u));
  if (left >= 4u) { dst_mem[j] = value; } else { dst_mem[j] = (dst_mem[j] & ~mask) | (value & mask); }
//% else
  let value = v0 | (v1 << 8u) | (v2 << 16u) | (v3 << 24u);
  let mask = bytes_below(min(left, 4u));
  if (left >= 4u) { dst_mem[j] = value; } else { dst_mem[j] = (dst_mem[j] & ~mask) | (value & mask); }
//% endif
}
//% else
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let first = p.dst_off * ${D}u;
  let end = first + p.count * ${D}u;
  let i = first / 4u + group_id(wg) * WG + li;
  let at = i * 4u;
  if (at >= end) { return; }
  var value = 0u;
//% for k in range(4 // D)
  {
    // A position outside the view is clamped; its bytes are masked off below.
    let e = min(i * ${4 // D}u + ${k}u - p.dst_off, p.count - 1u) + p.src_off;
    value |= convert(${words.bits("src_mem", S, "e")}, p.src_kind, p.dst_kind) << ${8 * D * k}u;
  }
//% endfor
//% if D == 4
  dst_mem[i] = value;
//% else
  let mask = word_mask(at, first, end);
  dst_mem[i] = (dst_mem[i] & ~mask) | (value & mask);
//% endif
}
//% endif
