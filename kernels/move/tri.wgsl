// /// kernel
// doc = """
// Keep one side of a diagonal of each matrix, and set the other side to a scalar, converted as numpy does.
//
// With `upper` false dst[..., i, j] is src[..., i, j] where j <= i + diagonal, and `value` elsewhere; with
// `upper` true it is src where j >= i + diagonal. The bits of elements are copied."""
// source = "numpy tril and triu, ggml diag_mask_inf and diag_mask_zero"
// axes.W = [1, 2, 4, 8, 16]
// axes.WG = { values = [256], pick = "256" }
// inputs.src = { dtype = "*", bind = "'u32' if W <= 4 else 'vec2<u32>' if W == 8 else 'vec4<u32>'", doc = "(..., m, n)" }
// outputs.dst = { dtype = "*", bind = "'atomic<u32>' if W < 4 else 'u32' if W == 4 else 'vec2<u32>' if W == 8 else 'vec4<u32>'", doc = "(..., m, n)" }
// options.upper = { type = "bool", default = false, doc = "True keeps the elements above the diagonal." }
// options.diagonal = { type = "int", default = 0, doc = "The last diagonal that is kept, or, with `upper`, the first; 0 is the main diagonal." }
// params.height = { type = "u32", value = "dst.shape[-2]" }
// params.width = { type = "u32", value = "dst.shape[-1]" }
// params."lane_bits across shift item flip" = { type = "u32" }
// params.value = { type = "bits", of = "dst", default = 0, doc = "The number on the other side." }
// moves_bytes = true
// iterate = "tiles"
// uses = ["words"]
// grid = "across * cdiv(it.batches * dst.shape[-2], WG >> lane_bits)"
// ///

// A column has W bytes, which are one element or several. 2^lane_bits lanes take neighbouring
// columns of a row, and a workgroup takes as many rows as its lanes allow. The first `kept` bytes
// of a column lie at or before the diagonal. These bytes come from src; with `upper` (flip = ~0),
// the other bytes do.
${words.functions()}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  let block = g / p.across;
  let c = ((g - block * p.across) << p.lane_bits) + (li & ((1u << p.lane_bits) - 1u));
  let row = block * (WG >> p.lane_bits) + (li >> p.lane_bits);
  let batch = row / p.height;
  if ((batch >= p.batches) | (c >= p.width)) { return; }
  let r = row - batch * p.height;
  let s = src_at(src_batch(batch), r, c);
  let d = dst_at(dst_batch(batch), r, c);
  // The number of bytes of the row up to the diagonal; `shift` is the diagonal in two's complement.
  let edge = clamp(bitcast<i32>(r + p.shift), 0, i32(p.width * W / p.item)) * i32(p.item);
  let kept = u32(clamp(edge - bitcast<i32>(c * W), 0, bitcast<i32>(W)));
//% if W == 16
  let mask = vec4<u32>(word_mask(0u, 0u, kept), word_mask(4u, 0u, kept), word_mask(8u, 0u, kept),
                       word_mask(12u, 0u, kept)) ^ vec4<u32>(p.flip);
  let value = vec4<u32>(p.value_lo, p.value_hi, p.value_lo, p.value_hi);
  dst_mem[d] = (src_mem[s] & mask) | (value & ~mask);
//% elif W == 8
  let mask = vec2<u32>(word_mask(0u, 0u, kept), word_mask(4u, 0u, kept)) ^ vec2<u32>(p.flip);
  dst_mem[d] = (src_mem[s] & mask) | (vec2<u32>(p.value_lo, p.value_hi) & ~mask);
//% else
  let mask = word_mask(0u, 0u, kept) ^ p.flip;
  let x = (${words.bits("src_mem", W, "s")} & mask) | (p.value_lo & ~mask);
//% if W == 4
  dst_mem[d] = x;
//% else
  ${words.store_shared("dst_mem", W, "d", "(x & " ~ ("0xffffu" if W == 2 else "0xffu") ~ ")")}
//% endif
  _ = p.value_hi;  // the second half of a pattern of eight bytes
//% endif
}
