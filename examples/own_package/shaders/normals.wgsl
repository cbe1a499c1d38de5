// /// kernel
// doc = "Bring vectors of three numbers to length 1, in place. A vector of zeros stays."
// axes.WG = [64]
// pick.WG = "64"
// outputs.vectors = { dtype = "f32", axes = "n d", in_place = true, doc = "(count, 3)" }
// params.count = { type = "u32", value = "vectors.shape[0]" }
// grid = "cdiv(vectors.shape[0], WG)"
// operations = "9 * vectors.shape[0]"
// bytes = "2 * vectors.nbytes"
// ///

// An invocation for each vector.
@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let n = group_id(wg) * WG + li;
  if (n >= p.count) { return; }
  let at = p.vectors_off + n * p.vectors_ns + vec3<u32>(0u, 1u, 2u) * p.vectors_ds;
  let v = vec3<f32>(vectors_mem[at.x], vectors_mem[at.y], vectors_mem[at.z]);
  let size = length(v);
  if (size > 0.0f) {
    vectors_store(at.x, v.x / size);
    vectors_store(at.y, v.y / size);
    vectors_store(at.z, v.z / size);
  }
}
