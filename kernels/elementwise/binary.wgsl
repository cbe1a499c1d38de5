// /// kernel
// doc = """
// Operations on the elements of two tensors: the rows of ops.toml with body = "binary".
//
// `a` and `b` repeat to the shape of `dst` by numpy's rules. Any layout; `dst` may be `a`."""
// axes.OP = "ops"
// axes.T = { values = ["f32", "f16", "i32", "u32", "bool"], pick = "dtype(a)" }
// axes.OUT = { values = ["f32", "f16", "i32", "u32", "bool"], pick = "dtype(dst)" }
// axes.AV = { values = [1, 4], pick = "4 if it.vec(4, ('a', 'b')) and not it.repeats('a') else 1" }
// axes.BV = { values = [1, 4], pick = "4 if it.vec(4, ('a', 'b')) and not it.repeats('b') else 1" }
// axes.VEC = { values = [1, 4], pick = "max(AV, BV)" }
// when = ["T in ROW.dtypes", "OUT == ROW.out(T)", "VEC == max(AV, BV)"]
// inputs.a = { dtype = "T", vec = "AV", expand = "dst" }
// inputs.b = { dtype = "T", vec = "BV", expand = "dst" }
// outputs.dst = { dtype = "OUT", vec = "VEC", alias = "a" }
// iterate = "nd"
// vectors = "VEC"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation computes one element, or a vector of four if all tensors have whole vectors along
// the innermost axis (after axes are merged). Along this axis an input may also repeat one element
// (AV or BV is 1 then). Bytes: each element of the inputs is read once, if the caches hold repeated
// elements, and dst is written once.
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
