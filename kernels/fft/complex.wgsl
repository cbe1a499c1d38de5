// /// kernel
// doc = "Complex numbers from real parts and imaginary parts; imaginary parts that are not given are 0."
// axes.IM = { values = [false, true], pick = "imag is not None" }
// inputs.real = { dtype = "f32", expand = "dst" }
// inputs.imag = { dtype = "f32", when = "IM", optional = true, expand = "dst" }
// outputs.dst = { dtype = "*", dtypes = ["complex64"], bind = "'vec2<u32>'" }
// moves_bytes = true
// iterate = "nd"
// grid = "cdiv(it.total, 256)"
// ///

// One invocation computes one element.
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = group_id(wg) * 256u + li;
  if (i >= p.total) { return; }
  let x = real_load(real_index(i));
//% if IM
  let y = imag_load(imag_index(i));
//% else
  let y = 0.0f;
//% endif
  dst_mem[dst_index(i)] = bitcast<vec2<u32>>(vec2<f32>(x, y));
}
