// /// kernel
// doc = "a + share * (b - a), in f32; with a mask, the share of an element is multiplied by its mask."
// axes.T = ["f32", "f16"]
// axes.MASKED = [false, true]
// axes.WG = [256]
// pick.T = "dtype(a)"
// pick.MASKED = "True if mask else False"
// pick.WG = "256"
// inputs.a = { dtype = "T" }
// inputs.b = { dtype = "T", like = "a" }
// inputs.mask = { dtype = "f32", optional = true, when = "MASKED", broadcast = "a", doc = "Repeats to the shape of a." }
// outputs.dst = { dtype = "T", like = "a", alias = "a" }
// params.share = { type = "f32", default = 0.5, doc = "The share of b." }
// iterate = "nd"
// grid = "cdiv(it.total, WG)"
// operations = "3 * a.size"
// ///

// An invocation for each element.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * WG + li;
  if (i >= p.total) { return; }
//% if MASKED
  let share = p.share * mask_load(mask_index(i));
//% else
  let share = p.share;
//% endif
  let a = a_load(a_index(i));
  dst_store(dst_index(i), a + share * (b_load(b_index(i)) - a));
}
