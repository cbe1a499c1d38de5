// /// kernel
// doc = """
// The count of each number in x: dst[b] is the number of elements that equal b, for b below dst's length.
//
// Counts are int32. They are made by atomic additions, whose order does not change the result. An
// element outside of [0, length) is not counted and raises IndexRangeError once, at the next
// synchronisation."""
// source = "numpy.bincount (meaning)"
// configs.each16 = { UNROLL = 16, threads = 256, SIZE = 2048 }
// axes.LOCAL = [false, true]
// axes.SHARE = { values = "configs", pick = "'each16'" }
// inputs.x = { dtype = "*", dtypes = ["int32", "uint32"], bind = "'u32'", doc = "Any shape" }
// outputs.dst = { dtype = "*", dtypes = ["int32"], bind = "'atomic<u32>'", index = false, axes = "n", doc = "(length,)" }
// iterate = "nd"
// params.bins = { type = "u32" }
// params.is_signed = { type = "u32", value = "1 if x.dtype.kind == 'i' else 0" }
// faults = true
// bytes = "touched(x, dst)"
// operations = "x.size"
// grid = "cdiv(it.total, CFG.UNROLL * CFG.threads)"
// ///

//% set WG, UNROLL = CFG.threads, CFG.UNROLL
// Each invocation takes UNROLL elements that lie a workgroup apart. With LOCAL, elements are
// counted in workgroup memory first.
//% if LOCAL
var<workgroup> counts: array<atomic<u32>, ${CFG.SIZE}>;
//% endif

@compute @workgroup_size(${WG})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  fault_started((g | li) == 0u);
//% if LOCAL
  for (var b = li; b < p.bins; b += ${WG}u) { atomicStore(&counts[b], 0u); }
  workgroupBarrier();
//% endif
  let first = g * ${WG * UNROLL}u + li;
//% for k in range(UNROLL)
  let v${k} = x_mem[x_index(min(first + ${k * WG}u, p.total - 1u))];
//% endfor
//% for k in range(UNROLL)
  if (first + ${k * WG}u < p.total) {
    if (v${k} < p.bins) {
//% if LOCAL
      atomicAdd(&counts[v${k}], 1u);
//% else
      atomicAdd(&dst_mem[p.dst_off + v${k} * p.dst_ns], 1u);
//% endif
    } else {
      fault(first + ${k * WG}u, v${k}, select(0u, 0xffffffffu, (p.is_signed == 1u) & (v${k} >= 0x80000000u)));
    }
  }
//% endfor
//% if LOCAL
  workgroupBarrier();
  for (var b = li; b < p.bins; b += ${WG}u) {
    let count = atomicLoad(&counts[b]);
    if (count > 0u) { atomicAdd(&dst_mem[p.dst_off + b * p.dst_ns], count); }
  }
//% endif
}
