// /// kernel
// doc = """
// Operations on the elements of a bool tensor and of two other tensors: the rows of ops.toml with
// body = "ternary".
//
// All inputs repeat to the shape of `dst` by numpy's rules. Any layout; `dst` may be `a`."""
// axes.OP = "ops"
// axes.T = { values = ["f32", "f16", "i32", "u32", "bool"], pick = "dtype(dst)" }
// axes.CV = { values = [1, 4], pick = "4 if it.vec(4, ('condition', 'a', 'b')) and not it.repeats('condition') else 1" }
// axes.AV = { values = [1, 4], pick = "4 if it.vec(4, ('condition', 'a', 'b')) and not it.repeats('a') else 1" }
// axes.BV = { values = [1, 4], pick = "4 if it.vec(4, ('condition', 'a', 'b')) and not it.repeats('b') else 1" }
// axes.VEC = { values = [1, 4], pick = "max(CV, AV, BV)" }
// when = ["T in ROW.dtypes", "VEC == max(CV, AV, BV)"]
// inputs.condition = { dtype = "bool", vec = "CV", expand = "dst" }
// inputs.a = { dtype = "T", vec = "AV", expand = "dst" }
// inputs.b = { dtype = "T", vec = "BV", expand = "dst" }
// outputs.dst = { dtype = "T", vec = "VEC", alias = "a" }
// iterate = "nd"
// vectors = "VEC"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation computes one element, or a vector of four if all tensors have whole vectors along
// the innermost axis (after axes are merged). Along this axis an input may also repeat one element.
// Bytes: each element of the inputs is read once, if the caches hold repeated elements, and dst is
// written once.
//% set kind = ROW.value(T, VEC)
//% set truth = ROW.value("bool", VEC)
${ROW.functions(T, VEC)}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  let condition = ${truth}(condition_load(condition_index(i)));
  let a = ${kind}(a_load(a_index(i)));
  let b = ${kind}(b_load(b_index(i)));
  dst_store(dst_index(i), ${ROW.name}_of(condition, a, b));
}
