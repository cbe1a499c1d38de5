// /// kernel
// doc = """
// Operations on each element of one tensor: the rows of ops.toml with body = "unary".
//
// Any layout; `dst` may be `x`."""
// axes.OP = "ops"
// axes.T = ["f32", "f16", "i32", "u32", "bool"]
// axes.OUT = ["f32", "f16", "i32", "u32", "bool"]
// axes.VEC = [1, 4]
// pick.T = "dtype(x)"
// pick.OUT = "dtype(dst)"
// pick.VEC = "4 if it.vec(4) else 1"
// when = ["T in ROW.dtypes", "OUT == ROW.out(T)"]
// inputs.x = { dtype = "T", vec = "VEC" }
// outputs.dst = { dtype = "OUT", vec = "VEC", like = "x", alias = "x" }
// iterate = "nd"
// vectors = "VEC"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation computes one element, or a vector of four where all tensors have whole vectors along
// the level that runs fastest. Bytes: each element is read once and written once.
${ROW.functions(T, VEC)}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  dst_store(dst_index(i), ${ROW.name}_of(x_load(x_index(i))));
}
