// /// kernel
// doc = """
// Operations on each element of one tensor: the rows of ops.toml with body = "unary".
//
// Any layout; `dst` may be `x`."""
// axes.OP = "ops"
// axes.T = { values = ["f32", "f16", "i32", "u32", "bool"], pick = "dtype(x)" }
// axes.OUT = { values = ["f32", "f16", "i32", "u32", "bool"], pick = "dtype(dst)" }
// axes.VEC = { values = [1, 4], pick = "4 if it.vec(4) else 1" }
// when = ["T in ROW.dtypes", "OUT == ROW.out(T)"]
// inputs.x = { dtype = "T", vec = "VEC" }
// outputs.dst = { dtype = "OUT", vec = "VEC", like = "x", alias = "x" }
// iterate = "nd"
// vectors = "VEC"
// grid = "cdiv(it.total, 512 if VEC == 4 else 256)"
// ///

// One invocation computes one element, or two vectors of four if all tensors have whole vectors
// along the innermost axis (after axes are merged). Both vectors are loaded before the first value
// is needed. Bytes: each element is read once and written once.
${ROW.functions(T, VEC)}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
//% if VEC == 4
  let i = group_id(wg) * 512u + li;
  if (i >= p.total) { return; }
  let j = i + 256u;
  let x = x_load(x_index(i));
  if (j >= p.total) {
    dst_store(dst_index(i), ${ROW.name}_of(x));
    return;
  }
  let other = x_load(x_index(j));
  dst_store(dst_index(i), ${ROW.name}_of(x));
  dst_store(dst_index(j), ${ROW.name}_of(other));
//% else
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), ${ROW.name}_of(x_load(x_index(i))));
//% endif
}
