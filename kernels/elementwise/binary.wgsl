// /// kernel
// doc = """
// Operations on the elements of two tensors: the rows of ops.toml with body = "binary".
//
// `a` and `b` repeat to the shape of `dst` by numpy's rules. Any layout; `dst` may be `a`."""
// axes.OP = "ops"
// axes.T = ["f32", "f16", "i32", "u32", "bool"]
// axes.OUT = ["f32", "f16", "i32", "u32", "bool"]
// axes.AV = [1, 4]
// axes.BV = [1, 4]
// axes.VEC = [1, 4]
// pick.T = "dtype(a)"
// pick.OUT = "dtype(dst)"
// pick.AV = "4 if it.vec(4, ('a', 'b')) and not it.repeats('a') else 1"
// pick.BV = "4 if it.vec(4, ('a', 'b')) and not it.repeats('b') else 1"
// pick.VEC = "max(AV, BV)"
// when = ["T in ROW.dtypes", "OUT == ROW.out(T)", "VEC == max(AV, BV)"]
// inputs.a = { dtype = "T", vec = "AV", expand = "dst" }
// inputs.b = { dtype = "T", vec = "BV", expand = "dst" }
// outputs.dst = { dtype = "OUT", vec = "VEC", alias = "a" }
// iterate = "nd"
// vectors = "VEC"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation computes one element, or a vector of four where all tensors have whole vectors along
// the level that runs fastest; there an input may also repeat one element (AV or BV is 1 then).
// Bytes: each element of the inputs is read once, if caches hold what repeats, and dst written once.
//% set kind = ROW.value(T, VEC)
${ROW.functions(T, VEC)}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  let a = ${kind}(a_load(a_index(i)));
  let b = ${kind}(b_load(b_index(i)));
  dst_store(dst_index(i), ${ROW.name}_of(a, b));
}
