// /// kernel
// doc = """
// Copy a tensor and convert it. Both tensors may have any strides.
//
// Both have the same shape, or the same number of elements (copied in C order). If the dtypes are equal,
// bits are copied. float to f16 and bf16 rounds to nearest even (overflow: inf); float to int truncates
// and saturates (NaN: 0); int to narrower int wraps; to bool is x != 0 (NaN: True). int64 converts to
// and from int32 only. Conversions are computed in integers, so every device gives the same bits."""
// axes."S D" = [1, 2, 4, 8, 16]
// when = ["S == D or (S <= 4 and D <= 4) or S * D == 32 and S != 2 and S != 16"]
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>' if S == 8 else 'vec4<u32>'" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if D < 4 else 'u32' if D == 4 else 'vec2<u32>' if D == 8 else 'vec4<u32>'" }
// params."src_kind dst_kind" = { type = "u32" }
// moves_bytes = true
// iterate = "nd"
// uses = ["convert", "words"]
// grid = "cdiv(it.total, 4 * WG)"
// source = "ggml's CPY, numpy's astype"
// ///

// An invocation takes four elements that lie a workgroup apart. This body serves strides that no
// other body of cpy supports. If nothing is converted, a plan may pass contiguous bytes as elements
// that are wider than the dtype.
${convert.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let first = group_id(wg) * (4u * WG) + li;
  let last = p.total - 1u;
  // All loads come first, at clamped positions, because loads in branches would wait for each
  // other.
//% for k in range(4)
  let s${k} = src_index(min(first + ${k}u * WG, last));
  let x${k} = ${words.bits("src_mem", S, "s" ~ k) if S < 4 else "src_mem[s" ~ k ~ "]"};
//% endfor
//% for k in range(4)
  if (first + ${k}u * WG <= last) {
    let d = dst_index(first + ${k}u * WG);
//% if S == D and S >= 8
    dst_mem[d] = x${k};
//% elif S == 8
    dst_mem[d] = x${k}.x;
//% elif D == 8
    dst_mem[d] = vec2<u32>(x${k}, select(0u, 0xffffffffu, x${k} >= 0x80000000u));
//% elif D == 4
    dst_mem[d] = convert(x${k}, p.src_kind, p.dst_kind);
//% else
    let v = convert(x${k}, p.src_kind, p.dst_kind);
    ${words.store_shared("dst_mem", D, "d", "v")}
//% endif
  }
//% endfor
}
