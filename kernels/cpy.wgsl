// /// kernel
// doc = """
// Copy a tensor and convert it, any strides on both sides.
//
// Same shape, or the same number of elements (in C order). The same dtype is copied bit for bit;
// float to f16 and bf16 rounds to nearest even (overflow: inf); float to int truncates and
// saturates (NaN: 0); int to narrower int wraps; to bool is x != 0 (NaN: True). int64 converts to
// and from int32 only. No arithmetic type is involved: conversions are exact integer operations."""
// axes.S = [1, 2, 4, 8, 16]
// axes.D = [1, 2, 4, 8, 16]
// when = ["S == D or (S <= 4 and D <= 4) or S * D == 32 and S != 2 and S != 16"]
// axes.WG = [256]
// pick.WG = "256"
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>' if S == 8 else 'vec4<u32>'" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if D < 4 else 'u32' if D == 4 else 'vec2<u32>' if D == 8 else 'vec4<u32>'" }
// params.src_kind = { type = "u32" }
// params.dst_kind = { type = "u32" }
// moves_bytes = true
// iterate = "nd"
// uses = ["convert", "words"]
// grid = "cdiv(it.total, WG)"
// source = "ggml's CPY, numpy's astype"
// ///

// One invocation per element, for strides that no other body of cpy takes. A plan may pass wider
// elements than the dtype's (runs of bytes that are copied as they are).
${convert.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
  let s = src_index(i);
  let d = dst_index(i);
//% if S == D and S >= 8
  dst_mem[d] = src_mem[s];
//% elif S == 8
  dst_mem[d] = src_mem[s].x;
//% elif D == 8
  let v = src_mem[s];
  dst_mem[d] = vec2<u32>(v, select(0u, 0xffffffffu, v >= 0x80000000u));
//% else
  let v = convert(${words.bits("src_mem", S, "s")}, p.src_kind, p.dst_kind);
//% if D == 4
  dst_mem[d] = v;
//% else
  ${words.store_shared("dst_mem", D, "d", "v")}
//% endif
//% endif
}
