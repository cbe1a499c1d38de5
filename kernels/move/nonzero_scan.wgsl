// /// kernel
// doc = "Computes running sums of counts in place: offsets[i] becomes offsets[1] + ... + offsets[i], and offsets[0] becomes 0."
// part_of = "nonzero_offsets"
// axes.WG = { values = [256], pick = "256" }
// outputs.offsets = { dtype = "i32", axes = "n" }
// params.count = { type = "u32", value = "offsets.shape[0]" }
// grid = "1"
// ///

// One workgroup goes through all counts, one for each invocation at a time.
var<workgroup> sums: array<i32, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  var before = 0;
  for (var first = group_id(wg); first < p.count; first += WG) {
    let i = first + li;
    let at = p.offsets_off + min(i, p.count - 1u) * p.offsets_ns;
    var own = select(0, offsets_mem[at], (i > 0u) & (i < p.count));
    sums[li] = own;
    workgroupBarrier();
    for (var step = 1u; step < WG; step *= 2u) {
      let left = select(0, sums[max(li, step) - step], li >= step);
      workgroupBarrier();
      own += left;
      sums[li] = own;
      workgroupBarrier();
    }
    if (i < p.count) { offsets_mem[at] = before + own; }
    before += sums[WG - 1u];
    workgroupBarrier();  // the next stores overwrite the sums
  }
}
