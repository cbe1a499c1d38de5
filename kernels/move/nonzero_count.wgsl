// /// kernel
// doc = "Count the elements of each chunk that are not zero."
// part_of = "nonzero_offsets"
// axes.S = { values = [1, 2, 4, 8], pick = "src.dtype.itemsize" }
// include chunk
// inputs.src = { dtype = "*", bind = "'u32' if S <= 4 else 'vec2<u32>'" }
// outputs.offsets = { dtype = "i32", index = false, axes = "n" }
// params."keep_lo keep_hi" = { type = "u32" }
// iterate = "nd"
// uses = ["nonzero"]
// grid = "cdiv(it.total, CFG.UNROLL * CFG.threads)"
// ///

//% set UNROLL, WG = CFG.UNROLL, CFG.threads
// One workgroup takes a chunk; each invocation takes UNROLL elements that lie a workgroup apart.
var<workgroup> count: atomic<u32>;

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  if (li == 0u) { atomicStore(&count, 0u); }
  workgroupBarrier();
  let first = g * ${UNROLL * WG}u + li;
//% for k in range(UNROLL)
  let s${k} = src_index(min(first + ${WG * k}u, p.total - 1u));
  let x${k} = ${nonzero.test(S, "s" ~ k)};
//% endfor
  var own = 0u;
//% for k in range(UNROLL)
  own += select(0u, 1u, x${k} & (first + ${WG * k}u < p.total));
//% endfor
  atomicAdd(&count, own);
  workgroupBarrier();
  if (li == 0u) { offsets_store(p.offsets_off + (g + 1u) * p.offsets_ns, i32(atomicLoad(&count))); }
  _ = p.keep_hi;  // only elements of eight bytes have a second word
}
