// /// kernel
// doc = """
// Scale a tensor in place if a norm on the device is too large.
//
// x becomes x * min(1, max_norm / (norm + 1e-6))."""
// source = "Pascanu, Mikolov and Bengio 2013; torch.nn.utils.clip_grad_norm_"
// axes.T = { values = ["f32", "f16"], pick = "dtype(x)" }
// axes.VEC = { values = [1, 4], pick = "4 if it.vec(4) else 1" }
// inputs.norm = { dtype = "f32", index = false, doc = "One element." }
// outputs.x = { dtype = "T", vec = "VEC", in_place = true, doc = "The tensor to scale." }
// iterate = "nd"
// vectors = "VEC"
// params.max_norm = { type = "f32", default = 1.0, doc = "The largest norm." }
// bytes = "4 + 2 * x.nbytes"
// operations = "x.size"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation scales one element, or a vector of four if x has whole vectors along the innermost
// axis (after axes are merged). If nothing is clipped, nothing is written.
//% set value = "f32" if VEC == 1 else "vec4<f32>"

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  let norm = norm_load(p.norm_off);
  if (norm + 1e-6f <= p.max_norm) { return; }
  let at = x_index(i);
  x_store(at, ${value}(x_mem[at]) * (p.max_norm / (norm + 1e-6f)));
}
