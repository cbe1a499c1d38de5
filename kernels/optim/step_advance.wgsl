// /// kernel
// doc = "Counts a step: adds one to a number on the device, so that a captured step counts in each replay."
// inputs.skip = { dtype = "u32", optional = true, index = false, doc = "One element: if it is not 0, the step does not count." }
// outputs.count = { dtype = "i32", in_place = true, doc = "One element." }
// params.has_skip = { type = "u32", value = "1 if skip else 0" }
// bytes = "2 * count.nbytes"
// operations = "1"
// grid = "1"
// ///

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) wg: vec3<u32>) {
  if (group_id(wg) >= p.groups) { return; }
  if (p.has_skip == 1u) {
    if (skip_load(p.skip_off) != 0u) { return; }
  }
  count_mem[p.count_off] += 1;
}
