// /// kernel
// doc = "Each workgroup writes a sum of squares."
// part_of = "norm"
// axes.T = ["f32", "f16"]
// axes.WG = [256]
// pick.T = "dtype(x)"
// pick.WG = "256"
// inputs.x = { dtype = "T", readonly = true }
// outputs.sums = { dtype = "f32", axes = "g", index = false }
// iterate = "nd"
// uses = ["sums"]
// grid = "sums.shape[0]"
// ///

// An invocation takes elements at a distance of the number of all invocations.
${sums.memory("WG")}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let g = group_id(wg);
  if (g >= p.groups) { return; }
  var sum = 0.0f;
  for (var i = g * WG + li; i < p.total; i += p.groups * WG) {
    let v = x_load(x_index(i));
    sum = fma(v, v, sum);
  }
  ${sums.added("sum", "WG")}
  if (li == 0u) { sums_store(p.sums_off + g * p.sums_gs, sum); }
}
