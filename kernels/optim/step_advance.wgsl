// /// kernel
// doc = "Count a step: adds one to a number on the device, so that a captured step counts in each replay."
// outputs.count = { dtype = "i32", in_place = true, doc = "One element." }
// bytes = "2 * count.nbytes"
// operations = "1"
// grid = "1"
// ///

@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) wg: vec3<u32>) {
  if (group_id(wg) >= p.groups) { return; }
  count_mem[p.count_off] += 1;
}
