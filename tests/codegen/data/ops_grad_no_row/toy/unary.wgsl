// /// kernel
// doc = "Operations on each element."
// axes.OP = "ops"
// axes.T = ["f32", "f16"]
// pick.T = "dtype(x)"
// when = ["T in ROW.dtypes"]
// inputs.x = { dtype = "T" }
// outputs.dst = { dtype = "T", like = "x" }
// iterate = "nd"
// grid = "cdiv(it.total, 64)"
// ///

${ROW.functions(T, 1)}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 64u + li;
  if (i < p.total) { dst_store(dst_index(i), ${ROW.name}_of(x_load(x_index(i)))); }
}
